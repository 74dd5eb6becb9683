"""The plural of the project's own texts, which are French: « 0 question », « 1 question », « 2 questions »."""

from gettext import NullTranslations
from weakref import WeakSet

from django.utils.translation.trans_real import translation


class FrenchPlurals(NullTranslations):
    """What a text without a catalogue's entry is in French; gettext's own rule, the English one, says « 0 questions »."""

    def ngettext(self, singular: str, plural: str, count: int) -> str:
        return singular if abs(count) < 2 else plural


_taught: WeakSet[NullTranslations] = WeakSet()


def count_in_french(**_kwargs: object) -> None:
    """When all apps are loaded: the texts of the code are French and stand in no catalogue. Said again, it adds
    nothing.
    """
    if (french := translation("fr")) not in _taught:
        french.add_fallback(FrenchPlurals())
        _taught.add(french)
