"""A conversation as a file, for its owner alone."""

import json
import threading
from typing import Any
from unittest import mock

from django.test import AsyncClient, Client
from markdown_it import MarkdownIt

from chat.api.conversations import FORMATS
from chat.models import Conversation
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

    def test_sources_are_named_with_page_question_and_address(self) -> None:
        url = "https://a.example/regles"
        given = {"n": 1, "title": "Guide", "question": "Où ?", "text": "", "page": 3, "url": url}
        self.source(given)
        assert f"- [1] Guide, p. 3 – Où ? – {url}" in self.export("md").content.decode()
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

    async def test_a_file_is_written_beside_the_event_loop(self) -> None:
        written_in = []

        def write(conversation: Conversation) -> bytes:
            written_in.append(threading.current_thread())
            return b""

        client = AsyncClient()
        client.cookies = self.client.cookies
        with mock.patch.dict(FORMATS, json=("application/json", write)):
            address = f"/api/conversations/{self.conversation.pk}/export"
            assert (await client.get(address, {"format": "json"})).status_code == 200
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
