"""The page of a document that a citation leads to."""

import re
from typing import Any
from unittest.mock import patch

from django.core.cache import cache
from django.test import TestCase
from django.urls import reverse
from fpdf import FPDF

from agents.models import Audience, Deployment, Specialist
from chat.access.permissions import passage_token
from chat.models import Message, Role
from knowledge.indexing.path import index_documents, store_document
from knowledge.models import Chunk, Document
from knowledge.page_viewer import Box, CitedPages
from tests.factories import make_agent, make_conversation, make_deployment, make_exchange, make_user, source_of

TEXTS = ("Le télétravail est ouvert deux jours par semaine. ", "La prime est versée en juin. ")


def guide() -> bytes:
    pdf = FPDF(unit="pt", format="A4")
    for text in TEXTS:
        pdf.add_page()
        pdf.set_font("helvetica", size=11)
        pdf.multi_cell(0, 14, text * 24)
    return bytes(pdf.output())


class CitedPageTests(TestCase):
    def setUp(self) -> None:
        cache.clear()
        self.deployment = make_deployment(make_agent())
        self.document = store_document(agent=self.deployment.agent, name="guide.pdf", data=guide()).document
        index_documents(agent=self.deployment.agent, documents=[self.document])
        self.chunk = Chunk.objects.filter(document=self.document).order_by("index")[0]
        self.reader = make_user()
        self.turn = self.cite(self.chunk)
        self.client.force_login(self.reader)

    def cite(self, chunk: Chunk) -> Any:
        conversation = make_conversation(self.deployment, user=self.reader)
        turn = make_exchange(conversation, "Et ?", "Oui [1].")
        answers = Message.objects.filter(turn=turn, role=Role.ASSISTANT)
        answers.update(sources=[source_of(chunk, page=1)])
        return turn

    def page(self) -> Any:
        return self.client.get(reverse("cited-passage", args=[passage_token(self.turn.pk, 1)]))

    def image(self, page: int = 1, *, headers: dict[str, str] | None = None) -> Any:
        token = passage_token(self.turn.pk, 1)
        return self.client.get(reverse("cited-page-image", args=[token, page]), headers=headers)

    def test_page_of_a_file_that_has_replaced_the_one_that_was_read_is_not_shown(self) -> None:
        self.assertContains(self.page(), "cited-page")
        store_document(agent=self.deployment.agent, name="guide.pdf", data=guide() + b"%")
        self.assert_closed()

    def test_source_of_an_own_answer_leads_to_its_page(self) -> None:
        address = reverse("turn-source-page", args=[self.turn.pk, 1])
        response = self.client.get(address, follow=True)
        self.assertContains(response, "Page 1")
        assert response.redirect_chain[0][0].endswith("/#passage")
        self.client.force_login(make_user())
        assert self.client.get(address).status_code == 404

    def test_passage_is_marked_where_it_stands(self) -> None:
        html = self.page().content.decode()
        [box] = re.findall(r'<rect id="passage" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', html)
        x, y, width, height = map(float, box)
        assert x < 10
        assert y < 10
        assert 80 < width < 100
        assert 5 < height < 40

    def test_it_opens_where_the_passage_begins_and_not_at_a_footnote(self) -> None:
        note, body = [1, 0.1, 0.9, 0.8, 0.93], [2, 0.1, 0.1, 0.8, 0.4]
        Chunk.objects.filter(pk=self.chunk.pk).update(places=[note, body])
        first, second = self.page().content.decode().split('id="page-2"')
        assert 'id="passage"' not in first
        assert second.count('id="passage"') == 1
        begun = [1, 0.1, 0.7, 0.8, 0.9]
        Chunk.objects.filter(pk=self.chunk.pk).update(places=[begun, body])
        assert 'id="passage"' in self.page().content.decode().split('id="page-2"')[0]

    def test_passage_that_is_thin_on_each_of_many_pages_opens_too(self) -> None:
        boxes: dict[int, list[Box]] = {page: [(10.0, 10.0, 80.0, 5.0)] for page in range(1, 9)}
        assert CitedPages(self.document, boxes).opens_on == 1
        assert CitedPages(self.document, {3: []}).opens_on == 3

    def test_page_is_drawn_apart_and_kept_by_this_browser_alone(self) -> None:
        response = self.image()
        assert response.content.startswith(b"\x89PNG\r\n")
        assert "private" in response["Cache-Control"]
        again = self.image(headers={"If-None-Match": response["ETag"]})
        assert again.status_code == 304
        with patch("knowledge.page_viewer.draw_page") as draw:
            assert self.image().content == response.content
        draw.assert_not_called()

    def test_page_that_the_passage_does_not_stand_on_is_not_shown(self) -> None:
        assert self.image(2).status_code == 404

    def test_passage_page_shows_the_source_as_the_chat_page_does(self) -> None:
        source = {
            "n": 1,
            "title": "Guide > Prix > Quel prix ?",
            "question": "Quel prix ?",
            "text": "`12` euros, voir le décret [12]. <script>x</script>",
        }
        Message.objects.filter(role=Role.ASSISTANT).update(sources=[source])
        page = self.client.get(reverse("cited-passage", args=[passage_token(self.turn.pk, 1)]))
        assert "noindex" in page["X-Robots-Tag"]
        assert page["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in page["Content-Security-Policy"]
        text = page.content.decode()
        assert '<h1 dir="auto">Quel prix ?</h1>' in text
        assert '<p class="passage-question" dir="auto">Guide › Prix</p>' in text
        assert "<code>12</code> euros, voir le décret [12]." in text
        assert "<script>x" not in text

    def assert_closed(self) -> None:
        """No page; what the passage says, to whom the deployment is open."""
        assert "cited-page" not in self.page().content.decode()
        assert self.image().status_code == 404

    def test_deployment_that_does_not_show_pages_shows_none(self) -> None:
        self.deployment.config_overlay = {"show_cited_pages": False}
        self.deployment.save()
        self.assert_closed()
        home = self.client.get(reverse("chat-deployment", args=[self.deployment.slug]))
        assert home.context["config"]["urls"]["citedPage"] == ""

    def test_no_page_is_promised_where_one_of_several_agents_shows_none(self) -> None:
        other = make_agent(show_cited_pages=False)
        Specialist.objects.create(deployment=self.deployment, agent=other)
        home = self.client.get(reverse("chat-deployment", args=[self.deployment.slug]))
        assert home.context["config"]["urls"]["citedPage"] == ""

    def test_page_of_what_is_closed_gone_or_of_others_is_not_shown(self) -> None:
        chunk, documents = Chunk.objects.filter(pk=self.chunk.pk), Document.objects.all()
        rows: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
            (Deployment.objects.all(), {"audience": Audience.GROUPS}, {"audience": self.deployment.audience}),
            (chunk, {"enabled": False}, {"enabled": True}),
            (documents, {"enabled": False}, {"enabled": True}),
            (documents, {"agent": make_agent()}, {"agent": self.deployment.agent}),
        ]
        for row, closed, opened in rows:
            row.update(**closed)
            self.assert_closed()
            row.update(**opened)
            self.assertContains(self.page(), "cited-page")
        self.chunk.delete()
        self.assert_closed()

    def test_forged_address_opens_nothing(self) -> None:
        for name, more in (("cited-passage", []), ("cited-page-image", [1])):
            address = reverse(name, args=[f"{passage_token(self.turn.pk, 1)}x", *more])
            assert self.client.get(address).status_code == 404

    def test_page_that_cannot_be_drawn_says_so_and_is_tried_again_later(self) -> None:
        self.document.file.storage.delete(str(self.document.file.name))
        Document.objects.update(file_hash="another")
        with self.assertLogs("knowledge.page_viewer"):
            response = self.image()
        assert response.status_code == 503
        assert response["Retry-After"]

    def test_damaged_file_and_a_page_of_any_size_stay_within_bounds(self) -> None:
        with self.document.file.open("wb") as file:
            file.write(b"%PDF-1.4 nothing\n%%EOF")
        Document.objects.update(file_hash="damaged")
        with self.assertLogs("knowledge.page_viewer"):
            assert self.image().status_code == 503
        pdf = FPDF(unit="pt", format=(14_000, 14_000))
        pdf.add_page()
        with self.document.file.open("wb") as file:
            file.write(bytes(pdf.output()))
        Document.objects.update(file_hash="huge")
        picture = self.image().content
        width, height = (int.from_bytes(picture[at : at + 4]) for at in (16, 20))
        assert width * height <= 2_500_000

    def test_a_document_without_pages_shows_the_text_of_the_passage(self) -> None:
        Chunk.objects.update(places=None)
        self.assertContains(self.page(), "passage-text")
        self.assert_closed()
