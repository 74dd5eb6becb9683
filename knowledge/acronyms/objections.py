"""Why two forms that staff wrote are no synonyms: a small word of the grammar is one of them, or they are opposites.
Pure.

Opposites are told by the second key, and answers that the pair would set against each other by their rows; both are
lent by the app that owns them (`register_opposition_check`, `register_conflict_check`).
"""

from collections.abc import Callable, Iterator
from itertools import islice

from django.utils.translation import gettext as _

from agents.hooks import Hooks
from knowledge.language.classes import word_class
from knowledge.language.folding import fold, words

_SMALL = word_class("stop_words")

#: What staff are shown of the questions that a pair would make one.
_SHOWN_CONFLICTS = 3

#: For the key of an agent and the two forms: pairs of questions that would be one, though people answered them
#: differently.
ConflictCheck = Callable[[int, str, str], Iterator[tuple[str, str]]]

_conflict_checks: Hooks[ConflictCheck] = Hooks()
#: Asked about every pair that staff add.
register_conflict_check = _conflict_checks.register
_opposition_checks: Hooks[Callable[[str, str], bool]] = Hooks()
#: Asked about every pair that staff add.
register_opposition_check = _opposition_checks.register


def conflicts_with(agent_id: int, short: str, long: str) -> str:
    """What a person is told of validated answers that the pair would set against each other; empty where there are
    none.
    """
    found = [
        pair
        for find_conflicts in _conflict_checks
        for pair in islice(find_conflicts(agent_id, short, long), _SHOWN_CONFLICTS)
    ]
    if not found:
        return ""
    questions = " ; ".join(f"« {one} » / « {other} »" for one, other in found)
    return _(
        "Ces questions deviendraient une seule, alors que leurs réponses validées diffèrent : %(questions)s. "
        "Si les deux formes veulent vraiment dire la même chose, corrigez d’abord l’une des deux réponses."
    ) % {"questions": questions}


def objection_to(short: str, long: str) -> str:
    """What a person is told of a pair that would make different questions one; empty where nothing is known against it."""
    small = [form for form in (short, long) if _is_small(form)]
    # « PAS » and "US" are acronyms, written as such; two small words are none.
    if len(small) == 2 or any(not form.isupper() for form in small):
        return _("« %(form)s » est un mot outil : il n’a pas de synonyme.") % {"form": small[0]}
    if any(are_opposites(short, long) for are_opposites in _opposition_checks):
        return _("« %(short)s » et « %(long)s » sont des contraires.") % {"short": short, "long": long}
    return ""


def _is_small(form: str) -> bool:
    found = words(fold(form))
    return bool(found) and all(word in _SMALL for word in found)
