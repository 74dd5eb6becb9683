"""`/v1`, without a network: keys, refusals and what becomes of the client's thread."""

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any
from unittest import mock

from django.http import StreamingHttpResponse
from django.test import AsyncClient
from django.utils import timezone

from agents.database import in_database
from agents.errors import LLMCutError, LLMRateLimitedError, LLMTimeoutError
from agents.llm.base import language_model
from agents.models import Audience, Deployment
from chat.models import AnswerSource, ApiKey, Channel, Conversation, Message, Turn, TurnStatus
from chat.runs.afterwards import generate_title
from faqs.models import CachedResponse
from tests.constants import override
from tests.factories import make_api_key, make_deployment
from tests.integration.chat.turn.test_path import KNOWN, NEAR, ask, model, scripted
from tests.integration.chat.turn.test_tool_loop import closed, ran, served, weather
from tests.readers import LibraryCase
from tests.scripted import ScriptedReply
from tests.servers.model_server import ModelReply, ModelServer
from tests.tools import asking, call, declared
from tests.unit.agents.test_llm_reasoning import FORMS

ADDRESS = "/v1/chat/completions"


def chunks_of(body: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def by_user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


class V1Tests(LibraryCase):
    secret: str

    def setUp(self) -> None:
        ran.clear()

    @classmethod
    def setUpTestData(cls) -> None:
        super().setUpTestData()
        cls.secret = make_api_key(cls.deployment)

    async def post(self, _secret: str | None = None, _headers: Any = None, _address: str = ADDRESS, **body: Any) -> Any:
        secret = self.secret if _secret is None else _secret
        body = {"model": self.deployment.slug, "messages": by_user(KNOWN), **body}
        return await AsyncClient().post(
            _address, body, "application/json", headers={"Authorization": f"Bearer {secret}", **(_headers or {})}
        )

    async def ask(self, *messages: tuple[str, Any], **more: Any) -> Any:
        said = [{"role": role, "content": content} for role, content in messages]
        return await self.post(messages=said, **more)

    async def get(self, path: str) -> Any:
        return await AsyncClient().get(path, headers={"Authorization": f"Bearer {self.secret}"})

    async def refused(self, **body: Any) -> tuple[int, dict[str, Any]]:
        response = await self.post(**body)
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
        return response.status_code, error

    async def said(self, response: Any) -> str:
        """The text of an answer, whole or streamed."""
        if not response.streaming:
            return str(response.json()["choices"][0]["message"]["content"])
        chunks = await self.streamed(response)
        assert chunks[-1] == "[DONE]"
        return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1])

    async def overlay(self, **values: Any) -> None:
        await in_database(Deployment.objects.filter(pk=self.deployment.pk).update, config_overlay=values)

    async def streamed(self, response: Any) -> list[Any]:
        assert isinstance(response, StreamingHttpResponse), response.content
        return chunks_of(b"".join([part async for part in response]).decode())


class CompletionTests(V1Tests):
    async def test_answer_comes_whole_with_its_sources_and_is_the_saved_turn(self) -> None:
        response = await self.post()
        body = response.json()
        [choice] = body["choices"]
        turn = await in_database(Turn.objects.select_related("conversation").get)
        stored = await in_database(Message.objects.get, role="assistant")
        assert (body["object"], body["model"]) == ("chat.completion", self.deployment.slug)
        assert body["id"] == f"chatcmpl-{turn.pk.hex}"
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"] == stored.content
        assert choice["message"]["sources"] == stored.sources != []
        assert choice["message"]["answer_source"] == turn.answer_source == "direct_qa"
        assert body["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        assert turn.conversation.channel == Channel.API
        assert turn.trace

    async def test_stream_opens_with_the_role_and_ends_with_the_reason_usage_and_done(self) -> None:
        with scripted(ScriptedReply(pieces=["À l'", "accueil ", "[1]."])):
            options = {"include_usage": True}
            chunks = await self.streamed(await self.ask(("user", NEAR), stream=True, stream_options=options))
        first, *texts, last, usage, end = chunks
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
        assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in texts) == ("À l'accueil [1].")
        assert {chunk["choices"][0]["finish_reason"] for chunk in (first, *texts)} == {None}
        assert last["choices"][0]["finish_reason"] == "stop"
        assert last["choices"][0]["delta"]["sources"][0]["n"] == 1
        turn = await in_database(Turn.objects.get)
        assert usage["choices"] == []
        assert usage["usage"]["completion_tokens"] == turn.completion_tokens
        assert end == "[DONE]"
        assert len({chunk["id"] for chunk in chunks[:-1]}) == 1
        assert all(chunk["usage"] is None for chunk in chunks[:-2])

    async def test_answer_that_was_cut_ends_with_its_reason(self) -> None:
        for finish in ("length", "content_filter"):
            with scripted(*[ScriptedReply(["À l'accueil [1]."], finish_reason=finish)] * 2):
                whole = await self.ask(("user", NEAR))
                chunks = await self.streamed(await self.ask(("user", NEAR), stream=True))
            for last in (whole.json(), chunks[-2]):
                assert last["choices"][0]["finish_reason"] == finish

    async def test_usage_is_not_streamed_unless_asked_for(self) -> None:
        chunks = await self.streamed(await self.post(stream=True))
        assert chunks[-1] == "[DONE]"
        assert all("usage" not in chunk for chunk in chunks[:-1])

    async def test_source_lines_end_the_text_where_staff_want_them(self) -> None:
        await self.overlay(api_source_lines=True)
        whole, streamed = [await self.said(await self.post(stream=stream)) for stream in (False, True)]
        assert whole == streamed
        assert whole.rpartition("---\n")[2].startswith("- [1] Bibliothèque municipale")


