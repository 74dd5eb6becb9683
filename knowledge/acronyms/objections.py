"""Why two forms that staff wrote are no synonyms: a small word of the grammar is one of them, or they are opposites. Pure.

Opposites are told by the second key, which is lent by the app that owns it (`register_opposition_check`).
"""

from collections.abc import Callable

from django.utils.translation import gettext as _

from knowledge.language.classes import word_class
from knowledge.language.folding import fold, words

_SMALL = word_class("stop_words")

_opposition_checks: list[Callable[[str, str], bool]] = []


def register_opposition_check(are_opposites: Callable[[str, str], bool]) -> None:
    """Have `are_opposites` asked about every pair that staff add; registered once, at start."""
    _opposition_checks.append(are_opposites)


def objection_to(short: str, long: str) -> str:
    """What a person is told of a pair that would make different questions one; empty where nothing is known against it."""
    small = [form for form in (short, long) if _is_small(form)]
    # « PAS » and "US" are acronyms, written as such; two small words are none.
    if len(small) == 2 or any(not form.isupper() for form in small):
        return _("« %(form)s » est un mot outil : il n’a pas de synonyme.") % {"form": small[0]}
    if any(are_opposites(short, long) for are_opposites in _opposition_checks):
        return _("« %(short)s » et « %(long)s » sont des contraires.") % {
            "short": short,
            "long": long,
        }
    return ""


def _is_small(form: str) -> bool:
    found = words(fold(form))
    return bool(found) and all(word in _SMALL for word in found)
