"""What identifies an entry of the memory, and to whom it may answer. Pure; no database.

A key names the question as it was asked, apart from case, spaces and closing punctuation; two questions with one key
ask the same thing. An audience is a short text that an entry keeps from the day it was learned.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from agents.models import Audience
from knowledge.embeddings.base import Recipe
from knowledge.language.folding import fold_keeping_accents

_CLOSING = " ?!.…\u00a0\u202f"
_GROUPS = f"{Audience.GROUPS.value}:"

#: The phase of what the desk learns by itself: the answer is a summary of passages.
PHASE = "summary"


@dataclass(frozen=True, slots=True)
class Scope:
    """The phase and the project (seed 000, section 3) of a conversation that names them.

    What is learned there answers in conversations of the same two only, and nothing else answers there. It sorts
    answers; it is no wall: who may ask what is the audience's.
    """

    phase: str
    project: str


def normalised_question(question: str) -> str:
    """Case, spaces and closing punctuation do not make another question; accents do (« ou », « où »)."""
    return " ".join(fold_keeping_accents(question).split()).rstrip(_CLOSING)


def key_hash(*, phase: str, project: str, question: str) -> str:
    """SHA-256 of phase, project and normalised question (seed 000, section 3)."""
    return hashlib.sha256(f"{phase}{project}{normalised_question(question)}".encode()).hexdigest()


def question_hash(question: str) -> str:
    return hashlib.sha256(normalised_question(question).encode()).hexdigest()


def answer_digest(answer: str) -> str:
    """The same as MD5 in SQL, where an answer is compared with the one that was reported."""
    return hashlib.md5(answer.encode(), usedforsecurity=False).hexdigest()


@lru_cache(maxsize=64)
def recipe_key(recipe: Recipe) -> str:
    """Vectors with the same key are comparable."""
    text = json.dumps(recipe.as_json(), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def audience_key(audience: str, group_ids: Iterable[int] = ()) -> str:
    """`public`, `signed_in`, or `groups:3,7`."""
    if audience != Audience.GROUPS:
        return str(audience)
    return _GROUPS + ",".join(str(pk) for pk in sorted(group_ids))


def may_answer(entry_audience: str, current_audience: str) -> bool:
    """Whether everybody who can ask now belonged to the audience that the entry was learned for.

    A public answer may be given to members; an answer learned among some groups is given to those groups, or to fewer.
    """
    if entry_audience == Audience.PUBLIC or entry_audience == current_audience:
        return True
    if not current_audience.startswith(_GROUPS):
        return False
    if entry_audience == Audience.SIGNED_IN:
        return True
    return entry_audience.startswith(_GROUPS) and _groups(current_audience) <= _groups(entry_audience)


def _groups(audience: str) -> set[str]:
    return {pk for pk in audience.removeprefix(_GROUPS).split(",") if pk}
