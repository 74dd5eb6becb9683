"""The verdict on one answer, by strings alone: no model judges another."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

#: Words that only one of the two languages has, and that no sentence of some length does without.
_WORDS = {
    "fr": frozenset("le la les des du une est et dans pour que qui sur pas par au aux ce cette vous sont avec".split()),
    "en": frozenset("the of and to is in that for are with this it you by not be or from can your was".split()),
}
_CITED = re.compile(r"\[(\d{1,3})\]")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
#: A citation behind the full stop belongs to the sentence before it.
_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?!\[\d)|(?<=\])\s+(?=[A-ZÀ-Ý])|\n+")
_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
#: How a text says that the passages hold no answer.
_REFUSAL = re.compile(
    r"ne (?:contien|précis|mentionn|donn|fourni|indiqu|permet|figur|parl|trouv|sai[ts]|peu[xt] pas)"
    r"|n['’](?:est pas (?:mention|précis|indiqu|fourni|donn|disponib)|indiqu|a pas|ai pas|y a pas|apparaî)"
    r"|pas (?:d['’]information|de réponse|mentionn|précis|indiqu|trouv)|aucune (?:information|mention|réponse)"
    r"|\bn(?:o|ot any) (?:information|mention|answer)|(?:do|does|did|is|are|was)(?: not|n['’]t) "
    r"(?:contain|mention|specif|provid|state|includ|hold|give|say|indicat|address|available|found|answer)"
    r"|cannot (?:be )?(?:find|found|answer|determine)|can['’]t (?:find|answer)|unable to"
)
_MARKS = str.maketrans({"’": "'", "\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " "})


def plain(text: str) -> str:
    """As facts and texts are compared: one kind of apostrophe and space, no emphasis, no case."""
    text = unicodedata.normalize("NFC", text).translate(_MARKS).replace("*", "").replace("_", "").casefold()
    return " ".join(text.split())


def numbers(text: str) -> set[str]:
    """`3 500`, `3,500` and `3500` are one number; those of citations and of numbered lists are none."""
    text = re.sub(r"^\s*\d+[.)]\s", " ", _CITED.sub(" ", text.translate(_MARKS)), flags=re.M)
    text = re.sub(r"(?<=\d)[ ,.](?=\d{3}\b)", "", text)
    return set(_NUMBER.findall(text))


def language_of(text: str) -> str:
    """`fr`, `en`, `?` where both have as many small words, or nothing where the text has none of either."""
    counts = Counter(re.findall(r"[^\W\d_]+", _CODE.sub(" ", text).casefold()))
    found = {language: sum(counts[word] for word in words) for language, words in _WORDS.items()}
    best = max(found, key=lambda language: found[language])
    return best if found[best] > min(found.values()) else "?" if found[best] else ""


def is_refusal(text: str) -> bool:
    return _REFUSAL.search(plain(text)) is not None


def facts_in(text: str, facts: Sequence[str]) -> int:
    """How many of the facts stand in the text; `a|b` is one fact in two spellings."""
    said = plain(text)
    return sum(any(plain(spelling) in said for spelling in fact.split("|")) for fact in facts)


def verdict(text: str, facts: Sequence[str], *, is_refused: bool) -> str:
    """`right`, `half`, `wrong`, `refused`. Of a question that the documents do not answer: `refused`, else `wrong`."""
    found = facts_in(text, facts)
    if facts and found == len(facts):
        return "right"
    if is_refused or is_refusal(text):
        return "refused"
    return "half" if found else "wrong"


def citations(text: str, sources: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """By sentence: whether it cites, and whether every number of it stands in a passage that the answer cites there.

    A sentence without a citation of its own leans on the next one of its paragraph, as people write.
    """
    passages = {source["n"]: str(source["text"]) + " " + str(source.get("question") or "") for source in sources}
    cited = {int(number) for number in _CITED.findall(text)}
    factual = with_citation = with_number = supported = 0
    for paragraph in _CODE.sub(" ", text).split("\n\n"):
        sentences = [part for part in _SENTENCE.split(paragraph) if len(part.split()) > 3]
        for position, sentence in enumerate(sentences):
            own = _CITED.findall(sentence) or _CITED.findall(" ".join(sentences[position + 1 :]))
            factual += 1
            with_citation += bool(own)
            if said := numbers(sentence):
                with_number += 1
                given = numbers(" ".join(passages.get(int(number), "") for number in own))
                supported += said <= given
    return {
        "cites": bool(cited),
        "citations_valid": bool(cited) and cited <= passages.keys(),
        "factual": factual,
        "with_citation": with_citation,
        "with_number": with_number,
        "supported": supported,
    }
