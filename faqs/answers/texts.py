"""The texts of validated answers: cleaned, checked, and freed of what an answer has for its reader only. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from faqs.exceptions import AnswerRejectedError
from faqs.memory.keys import normalised_question

_CITED = re.compile(r"\[(\d{1,3})\]")
#: What an answer has for its reader only: its source line and its citations.
_SOURCE_LINE = re.compile(r"\n+\*[^*\n]+\*\s*\[\d+\]\s*$")
_NUMBER = re.compile(r"[ \t\u00a0]*\[\d{1,3}\](?!\()")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def one_line(text: str) -> str:
    """A question on one line, without characters that cannot be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def clean_answer(text: str) -> str:
    """Return an answer with unix line ends, trimmed, without control characters and halves of characters.

    Every space stays what it is: French typography has no-break and narrow no-break ones, and scripts have joiners.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c for c in lines if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")).strip()


def without_citations(answer: str) -> str:
    """The text of an answer without its source line and its numbers of sources; brackets in code are code."""
    text = _SOURCE_LINE.sub("", answer)
    pieces, position = [], 0
    for code in _CODE.finditer(text):
        pieces += [_NUMBER.sub("", text[position : code.start()]), code[0]]
        position = code.end()
    return "".join([*pieces, _NUMBER.sub("", text[position:])]).strip()


def other_phrasings(question: str, phrasings: Iterable[str]) -> list[str]:
    """The phrasings that say anything new, each once, in their order."""
    seen, kept = {normalised_question(question)}, []
    for text in map(one_line, phrasings):
        if text and (key := normalised_question(text)) not in seen:
            seen.add(key)
            kept.append(text)
    return kept


def check_texts(question: str, answer: str, phrasings: Sequence[str] = (), *, needs_answer: bool = True) -> None:
    """Raise `AnswerRejectedError` for what is empty or longer than the settings allow."""
    longest, most = settings.QA_MAX_QUESTION_CHARACTERS, settings.FAQ_MAX_PHRASINGS
    if not any(c.isalnum() for c in question):
        raise AnswerRejectedError(_("La question est vide."))
    if needs_answer and not answer:
        raise AnswerRejectedError(_("La réponse est vide."))
    if any(len(text) > longest for text in (question, *phrasings)):
        raise AnswerRejectedError(_("Une question dépasse %(limit)d caractères.") % {"limit": longest})
    if len(answer) > settings.QA_MAX_ANSWER_CHARACTERS:
        raise AnswerRejectedError(
            _("La réponse dépasse %(limit)d caractères.") % {"limit": settings.QA_MAX_ANSWER_CHARACTERS}
        )
    if len(phrasings) > most:
        raise AnswerRejectedError(_("Il y a plus de %(limit)d formulations.") % {"limit": most})
    if any(not any(c.isalnum() for c in text) for text in phrasings):
        raise AnswerRejectedError(_("Une formulation est vide."))


def cited_sources(answer: str, sources: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The sources that an answer cites decide where it came from; all of them, where it cites none."""
    cited = {int(number) for number in _CITED.findall(_CODE.sub("", answer))}
    return [source for source in sources if source.get("n") in cited] or sources
