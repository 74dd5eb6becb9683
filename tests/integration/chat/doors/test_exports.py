"""A conversation as a file, for its owner alone."""

import io
import json
from typing import Any

from django.test import Client
from markdown_it import MarkdownIt
from pypdf import PdfReader

from chat.models import Conversation, Message
from chat.thread.turns import claim_turn
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
        text = "".join(
            page.extract_text() for page in PdfReader(io.BytesIO(self.export("pdf").content)).pages
        )
        for part in ("Été à l’", "« Œuvre »", "10 €", "• un", "c | d", "Guide > Salles", "« ? »"):
            assert part in text.replace("  ", " ").replace("\u00a0", " "), (part, text)

    def test_any_text_makes_a_pdf(self) -> None:
        for text in (
            "",
            "x" * 5_000,
            "# \n> > - 1. a\n\n```\n" + "y" * 300,
            "\u202e\u0007\U0001f600",
        ):
            Message.objects.filter(pk=self.answer.pk).update(content=text)
            assert self.export("pdf").content.startswith(b"%PDF"), text[:20]

    def test_only_the_owner_exports_and_only_known_formats(self) -> None:
        assert self.export("md", Client()).status_code == 404
        assert self.export("docx").status_code == 422

    def test_export_follows_the_branch(self) -> None:
        claimed = claim_turn(
            conversation_id=self.conversation.pk,
            client_message_id="a",
            question="Autrement ?",
            replaces=self.turn.pk,
        )
        assert claimed.is_new
        exchanges = json.loads(self.export("json").content)["exchanges"]
        assert [exchange["question"] for exchange in exchanges] == ["Autrement ?"]
