"""What is tried with every program, when a try has done what it should, and the table of it in `docs/api.md`."""

from collections.abc import Mapping

#: What each try of a program printed: a text, or the error that it raised.
Found = dict[str, str]
Rows = dict[str, Found]
#: What the answer to the known question says.
RIGHT = "deux ans"
#: Its source.
SOURCE = "Conservation des candidatures"
#: Of every program, by the name of its try. The others are of some, and stand in the last column.
COLUMNS = {
    "models": "models",
    "plain": "plain",
    "stream": "stream",
    "sources": "sources",
    "tools": "tools sent",
    "stop": "stop",
    "follow_up": "follow-up",
    "errors": "errors",
    "wrong_key": "wrong key",
    "refusing": "model refuses",
    "silent": "model silent",
}
#: Tries whose answer is the right one; of the others it is enough that something came.
_ANSWERED = {"plain", "stream", "tools", "stop", "text", "responses"}
#: Tries that fail, and a word of what a person is told, in English: the programs name no language.
_TOLD = {"errors": "deployment", "refusing": "language model", "silent": "language model"}
HEAD = (f"| program | {' | '.join(COLUMNS.values())} | also |", "| --- " * (len(COLUMNS) + 2) + "|")


def is_right(name: str, said: str) -> bool:
    if name == "wrong_key":
        return "rsk_wrong" not in said and ("401" in said or "key" in said)
    if name in _TOLD:
        return _TOLD[name] in said and "Traceback" not in said
    if said.startswith("ERROR"):
        return False
    if name == "sources":
        return "/p/" in said or SOURCE in said
    return RIGHT in said if name in _ANSWERED else bool(said.strip())


def wrong(found: Mapping[str, str]) -> Found:
    return {name: said for name, said in found.items() if not is_right(name, said)}


def row(program: str, found: Mapping[str, str]) -> str:
    """A line of the table: ✓ what works, ✗ what does not, – what the program has no word for."""
    cells = [_cell(name, found) for name in COLUMNS]
    also = ", ".join(name.replace("text", "completions") for name in found if name not in COLUMNS)
    return f"| {program} | {' | '.join(cells)} | {also} |"


def _cell(name: str, found: Mapping[str, str]) -> str:
    if name not in found:
        return "–"
    if name == "sources" and "/p/" not in found[name] and is_right(name, found[name]):
        return "written"
    return "✓" if is_right(name, found[name]) else "✗"
