"""Rows of an import in a terminal: shown side by side with what they would replace, and asked for one by one."""

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from textwrap import wrap

from faqs.answers.differences import compare_fields, mark_words
from faqs.files.answers_csv import FaqRow
from faqs.files.importing import PlannedRow, RowKind, StoredAnswer
from faqs.models import LearnedStatus

_MIN_WIDTH = 60
_ANSWERS = "y: yes, n: no, a: this and all that follow, q: none of the rest"


def can_ask() -> bool:
    """Whether a person reads and writes here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_for_rows(rows: Sequence[PlannedRow], *, write: Callable[[str], object]) -> set[int]:
    """The lines of the file that a person chooses; an end of input chooses none of the rest."""
    chosen: set[int] = set()
    for position, planned in enumerate(rows, start=1):
        for line in side_by_side(planned):
            write(line)
        answer = _answer(f"  Import it? ({position} of {len(rows)}; {_ANSWERS}) [n] ", write)
        if answer == "a":
            return chosen | {each.row.line for each in rows[position - 1 :]}
        if answer == "q":
            break
        if answer == "y":
            chosen.add(planned.row.line)
    return chosen


def side_by_side(planned: PlannedRow) -> Iterator[str]:
    """A row beside the answer that it would replace or contradict: `[-gone-]` on the left, `{+new+}` on the right."""
    old = planned.old
    if old is None:
        return
    width = max(_MIN_WIDTH, shutil.get_terminal_size().columns)
    column = (width - 7) // 2
    yield f"line {planned.row.line}: {planned.row.question}"
    for each in planned.contradicts:
        yield f"  contradicts: {each.question}"
    yield f"    {'now':<{column}} | in the file"
    before, after = _texts(old), _texts(planned.row)
    if planned.kind == RowKind.CONTRADICTORY:
        before, after = {"answer": old.answer}, {"answer": planned.row.answer}
    for change in compare_fields(before, after):
        yield f"  {change.label}"
        left = _lines(mark_words(change.before, "[-", "-]"), column)
        right = _lines(mark_words(change.after, "{+", "+}"), column)
        for one, other in zip_longest(left, right, fillvalue=""):
            yield f"    {one:<{column}} | {other}".rstrip()


def _answer(prompt: str, write: Callable[[str], object]) -> str:
    """One letter; what is none of them is asked again."""
    while True:
        write(prompt)
        said = sys.stdin.readline()
        if not said:
            return "q"
        answer = said.strip().lower() or "n"
        if answer in ("y", "n", "a", "q", "yes", "no"):
            return answer[0]


def _texts(state: StoredAnswer | FaqRow) -> dict[str, str]:
    status = state.status if isinstance(state, StoredAnswer) else LearnedStatus.VALID
    return {
        "question": state.question,
        "phrasings": "\n".join(sorted(state.phrasings)),
        "answer": state.answer,
        "category": state.category,
        "status": str(status),
    }


def _lines(text: str, width: int) -> list[str]:
    return [piece for line in text.splitlines() for piece in wrap(line, width) or [""]]
