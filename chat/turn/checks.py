"""The check of an answer that a model wrote (step 13 of the path): pure, by the form of the text.

`defect` names what makes an answer worse than the quotation of its passages, which then takes its place. `unsupported`
finds statements whose numbers no passage holds that they cite. What fails either is never learned.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents.llm.base import Reply
from knowledge.language.numbers import values_in
from knowledge.language.words import common_stem, fold, is_foreign, same_writing, turns_in_circles, word_class, words
from tools_registry.tool import is_call

Defect = Literal[
    "", "empty", "only_number", "only_header", "echo", "repeated", "language", "loop", "call_as_text", "cut"
]

CITATION = re.compile(r"[ \t\u00a0]*\[(\d{1,3})\]")
#: So an answer begins that may turn out to be a call or a bare number: readers wait for more of it.
UNDECIDED = re.compile(r"\A\s*(?:\{|<|\[\s*\{|```(?:json)?\s*(?:[\[{]|\Z)|[\W\d_]{0,40}\Z)")
SENTENCE = re.compile(r"(?<=[.!?…])(?:[»\"”)]|[ ]?\[\d+\])*\s+|\n+")
_SENTENCE_END = re.compile(r"[.!?…:](?:\s|[»\"”)*]|\[\d|\Z)|\n")
_MARKER = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+", re.MULTILINE)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
#: Shorter answers may well be said twice in a row.
_WORTH_REPEATING = 80
#: The share of a question's words that a cited passage holds at least where it is about the same subject.
_SAME_SUBJECT = 0.6


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer is checked against."""

    question: str
    #: The language of the answer, and whether the question itself is sure to be in it.
    language: str
    is_sure: bool
    sources: Sequence[Mapping[str, Any]]
    previous_question: str = ""
    previous_answer: str = ""


#: What is shown to nobody, also where nothing can be quoted in its place.
UNUSABLE = ("empty", "only_number", "only_header", "loop", "call_as_text")


def defect(reply: Reply, text: str, asked: Asked, *, may_be_number: bool = False) -> Defect:
    """The first defect of an answer (`text`: as shown), or an empty string; a tool's answer may be a number."""
    plain = CITATION.sub("", text).strip()
    if not any(map(str.isalpha, plain)) and not (may_be_number and any(map(str.isdigit, plain))):
        return "only_number" if any(map(str.isdigit, text)) else "empty"
    if is_call(text):
        return "call_as_text"
    if reply.finish_reason in ("length", "content_filter") and not has_sentence(text):
        return "cut"
    if _is_header(text, asked.sources):
        return "only_header"
    if same_writing(plain, asked.question):
        return "echo"
    is_again = len(plain) >= _WORTH_REPEATING and same_writing(plain, CITATION.sub("", asked.previous_answer))
    if is_again and not same_writing(asked.question, asked.previous_question):
        return "repeated"
    prose = words(fold(_CODE.sub(" ", plain)))
    if turns_in_circles(prose):
        return "loop"
    return "language" if is_foreign(plain, asked.question, asked.language, is_sure=asked.is_sure) else ""


def has_sentence(text: str) -> bool:
    """Whether a text has come to the end of a sentence or of a line."""
    return _SENTENCE_END.search(text.strip()) is not None


def _is_header(text: str, sources: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the answer is the line that heads a passage in the prompt, and no more."""
    if not re.match(r"\W*(?:\[\d|source \d)", fold(text)):
        return False
    said = words(fold(re.sub(r"(?i)\[[^\]]*\]|\bsources?\s+\d+", " ", text)))
    return any(set(said) <= set(words(fold(str(each["title"])))) for each in sources)


def cited(text: str) -> set[int]:
    return {int(number) for number in CITATION.findall(_CODE.sub("", text))}


def unsupported(text: str, asked: Asked) -> list[str]:
    """The statements with a number that is in no passage they cite, nor in the question; without a citation, in none."""
    held = {
        each["n"]: values_in(f"{each['title']}\n{each.get('question', '')}\n{each['text']}") for each in asked.sources
    }
    known = values_in(f"{asked.question}\n{asked.previous_answer}")
    found = []
    for sentence in SENTENCE.split(_CODE.sub(" ", _MARKER.sub("", text))):
        values = values_in(CITATION.sub("", sentence), digits_only=True) - known
        numbers = cited(sentence) & held.keys() or held.keys()
        if values and not values <= set().union(*(held[number] for number in numbers)):
            found.append(sentence.strip())
    return found


def is_of_another_subject(text: str, asked: Asked) -> bool:
    """Whether the passages that an answer cites lack the names, numbers or most words of its question."""
    numbers = cited(text)
    passages = "\n".join(
        f"{each['title']}\n{each.get('question', '')}\n{each['text']}" for each in asked.sources if each["n"] in numbers
    )
    have = {common_stem(word) for word in words(fold(passages))}
    telling = {common_stem(word) for word in words(fold(asked.question)) if word not in word_class("stop_words")}
    names = re.findall(r"(?<![.?!]\s)(?<!^)\b[A-ZÀ-Ý][\w-]+|\b[A-Z]{2,}\b|\b\w*\d\w*\b", asked.question)
    if any(common_stem(word) not in have for name in names for word in words(fold(name))):
        return True
    return bool(telling) and len(telling & have) < _SAME_SUBJECT * len(telling)
