"""The words of an agent's texts follow its index."""

from django.test import TestCase

from agents.cache import TtlCache
from agents.models import IndexingMethod
from knowledge.search import is_vocabulary_known, vocabulary_of
from knowledge.vectors.base import collection_alias
from tests.factories import add_document, make_agent


class VocabularyTests(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.name = collection_alias(self.agent.slug, IndexingMethod.QA_ATOMIC)

    def test_words_are_read_with_their_spelling_and_remembered(self) -> None:
        assert not vocabulary_of([self.name]).forms, "there is no index yet"
        TtlCache.clear_all()
        add_document(self.agent)
        words = vocabulary_of([self.name])
        assert words.forms["bibliotheque"] == "bibliothèque"
        assert is_vocabulary_known([self.name])
        assert vocabulary_of([self.name]) is words

    def test_unchanged_index_is_not_read_again_and_a_changed_one_is(self) -> None:
        add_document(self.agent)
        words = vocabulary_of([self.name])
        TtlCache.clear_all()
        assert vocabulary_of([self.name]) is words
        add_document(self.agent, name="b.md", text="## Où garer sa trottinette ?\n\nAu parking.\n")
        TtlCache.clear_all()
        assert "trottinette" in vocabulary_of([self.name]).forms
