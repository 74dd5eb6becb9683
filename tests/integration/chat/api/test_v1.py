"""`/v1`, without a network: keys, refusals and what becomes of the client's thread."""

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any
from unittest import mock

from django.http import StreamingHttpResponse
from django.test import AsyncClient, TestCase
from django.utils import timezone

from agents.database import in_database
from agents.errors import LLMCutError, LLMRateLimitedError, LLMTimeoutError
from agents.models import Audience, Deployment
from chat.models import ApiKey, Channel, Conversation, Message, Turn, TurnStatus
from tests.constants import override
from tests.factories import make_api_key, make_deployment, make_library
from tests.integration.chat.turn.test_path import FAR, KNOWN, NEAR, model, scripted
from tests.scripted import ScriptedReply
from tests.tools import asking, call, declared

ADDRESS = "/v1/chat/completions"
called: list[str] = []


def weather(city: str) -> dict[str, object]:
    """The weather of a city.

    Args:
        city: Its name.
    """
    called.append(city)
    return {"sky": "rain"}


def chunks_of(body: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


class V1Tests(TestCase):
    deployment: Deployment
    secret: str

    def setUp(self) -> None:
        called.clear()

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()
        cls.secret = make_api_key(cls.deployment)

    async def post(self, _secret: str | None = None, _headers: Any = None, _address: str = ADDRESS, **body: Any) -> Any:
        secret = self.secret if _secret is None else _secret
        body = {"model": self.deployment.slug, "messages": [{"role": "user", "content": KNOWN}], **body}
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
        assert body["object"] == "chat.completion"
        assert body["model"] == self.deployment.slug
        assert body["id"] == f"chatcmpl-{turn.pk.hex}"
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"] == stored.content
        assert choice["message"]["sources"] == stored.sources != []
        assert choice["message"]["answer_source"] == turn.answer_source == "direct_qa"
        assert body["usage"] == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        assert turn.conversation.channel == Channel.API
        assert turn.trace
        # The site itself names the request; a second name would make a list of the header.
        assert "X-Request-ID" not in response

    async def test_stream_opens_with_the_role_and_ends_with_the_reason_usage_and_done(self) -> None:
        with scripted(ScriptedReply(pieces=["À l'", "accueil ", "[1]."])):
            response = await self.post(
                messages=[{"role": "user", "content": NEAR}], stream=True, stream_options={"include_usage": True}
            )
            chunks = await self.streamed(response)
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
            for is_streamed in (False, True):
                with self.subTest(streamed=is_streamed, finish=finish):
                    with scripted(ScriptedReply(["À l'accueil [1]."], finish_reason=finish)):
                        response = await self.post(stream=is_streamed, messages=[{"role": "user", "content": NEAR}])
                        last = await self.last_of(response)
                    assert last["choices"][0]["finish_reason"] == finish

    async def last_of(self, response: Any) -> Any:
        """The body of an answer, or the last chunk or event that is one."""
        if not response.streaming:
            return response.json()
        text = b"".join([part async for part in response]).decode()
        lines = [line for line in text.splitlines() if line.startswith("data: {")]
        return json.loads(lines[-1].removeprefix("data: "))

    async def test_usage_is_not_streamed_unless_asked_for(self) -> None:
        chunks = await self.streamed(await self.post(stream=True))
        assert chunks[-1] == "[DONE]"
        assert all("usage" not in chunk for chunk in chunks[:-1])

    async def test_source_lines_end_the_text_where_staff_want_them(self) -> None:
        await self.overlay(api_source_lines=True)
        whole, streamed = [await self.said(await self.post(stream=stream)) for stream in (False, True)]
        assert whole == streamed
        assert whole.rpartition("---\n")[2].startswith("- [1] Bibliothèque municipale")

    async def test_question_outside_the_documents_is_refused_as_everywhere(self) -> None:
        body = (await self.ask(("user", FAR))).json()
        assert body["choices"][0]["message"]["answer_source"] == "guard_rail"
        assert body["choices"][0]["finish_reason"] == "stop"


class ThreadTests(V1Tests):
    async def test_earlier_messages_reach_the_prompt_and_system_messages_do_not(self) -> None:
        with scripted(ScriptedReply(pieces=["Oui."])):
            await self.ask(
                ("system", "Réponds en vers."),
                ("user", "Bonjour, une question ?"),
                ("assistant", "Je vous écoute."),
                ("user", [{"type": "text", "text": NEAR}]),
            )
            [call] = model().calls
        texts = [message.content for message in call.messages]
        assert texts[1:3] == ["Bonjour, une question ?", "Je vous écoute."]
        assert not any("en vers" in text for text in texts)
        conversation = await in_database(Conversation.objects.get)
        assert conversation.client_thread == {
            "exchanges": [["Bonjour, une question ?", "Je vous écoute."]],
            "previous": "Bonjour, une question ?",
        }

    async def test_follow_up_is_never_answered_by_a_stored_answer(self) -> None:
        asked = "et combien coûte la carte de lecteur ?"
        body = (
            await self.ask(
                ("user", "Quels sont les tarifs pour les mineurs ?"),
                ("assistant", "Tout est gratuit."),
                ("user", asked),
            )
        ).json()
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
    async def test_earlier_messages_stand_in_every_prompt_of_a_tool_loop(self) -> None:
        with declared(weather), scripted(asking(call("weather", id="a", city="Lyon")), ["Il pleut."]):
            body = (
                await self.ask(("user", "Bonjour, une question ?"), ("assistant", "Je vous écoute."), ("user", NEAR))
            ).json()
            prompts = [[message.content for message in call.messages] for call in model().calls]
        assert body["choices"][0]["message"]["content"] == "Il pleut."
        assert [prompt[1:3] for prompt in prompts] == [["Bonjour, une question ?", "Je vous écoute."]] * 2

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
        assert called == []

    async def test_model_names_no_conversation_of_the_api(self) -> None:
        await self.overlay(generate_titles=True)
        with scripted(["Une réponse."], ["Un titre"]):
            await self.ask(("user", NEAR))
            await asyncio.sleep(0.3)
            assert len(model().calls) == 1


class LenientTests(V1Tests):
    """What programs send that nobody here wrote."""

    async def test_what_a_desk_cannot_do_is_ignored(self) -> None:
        tool = {"type": "function", "function": {"name": "search", "parameters": {}}}
        response = await self.post(
            tools=[tool],
            tool_choice="required",
            response_format={"type": "json_object"},
            stop=["\n"],
            logprobs=True,
            parallel_tool_calls=True,
            reasoning_effort="low",
            temperature=1.3,
            max_tokens=5,
            user="u",
        )
        assert response.status_code == 200
        [choice] = response.json()["choices"]
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"]

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
    async def annotations(self, *, stream: bool = False) -> tuple[str, list[dict[str, Any]]]:
        with scripted(ScriptedReply(pieces=["À l'", "accueil ", "[1]."])):
            response = await self.ask(("user", NEAR), stream=stream)
            if not stream:
                message = response.json()["choices"][0]["message"]
                return message["content"], message["annotations"]
            deltas = [each["choices"][0]["delta"] for each in (await self.streamed(response))[:-1]]
        return "".join(delta.get("content", "") for delta in deltas), deltas[-1]["annotations"]

    async def test_citation_is_where_the_text_has_it_and_leads_to_the_passage(self) -> None:
        for stream in (False, True):
            text, [annotation] = await self.annotations(stream=stream)
            citation = annotation["url_citation"]
            assert annotation["type"] == "url_citation"
            assert text[citation["start_index"] : citation["end_index"]] == "[1]"
            assert citation["title"]
            page = await AsyncClient().get(citation["url"].removeprefix("http://testserver"))
            assert page.status_code == 200
            stored = await in_database(Message.objects.filter(role="assistant").latest, "pk")
            assert stored.sources[0]["title"].replace(" > ", " › ") in page.content.decode()
            assert page["X-Robots-Tag"].startswith("noindex")

    async def test_passage_is_read_by_whoever_may_use_the_deployment(self) -> None:
        _text, [annotation] = await self.annotations()
        address = annotation["url_citation"]["url"].removeprefix("http://testserver")
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
    async def test_field_that_is_wrong_is_named(self) -> None:
        for param, value in (
            ("model", None),
            ("messages", []),
            ("stream", "yes"),
            ("stream_options", {"include_usage": True}),
        ):
            status, error = await self.refused(**{param: value})
            assert (status, error["param"]) == (400, param), param
            assert error["type"] == "invalid_request_error"
        assert not await in_database(Conversation.objects.exists)

    async def test_bad_messages_are_named_by_their_place(self) -> None:
        image = [{"type": "image_url", "image_url": {"url": "data:"}}]
        for messages, param in (
            ([{"role": "user", "content": image}], "messages[0].content"),
            ([{"role": "tool", "content": "x"}], "messages"),
            (["x"], "messages[0].role"),
            ([{"role": ["user"], "content": "x"}], "messages[0].role"),
            ([{"role": "user", "content": 3}], "messages[0].content"),
            ([{"role": "user", "content": " "}], "messages[0].content"),
            ([{"role": "user", "content": "a" * 8001}], "messages[0].content"),
            ([{"role": "assistant", "content": "x"}], "messages"),
            ([{"role": "system", "content": "x"}], "messages"),
        ):
            status, error = await self.refused(messages=messages)
            assert (status, error["param"]) == (400, param), messages

    async def test_body_that_is_too_large_is_413(self) -> None:
        with override(API_MAX_BODY_BYTES=200):
            status, _error = await self.refused(user="x" * 300)
        assert status == 413

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
            for stream in (False, True):
                with nothing_to_quote(), scripted(ScriptedReply(error=error)):
                    response = await self.post(messages=[{"role": "user", "content": NEAR}], stream=stream)
                assert response.status_code == status, code
                assert response.json()["error"]["code"] == code
                if code == "llm_rate_limited":
                    assert response["Retry-After"] == "7"

    async def test_silent_model_has_its_headers_and_comments_and_its_late_error_is_an_event(self) -> None:
        rest = threading.Event()
        silent = ScriptedReply(pieces=["", ""], rest=rest, error=LLMTimeoutError())
        with override(HEADERS_SECONDS=0.01, BEAT_SECONDS=0.01), nothing_to_quote(), scripted(silent):
            response = await self.post(messages=[{"role": "user", "content": NEAR}], stream=True)
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
                response = await self.post(messages=[{"role": "user", "content": NEAR}], stream=True)
                chunks = await self.streamed(response)
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
                response = await self.post(messages=[{"role": "user", "content": NEAR}], stream=True)
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


class DisconnectTests(V1Tests):
    async def test_client_that_leaves_stops_its_turn(self) -> None:
        with scripted(ScriptedReply(pieces=["Un début", " et", " la fin"], rest=threading.Event())):
            response = await self.ask(("user", NEAR), stream=True)
            has_begun = asyncio.Event()

            async def read() -> None:
                async for part in response:
                    if "début" in part.decode():
                        has_begun.set()

            # As the server does when it is told that the client has gone.
            reading = asyncio.create_task(read())
            await has_begun.wait()
            reading.cancel()
            await asyncio.wait([reading])
            while await Turn.objects.filter(status=TurnStatus.RUNNING).aexists():  # noqa: ASYNC110  # another task writes the row
                await asyncio.sleep(0.05)
        assert (await Turn.objects.aget()).status == TurnStatus.INTERRUPTED
