"""What is shown of a passage: the passage with its neighbours of the same section, as far as there is room."""

from django.test import TestCase

from chat.turn.quoting import MAX_QUOTE_CHARACTERS, widened
from knowledge.models import Chunk, Document, DocumentStatus
from knowledge.search import Passage, PointType
from tests.factories import make_agent


def hit(chunk: Chunk) -> Passage:
    return Passage(
        point_id=f"p{chunk.pk}",
        type=PointType.SOURCE_MATERIAL,
        score=0.7,
        content=chunk.content,
        question="",
        title="Guide",
        parent_context=chunk.parent_context,
        category="",
        summary="",
        document_id=chunk.document_id,
        chunk_id=chunk.pk,
        chunk_index=chunk.index,
    )


class WideningTests(TestCase):
    def setUp(self) -> None:
        document = Document.objects.create(agent=make_agent(), name="guide.md", status=DocumentStatus.INDEXED)
        texts = ["Avant.", "La règle vaut pour tous :", "- sauf les mineurs", "Ailleurs."]
        paths = ["Prêt", "Prêt", "Prêt", "Recours"]
        self.chunks = [
            Chunk.objects.create(document=document, index=at, content=text, parent_context=path, content_hash=str(at))
            for at, (text, path) in enumerate(zip(texts, paths, strict=True))
        ]

    def test_a_rule_comes_with_what_stands_around_it_in_its_section(self) -> None:
        (shown,) = widened([hit(self.chunks[1])], 3)
        assert shown.content == "Avant.\n\nLa règle vaut pour tous :\n\n- sauf les mineurs"
        assert shown.chunk_id == self.chunks[1].pk

    def test_a_passage_that_an_earlier_one_shows_is_left_out(self) -> None:
        shown = widened([hit(each) for each in self.chunks[1:]], 3)
        assert [each.chunk_id for each in shown] == [self.chunks[1].pk, self.chunks[3].pk]

    def test_there_is_no_room_beside_a_long_passage(self) -> None:
        self.chunks[1].content = "x" * (MAX_QUOTE_CHARACTERS - 3)
        self.chunks[1].save()
        (shown,) = widened([hit(self.chunks[1])], 1)
        assert shown.content == self.chunks[1].content

    def test_a_disabled_neighbour_is_not_shown(self) -> None:
        Chunk.objects.filter(pk=self.chunks[2].pk).update(enabled=False)
        (shown,) = widened([hit(self.chunks[1])], 1)
        assert shown.content == "Avant.\n\nLa règle vaut pour tous :"