class ThreadTests(V1Tests):
    async def test_earlier_messages_reach_the_prompt_and_system_messages_do_not(self) -> None:
        with scripted(ScriptedReply(pieces=["Oui."])):
            said = ("Bonjour, une question ?", "Je vous écoute.")
            asked = [{"type": "text", "text": NEAR}]
            await self.ask(("system", "Réponds en vers."), ("user", said[0]), ("assistant", said[1]), ("user", asked))
            [call] = model().calls
        texts = [message.content for message in call.messages]
        assert texts[1:3] == [*said]
        assert not any("en vers" in text for text in texts)
        conversation = await in_database(Conversation.objects.get)
        assert conversation.client_thread == {"exchanges": [[*said]], "previous": said[0]}

    async def test_follow_up_is_never_answered_by_a_stored_answer(self) -> None:
        before = (("user", "Quels sont les tarifs pour les mineurs ?"), ("assistant", "Tout est gratuit."))
        body = (await self.ask(*before, ("user", "et combien coûte la carte de lecteur ?"))).json()
        turn = await in_database(Turn.objects.get)
        steps = {line["step"]: line["outcome"] for line in turn.trace}
        assert steps["standalone"] == "follow_up"
        assert body["choices"][0]["message"]["answer_source"] not in ("direct_qa", "memory_guard")

    async def test_only_the_exchanges_that_are_used_are_kept(self) -> None:
        said = [
            pair
            for number in range(10)
            for pair in (("user", f"question {number} ?"), ("assistant", f"réponse {number}"))
        ]
        await self.ask(*said, ("user", KNOWN))
        kept: Any = (await in_database(Conversation.objects.get)).client_thread
        assert [question for question, _answer in kept["exchanges"]] == ["question 7 ?", "question 8 ?", "question 9 ?"]


class ToolTests(V1Tests):
    async def test_tool_that_asks_for_approval_is_denied_and_the_answer_goes_on(self) -> None:
        for stream in (False, True):
            with (
                declared(weather, needs_approval=True),
                scripted(asking(call("weather", id="a", city="Lyon")), ["Je ne sais pas."]),
            ):
                response = await self.ask(("user", "Bonjour ?"), ("assistant", "Oui."), ("user", NEAR), stream=stream)
                assert await self.said(response) == "Je ne sais pas."
                last = [message.content for message in model().calls[-1].messages]
            assert last[1:3] == ["Bonjour ?", "Oui."]
            assert "nobody can be asked" in last[-1]
        assert ran == []

    async def test_model_names_no_conversation_of_the_api(self) -> None:
        await self.overlay(generate_titles=True)
        with scripted(["Une réponse [1]."], ["Un titre"]):
            await self.ask(("user", NEAR))
            await asyncio.sleep(0.3)
            assert len(model().calls) == 1


