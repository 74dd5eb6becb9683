"""A conversation as a file, for its owner alone."""

import io
import json
import threading
from typing import Any
from unittest import mock

from django.test import AsyncClient, Client
from fpdf import FPDF
from markdown_it import MarkdownIt
from pypdf import PdfReader

from chat.doors.http.archive import FORMATS
from chat.models import Conversation, Message
from chat.thread.turns import claim_turn
from tests.constants import override
from tests.factories import make_exchange
from tests.readers import QUESTION, ReaderTest


class ExportTests(ReaderTest):
    def export(self, name: str, client: Client | None = None) -> Any:
        url = f"/api/conversations/{self.conversation.pk}/export"
        return (client or self.client).get(url, {"format": name})

    def test_markdown_has_questions_answers_and_sources(self) -> None:
        response = self.export("md")
        text = response.content.decode()
        assert response["Content-Type"].startswith("text/markdown")
        assert "attachment" in response["Content-Disposition"]
        for part in (f"# {QUESTION}", f"> {QUESTION}", "À l’accueil [1].", "[1] Guide > Salles"):
            assert part in text

    def test_sources_are_named_with_page_question_and_address(self) -> None:
        url = "https://a.example/regles"
        given = {"n": 1, "title": "Guide", "question": "Où ?", "text": "", "page": 3, "url": url}
        self.source(given)
        assert f"- [1] Guide, p. 3 – Où ? – {url}" in self.export("md").content.decode()
        assert f"[1] Guide, p. 3 – Où ? – {url}" in self.pdf_text()
        self.source({**given, "url": "javascript:alert(1)"})
        assert "javascript" not in self.export("md").content.decode()

    def test_titles_of_others_are_no_markup(self) -> None:
        evil = "[ici](javascript:x) <img src=x> `c` ![p](http://a.example/p.png)"
        self.source({"n": 1, "title": evil, "question": evil, "text": ""})
        Conversation.objects.update(title=evil)
        lines = self.export("md").content.decode().splitlines()
        for line in (lines[0], lines[-1]):
            html = MarkdownIt().render(line.replace("[1] ", ""))
            assert not any(tag in html for tag in ("<a", "<img", "<code")), html
            assert "![p](http://a.example/p.png)" in html

    def test_json_is_whole(self) -> None:
        [exchange] = json.loads(self.export("json").content)["exchanges"]
        assert (exchange["question"], exchange["complete"]) == (QUESTION, True)
        assert exchange["sources"][0]["text"] == "Le texte."

    def test_pdf_shows_french_and_says_what_it_cannot_show(self) -> None:
        answer = "Été à l’« Œuvre » : 10 €.\n\n- un\n- deux\n\n| a | b |\n|---|---|\n| c | d |\n\n`x`\n\nЖ"
        Message.objects.filter(pk=self.answer.pk).update(content=answer)
        text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(self.export("pdf").content)).pages)
        for part in ("Été à l’", "« Œuvre »", "10 €", "• un", "c | d", "Guide > Salles", "« ? »"):
            assert part in text.replace("  ", " ").replace("\u00a0", " "), (part, text)

    def test_pdf_shows_an_answer_as_the_page_does(self) -> None:
        answer = (
            "Il est ~~permis~~ interdit : [la règle](https://a.example/r), https://b.example.\n\n"
            "- [x] fait\n\n![Le plan](https://a.example/plan.png)\n\n$a_1 * b_2$ et 20 km.\n\n$$\nc_1 * d_2\n$$"
        )
        Message.objects.filter(pk=self.answer.pk).update(content=answer)
        text = self.pdf_text()
        for part in (
            "~~permis~~ interdit",
            "la règle (https://a.example/r), https://b.example.",
            "[x] fait",
            "Le plan (https://a.example/plan.png)",
            "$a_1 * b_2$ et 20 km.",
            "c_1 * d_2",
        ):
            assert part in text, (part, text)

    def test_any_text_makes_a_pdf(self) -> None:
        for text in ("", "x" * 5_000, "# \n> > - 1. a\n\n```\n" + "y" * 300, "\u202e\u0007\U0001f600"):
            Message.objects.filter(pk=self.answer.pk).update(content=text)
            assert self.export("pdf").content.startswith(b"%PDF"), text[:20]

    def pdf_text(self) -> str:
        read = PdfReader(io.BytesIO(self.export("pdf").content))
        text = "".join(page.extract_text() for page in read.pages)
        return " ".join(text.replace("\u00a0", " ").split())

    def test_long_conversation_as_pdf_has_its_newest_and_says_what_is_left_out(self) -> None:
        for number in range(3):
            make_exchange(self.conversation, f"Et la salle {number} ?", "Par ici.\n" * 30)
        with override(EXPORT_PDF_MAX_LINES=70):
            text = self.pdf_text()
        assert "Les 2 échanges les plus anciens ne sont pas dans ce document" in text
        shown = [number for number in range(3) if f"Et la salle {number} ?" in text]
        assert shown == [1, 2]
        assert "ne sont pas dans ce document" not in self.pdf_text()

    def test_the_newest_exchange_is_in_a_pdf_however_long_it_is(self) -> None:
        with override(EXPORT_PDF_MAX_LINES=0):
            assert "À l’accueil" in self.pdf_text()

    def test_a_pdf_measures_each_word_once(self) -> None:
        words = " ".join(f"mot{number}" for number in range(50))
        Message.objects.filter(pk=self.answer.pk).update(content=f"{words}\n\n" * 40)
        with mock.patch.object(FPDF, "get_string_width", autospec=True, return_value=4.0) as width:
            self.export("pdf")
        measured = [call.args[1] for call in width.call_args_list if len(call.args) > 1]
        assert measured.count("mot7") == 1

    async def test_a_file_is_written_beside_the_event_loop(self) -> None:
        written_in = []

        def write(conversation: Conversation) -> bytes:
            written_in.append(threading.current_thread())
            return b""

        client = AsyncClient()
        client.cookies = self.client.cookies
        with mock.patch.dict(FORMATS, pdf=("application/pdf", write)):
            address = f"/api/conversations/{self.conversation.pk}/export"
            assert (await client.get(address, {"format": "pdf"})).status_code == 200
        assert written_in != [threading.current_thread()]

    def test_only_the_owner_exports_and_only_known_formats(self) -> None:
        assert self.export("md", Client()).status_code == 404
        assert self.export("docx").status_code == 422

    def test_export_follows_the_branch(self) -> None:
        claimed = claim_turn(
            conversation_id=self.conversation.pk, client_message_id="a", question="Autrement ?", replaces=self.turn.pk
        )
        assert claimed.is_new
        exchanges = json.loads(self.export("json").content)["exchanges"]
        assert [exchange["question"] for exchange in exchanges] == ["Autrement ?"]
