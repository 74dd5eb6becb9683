"""Commands with `--json`: exactly one object with the keys of the contract; errors say what to do."""

import json
import threading
import uuid
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import TransactionTestCase

from agents.models import Deployment
from chat.models import Conversation, Turn
from tests.constants import override
from tests.factories import FAQ_TEXT, TEST_THRESHOLDS, set_settings
from tests.integration.chat.turn.test_path import NEAR, scripted
from tests.scripted import ScriptedReply
from tests.terminal import run

KNOWN = "Combien coûte la carte de lecteur ?"
ANSWER_KEYS = {
    *("question", "answer", "answer_source", "model", "score", "best_score", "sources"),
    *("llm_calls", "rounds", "efficiency", "trace", "conversation_id", "turn_id"),
}
SOURCE_KEYS = {"n", "title", "document_id", "chunk_id", "type", "question", "score", "text"}
REPORT_KEYS = {
    *("documents", "chunks", "points", "embedded", "reused", "model_calls"),
    *("waiting", "skipped", "failed", "seconds"),
    "rejected",
}


class CommandTests(TransactionTestCase):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        (tmp_path / "faq.md").write_text(FAQ_TEXT, encoding="utf-8")

    def setUp(self) -> None:
        # Its own slug for each test: a vector store outside the database keeps what a test left.
        self.slug = f"library-{uuid.uuid4().hex[:8]}"
        call_command("create_agent", self.slug, stdout=StringIO())
        set_settings(None, **TEST_THRESHOLDS)

    def test_agent_comes_with_a_deployment_of_the_same_slug(self) -> None:
        assert Deployment.objects.get(slug=self.slug).agent.slug == self.slug
        with pytest.raises(CommandError, match="exists already"):
            call_command("create_agent", self.slug)
        with pytest.raises(CommandError, match="not a slug"):
            call_command("create_agent", "no slug!")

    def test_bad_files_are_named_and_the_rest_is_done(self) -> None:
        (self.folder / "vide.md").write_bytes(b"")
        (self.folder / "photo.xyz").write_bytes(b"x")
        report = run("add_documents", self.slug, self.folder, self.folder / "absent.md")
        assert {row["item"].rsplit("/", 1)[-1] for row in report["failed"]} == {"vide.md", "absent.md"}
        assert [row["item"] for row in report["skipped"]] == ["photo.xyz"]
        assert (set(report), report["documents"]) == (REPORT_KEYS, 1)

    def test_search_prints_the_keys_of_the_contract(self) -> None:
        run("add_documents", self.slug, self.folder)
        results = run("search", self.slug, KNOWN, "--limit", 2)["results"]
        assert set(results[0]) == {*("content", "question", "title", "type", "score", "document_id", "chunk_id")}
        assert results[0]["question"] == KNOWN
        assert len(results) == 2

    def test_ask_prints_the_keys_of_the_contract_and_stores_the_turn(self) -> None:
        run("add_documents", self.slug, self.folder)
        row = run("ask", self.slug, KNOWN)
        assert set(row) == ANSWER_KEYS
        assert set(row["sources"][0]) == SOURCE_KEYS | {"date"}
        assert (row["answer_source"], row["model"], row["llm_calls"]) == ("direct_qa", "direct_qr_match", 0)
        assert str(Turn.objects.get().pk) == row["turn_id"]
        run("ask", self.slug, KNOWN, "--conversation", row["conversation_id"])
        assert Conversation.objects.count() == 1
        assert (run("ask", self.slug, KNOWN, "--dry-run")["turn_id"], Turn.objects.count()) == (None, 2)

    def test_ask_says_that_it_waits(self) -> None:
        run("add_documents", self.slug, self.folder)
        rest, told, out = threading.Event(), StringIO(), StringIO()
        told.write = lambda text: rest.set() or len(text)  # type: ignore[method-assign,func-returns-value]
        with scripted(ScriptedReply(["Oui [1]."], rest=rest)), override(BEAT_SECONDS=0.01), redirect_stderr(told):
            call_command("ask", self.slug, NEAR, "--dry-run", stdout=out)
        assert "Oui [1]." in out.getvalue()

    def test_evaluation_compares_with_expectations_without_writing(self) -> None:
        run("add_documents", self.slug, self.folder)
        lines = [
            {"question": KNOWN, "answer_source": "direct_qa", "contains": "12 euros"},
            {"question": "xylophone zygote kiwi ?", "answer_source": "llm"},
            {"question": "Qui range les livres ?"},
        ]
        file = self.folder / "questions.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)))
        out = StringIO()
        with pytest.raises(SystemExit):
            call_command("evaluate", self.slug, str(file), "--json", stdout=out)
        result = json.loads(out.getvalue())
        assert [set(row) >= ANSWER_KEYS for row in result["rows"]] == [True] * 3
        assert [row["passed"] for row in result["rows"]] == [True, False, True]
        assert (result["summary"]["questions"], result["summary"]["passed"]) == (3, 1)
        assert Turn.objects.count() == 0

    def test_rebuild_preview_and_rollback_print_their_keys(self) -> None:
        run("add_documents", self.slug, self.folder)
        preview = run("rebuild_agent_index", self.slug, "--dry-run")
        assert (preview["added"], preview["removed"], preview["changed"]) == (0, 0, 0)
        rebuilt = run("rebuild_agent_index", self.slug)
        assert set(rebuilt) == REPORT_KEYS | {"generation"}
        assert run("rebuild_agent_index", self.slug, "--rollback")["generation"] < rebuilt["generation"]
        with pytest.raises(CommandError):
            call_command("rebuild_agent_index", self.slug, "--rollback")

    def test_errors_say_what_to_do(self) -> None:
        with pytest.raises(CommandError, match="create_agent"):
            call_command("ask", "nowhere", "Où ?")
        with pytest.raises(CommandError, match="add_documents|documents"):
            call_command("search", self.slug, "Où ?")
        with pytest.raises(CommandError):
            call_command("evaluate", self.slug, str(self.folder / "absent.jsonl"))