class LenientTests(V1Tests):
    """What programs send that nobody here wrote."""

    async def test_what_a_desk_cannot_do_is_ignored(self) -> None:
        tool = {"type": "function", "function": {"name": "search", "parameters": {}}}
        wanted: dict[str, Any] = {
            "tools": [tool],
            "tool_choice": "required",
            "response_format": {"type": "json_object"},
            "stop": ["\n"],
        }
        response = await self.post(**wanted, logprobs=True, reasoning_effort="low", temperature=1.3, max_tokens=5)
        assert response.status_code == 200
        assert response.json()["choices"][0]["finish_reason"] == "stop"

    async def test_what_is_no_text_in_a_thread_is_passed_over(self) -> None:
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
        call = {"id": "c1", "type": "function", "function": {"name": "x", "arguments": "{}"}}
        response = await self.post(
            messages=[
                {"role": "user", "content": [image]},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "…"}]},
                {"role": "user", "content": [image, {"type": "text", "text": KNOWN}]},
                {"role": "assistant", "content": "", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "12"},
            ]
        )
        assert response.status_code == 200
        asked = await in_database(Message.objects.get, role="user")
        assert asked.content == KNOWN

    async def test_answer_that_a_program_wants_to_be_continued_is_given_again(self) -> None:
        response = await self.ask(("user", KNOWN), ("assistant", "La bibliothèque"))
        assert response.status_code == 200

    async def test_error_is_in_the_language_of_the_client_and_english_without_one(self) -> None:
        for headers, said in (({}, "Unknown URL"), ({"Accept-Language": "fr"}, "Adresse inc")):
            response = await AsyncClient().post("/v1/rerank", headers=headers)
            assert response.status_code == 404
            error = response.json()["error"]
            assert (error["type"], error["code"]) == ("invalid_request_error", "unknown_url")
            assert error["message"].startswith(said)


class ChoreTests(V1Tests):
    TITLE = (
        "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n"
        "### Chat History:\n<chat_history>\nUSER: {question}\nASSISTANT: De 9 h à 18 h.\n</chat_history>"
    )

    async def test_task_of_a_program_is_answered_with_nothing_and_leaves_no_turn(self) -> None:
        for stream in (False, True):
            prompt = self.TITLE.format(question=KNOWN)
            assert await self.said(await self.ask(("user", prompt), stream=stream)) == ""
        assert not await in_database(Conversation.objects.exists)
        assert not await in_database(Turn.objects.exists)

    async def test_key_and_model_are_looked_at_all_the_same(self) -> None:
        prompt = self.TITLE.format(question=KNOWN)
        assert (await self.ask(("user", prompt), _secret="rsk_no")).status_code == 401
        assert (await self.ask(("user", prompt), model="absent")).status_code == 404

    async def test_person_who_asks_about_titles_is_answered(self) -> None:
        await self.ask(("user", "Generate a concise title summarizing the chat history, please?"))
        assert await in_database(Turn.objects.count) == 1


class AnnotationTests(V1Tests):
    async def test_citation_leads_to_its_passage_for_whoever_may_use_the_deployment(self) -> None:
        with scripted(*[["À l'", "accueil ", "[1]."]] * 2):
            whole = (await self.ask(("user", NEAR))).json()["choices"][0]["message"]
            chunks = await self.streamed(await self.ask(("user", NEAR), stream=True))
        [annotation], [streamed] = whole["annotations"], chunks[-2]["choices"][0]["delta"]["annotations"]
        citation = annotation["url_citation"]
        assert whole["content"][citation["start_index"] : citation["end_index"]] == "[1]"
        assert streamed["url_citation"]["start_index"] == citation["start_index"]
        address = citation["url"].removeprefix("http://testserver")
        page = await AsyncClient().get(address)
        assert (page.status_code, page["X-Robots-Tag"][:7]) == (200, "noindex")
        assert (await AsyncClient().get(address[:-2] + "/")).status_code == 404
        own = Deployment.objects.filter(pk=self.deployment.pk)
        await in_database(own.update, audience=Audience.GROUPS)
        closed = await AsyncClient().get(address)
        assert closed.status_code == 404
        assert "passage-text" not in closed.content.decode()


def nothing_to_quote() -> Any:
    """Else the passages are quoted in the place of a model that fails."""
    return mock.patch("chat.turn.generation.quote_passages", return_value=False)


