"""The second key: do a stored question and an asked one ask for the same thing?

A cosine finds questions about the same subject; it does not tell « activer » from « désactiver » or 2023 from 2024. The
vetoes compare numbers, dates, units, negations, opposites, names, the kind of the question, its scope, who does what to
whom, and finally every word that carries content. What they cannot explain counts as a disagreement, because a refused
answer costs a model call and a wrong one costs trust.

Pure and symmetric, no model, no database. Callers show `explain()` in a trace; they never serve on agreement alone.
"""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from faqs.second_key.comparison import Comparison
from faqs.second_key.disagreement import Disagreement, explain_differences, in_words
from faqs.second_key.lexicon import lexicon_of
from faqs.second_key.reading import MAX_CHARACTERS, read_pair
from faqs.second_key.vetoes import disagreements_of
from knowledge.acronyms.readings import NO_FORMS, Forms
from knowledge.language.classes import LANGUAGES
from knowledge.language.folding import fold, same_writing, words


@dataclass(frozen=True, slots=True)
class Agreement:
    disagreements: tuple[Disagreement, ...]

    @property
    def agrees(self) -> bool:
        return not self.disagreements

    @property
    def is_open_to_verification(self) -> bool:
        """Nothing but plain words that the rules cannot explain: no typed clash, no name."""
        return bool(self.disagreements) and all(each.kind == "content" for each in self.disagreements)

    def reasons(self) -> tuple[str, ...]:
        return tuple(map(in_words, self.disagreements))

    def explain(self) -> str:
        if self.agrees:
            return _("Les deux questions demandent la même chose.")
        return explain_differences(self.disagreements)


AGREED = Agreement(())


def compare_questions(stored: str, asked: str) -> Agreement:
    """Every difference found between the two questions, the most telling kinds first.

    A text longer than `MAX_CHARACTERS` agrees with none but itself.
    """
    if max(len(stored), len(asked)) > MAX_CHARACTERS:
        return _compare_lengths(stored, asked)
    first, second = read_pair(stored, asked)
    if not first.items and not second.items and stored.split() != asked.split():
        return Agreement((Disagreement("content", stored.strip(), asked.strip()),))
    return Agreement(tuple(disagreements_of(Comparison(first, second))))


def ask_the_same(stored: str, asked: str, forms: Forms = NO_FORMS) -> bool:
    """The second key turned: the same writing, or no difference found, once both stand in one writing of the forms."""
    one, other = forms.one_writing(stored), forms.one_writing(asked)
    return same_writing(one, other) or compare_questions(one, other).agrees


def are_opposites(first: str, second: str) -> bool:
    """Whether two words or phrases are known as opposites, in any language that has a lexicon."""
    pair = words(fold(first)), words(fold(second))
    lexicons = [lexicon_of(language) for language in LANGUAGES]
    return any(frozenset(lexicon.concept(tuple(form)) for form in pair) in lexicon.opposites for lexicon in lexicons)


def _compare_lengths(stored: str, asked: str) -> Agreement:
    if stored == asked:
        return Agreement(())
    return Agreement((Disagreement("length", str(len(stored)), str(len(asked))),))
