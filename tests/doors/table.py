"""`docs/doors.md`, a page that the suite writes from what it met and git ignores: sections of rows, a column a role.

What a role may meet is said by the rules of `tests/integration/doors/`, not by the page.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "doors.md"
_HEAD = """\
# Doors and roles

What each role met at each door of the site, as the suite drove it with rows behind it. Read a cell as: the status; `r`
where the answer shows a row that only some may read; `w` where rows changed; `sign-in` leads to a page to sign in; `·`
is 405, no such method there. `(closed)` is a deployment for a group in which none of the roles is; `(in it)` sends the
id of the owner's conversation; `forged` is the owner without the token of the page's forms.
"""


def write(section: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    """Put the rows in the place of those of the section."""
    text = _PAGE.read_text() if _PAGE.exists() else _HEAD
    lines = [f"## {section}", "", _line(["door", *columns]), _line(["---"] * (len(columns) + 1))]
    lines += [_line([f"`{door}`", *rows[door]]) for door in sorted(rows)]
    others = re.sub(rf"## {section}\n.*?(?=\n## |\Z)", "", text, flags=re.DOTALL)
    _PAGE.write_text(others.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