class RefusalTests(V1Tests):
    async def test_field_that_is_wrong_is_named_and_a_message_by_its_place(self) -> None:
        image = [{"type": "image_url", "image_url": {"url": "data:"}}]
        wrong: tuple[tuple[str, Any, str], ...] = (
            ("model", None, "model"),
            ("stream", "yes", "stream"),
            ("stream_options", {"include_usage": True}, "stream_options"),
            ("messages", [], "messages"),
            ("messages", [{"role": "user", "content": image}], "messages[0].content"),
            ("messages", [{"role": "tool", "content": "x"}], "messages"),
            ("messages", ["x"], "messages[0].role"),
            ("messages", [{"role": ["user"], "content": "x"}], "messages[0].role"),
            *(("messages", by_user(content), "messages[0].content") for content in (3, " ", "a" * 8001)),
            *(("messages", [{"role": role, "content": "x"}], "messages") for role in ("assistant", "system")),
        )
        for field, value, param in wrong:
            status, error = await self.refused(**{field: value})
            assert (status, error["param"], error["type"]) == (400, param, "invalid_request_error"), value
        assert not await in_database(Conversation.objects.exists)

    async def test_wrong_method_and_no_json_are_errors_of_the_same_form(self) -> None:
        wrong = await self.get(ADDRESS)
        assert (wrong.status_code, wrong["Allow"]) == (405, "POST")
        assert wrong.json()["error"]["type"] == "invalid_request_error"
        broken = await AsyncClient().post(
            ADDRESS, "{", "application/json", headers={"Authorization": f"Bearer {self.secret}"}
        )
        assert broken.status_code == 400

    async def test_model_faults_have_a_status_and_say_when_to_retry(self) -> None:
        limited = LLMRateLimitedError()
        limited.retry_after = 7.0
        for error, status, code in (
            (limited, 503, "llm_rate_limited"),
            (LLMTimeoutError(), 504, "llm_timeout"),
            (LLMCutError(), 502, "llm_cut"),
        ):
            with nothing_to_quote(), scripted(ScriptedReply(error=error)):
                response = await self.ask(("user", NEAR))
            assert response.status_code == status, code
            assert response.json()["error"]["code"] == code
            if code == "llm_rate_limited":
                assert response["Retry-After"] == "7"

    async def test_silent_model_has_its_headers_and_comments_and_its_late_error_is_an_event(self) -> None:
        rest = threading.Event()
        silent = ScriptedReply(pieces=["", ""], rest=rest, error=LLMTimeoutError())
        with override(BEAT_SECONDS=0.01), nothing_to_quote(), scripted(silent):
            response = await self.ask(("user", NEAR), stream=True)
            assert response.status_code == 200
            body = ""
            async for part in response:
                body += part.decode()
                if body.count(": waiting\n\n") > 1:
                    rest.set()
        assert '"role": "assistant"' in body.partition(": waiting")[0]
        assert '"code": "llm_timeout"' in body

    async def test_stream_that_breaks_off_or_says_nothing_ends_with_an_error_and_without_done(self) -> None:
        for piece, error, code in (("Un début", LLMCutError(), "llm_cut"), (" ", None, "llm_response")):
            with nothing_to_quote(), scripted(ScriptedReply(pieces=[piece], error=error)):
                chunks = await self.streamed(await self.ask(("user", NEAR), stream=True))
            assert chunks[-1]["error"]["code"] == code
            assert "[DONE]" not in chunks


