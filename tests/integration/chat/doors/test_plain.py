"""Asking without JavaScript: the form, the page of its answer, and whose they are."""

import re
import threading
import uuid
from typing import Any
from unittest import mock

from django.test import AsyncClient, TestCase

from agents.database import in_database
from agents.models import Deployment
from chat.models import Conversation, Message
from chat.page import views
from chat.protocol import MAX_MESSAGE_CHARACTERS
from tests.factories import make_library
from tests.integration.chat.turn.test_path import KNOWN, NEAR, scripted
from tests.scripted import ScriptedReply


def form_of(page: Any) -> dict[str, str]:
    form = re.search(r'<form class="plain".*?</form>', page.content.decode(), re.DOTALL)
    assert form is not None
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="(.*?)"', form[0]))


class PlainTests(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library(suggestions=KNOWN)

    def setUp(self) -> None:
        self.page = f"/d/{self.deployment.slug}/"
        self.client: Any = AsyncClient(enforce_csrf_checks=True)

    async def ask(self, page: Any, *questions: str, client: Any = None) -> Any:
        said = {**form_of(page), "question": list(questions)}
        return await (client or self.client).post(f"{self.page}ask", said, follow=True)

    async def test_form_asks_and_the_answer_comes_as_a_page_with_a_form(self) -> None:
        first = await self.ask(await self.client.get(self.page), KNOWN)
        conversation = await Conversation.objects.aget()
        assert first.redirect_chain[0][0].startswith(f"{self.page}c/{conversation.pk}/read")
        answer = await Message.objects.aget(role="assistant")
        assert answer.content.split(".")[0] in first.content.decode()
        assert b'class="shared-sources"' in first.content
        assert "form-action 'self'" in first["Content-Security-Policy"]
        assert first["Referrer-Policy"] == "same-origin"
        await self.ask(first, NEAR)
        assert await Conversation.objects.acount() == 1
        assert await Message.objects.filter(role="user").acount() == 2

    async def test_suggestion_is_a_button_that_asks(self) -> None:
        await self.ask(await self.client.get(self.page), "", KNOWN)
        assert (await Message.objects.aget(role="user")).content == KNOWN

    async def test_form_sent_twice_asks_once(self) -> None:
        page = await self.client.get(self.page)
        for _ in range(2):
            await self.ask(page, KNOWN)
        assert await Message.objects.filter(role="user").acount() == 1

    async def test_answer_that_takes_long_is_on_a_page_that_loads_itself_again(self) -> None:
        rest = threading.Event()
        reply = ScriptedReply(pieces=["Un début", " et la fin"], rest=rest)
        with scripted(reply), mock.patch.object(views, "WAIT_SECONDS", 0.2):
            waiting = await self.ask(await self.client.get(self.page), NEAR)
            assert b'http-equiv="refresh"' in waiting.content
            rest.set()
            address = waiting.redirect_chain[0][0].partition("#")[0]
            while b'http-equiv="refresh"' in (page := await self.client.get(address)).content:
                pass
        assert b"et la fin" in page.content

    async def test_refused_question_comes_back_with_its_reason(self) -> None:
        question = "x" * (MAX_MESSAGE_CHARACTERS + 1)
        page = await self.ask(await self.client.get(self.page), question)
        assert page.status_code == 422
        assert b'role="alert"' in page.content
        assert question in page.content.decode()
        assert (await self.client.get(f"{self.page}ask")).status_code == 405

    async def test_nobody_else_reads_it_or_asks_in_it_and_no_other_site_asks(self) -> None:
        page = await self.ask(await self.client.get(self.page), KNOWN)
        address = page.redirect_chain[0][0].partition("#")[0]
        stranger = AsyncClient(enforce_csrf_checks=True)
        theirs = await stranger.get(self.page)
        assert (await stranger.get(address)).status_code == 404
        said = {**form_of(theirs), "conversation": form_of(page)["conversation"], "question": KNOWN}
        assert (await stranger.post(f"{self.page}ask", said)).status_code == 404
        del said["csrfmiddlewaretoken"]
        assert (await stranger.post(f"{self.page}ask", said)).status_code == 403
        await in_database(Deployment.objects.update, is_active=False)
        assert (await self.client.get(address)).status_code == 404
        assert (await self.client.get(f"{self.page}c/{uuid.uuid4()}/read")).status_code == 404
