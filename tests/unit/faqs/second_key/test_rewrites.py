"""Each rewrite rule keeps its word: its examples hold, and one of them needs it."""

import pytest

from faqs.second_key.agreement import compare_questions
from faqs.second_key.lexicon import Fragments, Lexicon, Rule, lexicon_of, rewritten
from faqs.second_key.reading import read_question

STAGES = ("accents", "contractions", "rewrites")
RULES = [
    pytest.param(lexicon_of(language), stage, rule, id=f"{language}-{rule.id}")
    for language in ("fr", "en")
    for stage in STAGES
    for rule in getattr(lexicon_of(language), stage)
]


@pytest.mark.parametrize(("lexicon", "stage", "rule"), RULES)
def test_the_examples_of_a_rule_hold(lexicon: Lexicon, stage: str, rule: Rule) -> None:
    assert rule.why
    for one, two in rule.same:
        assert compare_questions(one, two).agrees, compare_questions(one, two).disagreements
    for one, two in rule.different:
        assert not compare_questions(one, two).agrees, (one, two)


@pytest.mark.parametrize(("lexicon", "stage", "rule"), RULES)
def test_an_example_needs_its_rule(lexicon: Lexicon, stage: str, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    others = tuple(each for each in getattr(lexicon, stage) if each is not rule)
    read_question.cache_clear()
    monkeypatch.setattr(lexicon, stage, others)
    same = [compare_questions(*pair).agrees for pair in rule.same]
    different = [compare_questions(*pair).agrees for pair in rule.different]
    read_question.cache_clear()
    assert not all(same) or any(different)


def test_a_rule_may_be_written_as_phrases_and_fragments() -> None:
    fragments = Fragments({"article": "le | la", "thing": "{article} (?:chat|chien)"})
    table = {"animal": {"why": "…", "phrases": "{thing} | un animal", "to": "bete"}}
    assert rewritten("voir le chien et un animal", fragments.rules(table)) == "voir bete et bete"
    assert rewritten("voir le chienne", fragments.rules(table)) == "voir le chienne"