class KeyTests(V1Tests):
    async def status(self, secret: str, **body: Any) -> tuple[int, str]:
        response = await self.post(secret, **body)
        return response.status_code, response.json().get("error", {}).get("code", "")

    async def test_unknown_revoked_and_expired_keys_are_401(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        revoked = await in_database(make_api_key, self.deployment, is_revoked=True)
        expired = await in_database(make_api_key, self.deployment, expires_at=past)
        for secret in ("", "rsk_unknown", revoked, expired, self.deployment.public_key):
            assert await self.status(secret) == (401, "invalid_api_key")
        assert not await in_database(Conversation.objects.exists)

    async def test_key_opens_its_deployments_only(self) -> None:
        other = await in_database(make_deployment)
        assert await self.status(self.secret, model=other.slug) == (404, "model_not_found")
        assert await self.status(self.secret, model="absent") == (404, "model_not_found")
        nothing = await in_database(make_api_key)
        assert await self.status(nothing) == (404, "model_not_found")

    async def test_key_opens_a_deployment_that_is_not_public_and_none_that_is_closed(self) -> None:
        own = Deployment.objects.filter(pk=self.deployment.pk)
        await in_database(own.update, audience=Audience.GROUPS)
        assert (await self.status(self.secret))[0] == 200
        await in_database(own.update, is_active=False)
        assert await self.status(self.secret) == (403, "deployment_closed")
        one = await self.get(f"/v1/models/{self.deployment.slug}")
        assert (one.status_code, one.json()["error"]["code"]) == (403, "deployment_closed")

    async def test_running_answer_ends_with_its_key_or_its_deployment(self) -> None:
        key, deployment = ApiKey.objects.all(), Deployment.objects.all()
        for closing, code in (
            (lambda: deployment.update(is_active=False), "deployment_closed"),
            (lambda: key.update(is_revoked=True), "invalid_api_key"),
        ):
            pieces = ["Un début", *[" et un mot"] * 1_000]
            rest = threading.Event()
            with scripted(ScriptedReply(pieces=pieces, interval=0.02, rest=rest)):
                await in_database(deployment.update, is_active=True)
                response = await self.ask(("user", NEAR), stream=True)
                body = b""
                async for part in response:
                    body += part
                    if "Un début".encode() in part:
                        await in_database(closing)
                        rest.set()
                chunks = chunks_of(body.decode())
                while await Turn.objects.filter(status=TurnStatus.RUNNING).aexists():  # noqa: ASYNC110  # another task writes the row
                    await asyncio.sleep(0.05)
            assert chunks[-1]["error"]["code"] == code
            last = await Turn.objects.alatest("started_at")
            assert last.status == TurnStatus.INTERRUPTED

    async def test_models_are_the_deployments_of_the_key(self) -> None:
        await in_database(make_deployment)
        listed = (await self.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert [row["id"] for row in listed["data"]] == [self.deployment.slug]
        for slug, status in ((self.deployment.slug, 200), ("absent", 404)):
            assert (await self.get(f"/v1/models/{slug}")).status_code == status
        assert (await AsyncClient().get("/v1/models")).status_code == 401

    async def test_secret_is_not_kept_and_last_use_is(self) -> None:
        await self.post()
        key = await in_database(ApiKey.objects.get)
        assert self.secret not in str(vars(key))
        assert self.secret.startswith(key.prefix)
        assert key.last_used_at is not None

    async def test_session_is_nobody_here_and_conversations_are_on_no_page(self) -> None:
        await self.post()
        client = AsyncClient()
        await client.get("/")
        assert (await client.get("/api/conversations/")).json()["results"] == []
        assert (await client.post(ADDRESS, {}, "application/json")).status_code == 401


GOOD = "Les salles se réservent à l’accueil [1]."
SHOWN = [form.replace("Bonjour [1].", GOOD) for form in FORMS]
QUOTED = {
    "empty": ["<think>4711, then the limit", "\n \n"],
    "only_number": ["[1]", "12 [1]."],
    "only_header": ["[Source 1] - Bibliothèque municipale"],
    "echo": [NEAR, "Non, les salles de travail de la bibliothèque ne se réservent pas à l’accueil [1]."],
    "unvouched": ["Il faut l’accord écrit du maire, un mois avant la fête."],
    "language": ["You can book one of the rooms at the desk with your card, and it is free for all of us [1]."],
    "loop": ["Les salles se réservent à l’accueil du rez-de-chaussée. " * 9],
    "call_as_text": ['{"name": "find_room", "arguments": {"q": "4711"}}', "<tool_call>find_room</tool_call>"],
}


class OddReplyTests(V1Tests):
    """Every odd form of a reply, at every door: no reasoning leaks, and nothing worse than the quotation is shown."""

    async def test_no_form_lets_reasoning_through_and_each_defect_is_quoted(self) -> None:
        await self.overlay(memory_learning="valid", tools_enabled=False)
        forms = [(form, "") for form in SHOWN] + [(text, name) for name, texts in QUOTED.items() for text in texts]
        with ModelServer(api_key="k") as server, served(server):
            for form, name in forms:
                server.script(*[ModelReply(tokens=[form[:9], form[9:]])] * 3)
                result, listener = await ask(self.deployment, NEAR)
                whole = await self.said(await self.ask(("user", NEAR)))
                streamed = await self.said(await self.ask(("user", NEAR), stream=True))
                [check] = [line["outcome"] for line in result.trace.lines if line["step"] == "check"]
                assert check == (name or check)
                assert not name or listener.done.cut == "answer_replaced"
                assert result.answer.source == (AnswerSource.EXTRACTIVE if name else AnswerSource.LLM), form
                for text in (listener.done.content, whole, *([] if name else [streamed])):
                    assert "4711" not in text, (form, text, [listener.done.content, whole, streamed])
                    assert ("Voici ce que disent" in text) if name else text == GOOD
            await closed()
        assert not await in_database(CachedResponse.objects.filter(answer__contains="4711").exists)

    async def test_titles_and_rewritings_hold_none_of_it(self) -> None:
        with ModelServer(api_key="k") as server, served(server):
            for form in FORMS:
                server.script(ModelReply(tokens=[form]))
                model = language_model()
                assert model is not None
                assert await generate_title(model, question=NEAR, llm_model="") == "Bonjour [1]"
            await closed()
