"""The phase and the project of a conversation: what the memory learned under them answers under the same two only."""

import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

from django.test import TestCase
from hypothesis import given
from hypothesis import strategies as st

from agents.database import in_database
from chat.models import AnswerSource, Conversation
from chat.runs.afterwards import settle
from chat.runs.terminal import _request, answer_row
from chat.turn.path import run_turn
from faqs.memory import PHASE, Scope, key_hash
from faqs.memory_file import export_memory, import_memory
from faqs.models import CachedResponse
from faqs.recall import refusal_text, scope_of
from tests.factories import make_conversation, make_deployment, make_entry, make_library
from tests.integration.chat.turn.test_path import NEAR, Listener, scripted
from tests.readers import LibraryCase

OPEN = "Quels sont les horaires de la piscine ?"
WRITTEN = "Elles se réservent à l'accueil [1]."
SCOPES = [("", ""), ("audit", ""), ("audit", "pont"), ("cadrage", "pont"), ("", "pont")]


class ScopeTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_library(config_overlay={"memory_threshold": 0.7, "memory_learning": "valid"})

    async def ask(self, question: str, phase: str = "", project: str = "") -> dict[str, object]:
        names = {"phase": phase, "project": project}
        conversation = await in_database(lambda: make_conversation(self.deployment, **names))
        request = await in_database(_request, self.deployment, question, conversation.pk, False)
        result = await run_turn(request, Listener())
        await settle(request, result)
        return answer_row(request, result)

    async def test_what_one_scope_learned_answers_in_no_other(self) -> None:
        for phase, project in SCOPES:
            with scripted(f"À l'accueil, sous trois semaines {phase} {project} [1]."):
                first = await self.ask(NEAR, phase, project)
            assert first["answer_source"] == AnswerSource.LLM, (phase, project)
        for phase, project in SCOPES:
            with scripted():
                again = await self.ask(NEAR, phase, project)
            assert again["answer_source"] == AnswerSource.MEMORY_GUARD
            assert again["answer"] == f"À l'accueil, sous trois semaines {phase} {project} [1]."

    async def test_key_is_the_one_of_the_seed(self) -> None:
        with scripted(WRITTEN):
            await self.ask(NEAR, "audit", "pont")
        entry = await CachedResponse.objects.aget()
        assert entry.key_hash == key_hash(phase="audit", project="pont", question=NEAR)
        assert (entry.metadata["phase"], entry.metadata["project"]) == ("audit", "pont")

    async def test_refusal_is_told_to_staff(self) -> None:
        await in_database(lambda: make_entry(self.deployment, phase="audit", project="pont", is_scoped=True))
        with scripted("Je ne sais pas."):
            told = (await self.ask(OPEN))["trace"]
        assert isinstance(told, list)
        line = next(line for line in told if line["step"] == "memory_guard")
        assert line["outcome"] == "refused"
        (refused,) = line["refused"]
        assert refused["reason"] == "scope"
        assert "apprise dans une autre phase ou un autre projet" in refusal_text(refused)

    async def test_entry_that_is_not_kept_to_its_scope_answers_outside_and_in_it(self) -> None:
        await in_database(lambda: make_entry(self.deployment, phase="audit", project="pont"))
        for phase, project in (("", ""), ("audit", "pont")):
            assert (await self.ask(OPEN, phase, project))["answer_source"] == AnswerSource.MEMORY_GUARD
        with scripted("Je ne sais pas."):
            assert (await self.ask(OPEN, "cadrage", "pont"))["answer_source"] == AnswerSource.LLM

    async def test_two_scopes_that_look_the_same_joined_are_two(self) -> None:
        first, second, third = "À l’accueil [1].", "Les salles, à l’accueil [1].", "Elles se réservent à l’accueil [1]."
        with scripted(first, second, third):
            await self.ask(NEAR, "ab", "c")
            assert (await self.ask(NEAR, "a", "bc"))["answer"] == second
            assert (await self.ask(NEAR, "a", "bc"))["answer"] == third
            assert (await self.ask(NEAR, "ab", "c"))["answer"] == first

    def test_scope_survives_a_file(self) -> None:
        make_entry(self.deployment, phase="audit", project="pont", is_scoped=True)
        other = make_deployment()
        with TemporaryDirectory() as folder:
            export_memory(CachedResponse.objects.all(), Path(folder) / "memory.db")
            import_memory(other, Path(folder) / "memory.db", to_review=False)
        assert CachedResponse.objects.get(deployment=other).is_scoped


class DoorTests(LibraryCase):
    def setUp(self) -> None:
        self.client.get("/")

    def test_conversation_is_opened_with_a_phase_and_a_project(self) -> None:
        body = {"deployment": self.deployment.slug, "phase": " audit ", "project": "pont"}
        made = self.client.post("/api/conversations/", body, "application/json")
        assert made.status_code == 201
        assert (made.json()["phase"], made.json()["project"]) == ("audit", "pont")
        url = f"/api/conversations/{made.json()['id']}/"
        self.client.patch(url, {"title": "t", "phase": "autre"}, "application/json")
        stored = Conversation.objects.get()
        assert (stored.phase, stored.project) == ("audit", "pont")

    def test_names_too_long_or_not_texts_are_refused(self) -> None:
        for wrong in ("x" * 81, ["a"], {"a": 1}):
            body = {"deployment": self.deployment.slug, "phase": wrong}
            made = self.client.post("/api/conversations/", body, "application/json")
            assert made.status_code == 400, wrong

    async def test_question_opens_a_conversation_with_them_and_none_changes_them(self) -> None:
        def body(**more: object) -> dict[str, object]:
            return {"message": "bonjour", "clientMessageId": str(uuid.uuid4()), **more}

        async def post(**more: object) -> int:
            response = await self.async_client.post("/api/rag/chat", body(**more), "application/json")
            if response.status_code == 200:
                async for _piece in response:  # type: ignore[attr-defined]
                    pass
            return response.status_code

        slug = self.deployment.slug
        assert await post(deployment=slug, phase="audit", project="pont") == 200
        stored = await Conversation.objects.aget()
        assert (stored.phase, stored.project) == ("audit", "pont")
        known = str(stored.pk)
        assert await post(conversationId=known) == 200
        assert await post(conversationId=known, phase="audit") == 200
        assert await post(conversationId=known, phase="cadrage") == 422
        for wrong in ("x" * 81, 7, ["a"], "a\0b"):
            assert await post(deployment=slug, phase=wrong) == 422
        assert await in_database(Conversation.objects.count) == 1


NAMES = st.text(max_size=3)


@given(NAMES, NAMES)
def test_a_conversation_without_names_has_no_scope_and_every_other_one_has(phase: str, project: str) -> None:
    scope = scope_of(phase=phase, project=project, deployment_slug="desk")
    named = (phase or PHASE, project or "desk")
    assert scope == (None if named == (PHASE, "desk") else Scope(*named))
