"""The widget's door (its sites, its visitors), and a site's own face on the page, in the widget and in the admin."""

import asyncio
import base64
import hashlib
import io
import json
import re
import threading
import uuid
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.base import ContentFile
from django.test import AsyncClient, Client, TestCase
from PIL import Image

from agents.admin.deployments import DeploymentForm
from agents.branding import LOGO_SIZE, logo_png
from agents.database import in_database
from agents.models import Audience, Deployment, Logo, valid_origin
from chat.access.permissions import WidgetVisitor
from chat.models import Channel, Conversation, Feedback, Message, TurnStatus
from tests.admin_pages import superuser_client
from tests.constants import override
from tests.factories import make_conversation, make_exchange, make_library, make_user
from tests.integration.chat.api.test_conversations import events_of, streamed
from tests.integration.chat.turn.test_path import KNOWN, NEAR, scripted
from tests.scripted import ScriptedReply

SITE = "https://www.example.org"


class WidgetTests(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library(allowed_origins=f"{SITE}\nhttp://localhost:9000")

    def frame(self, origin: str = SITE, referrer: str | None = None, **query: str) -> Any:
        headers = {"Referer": referrer} if referrer else {}
        address = f"/widget/{self.deployment.public_key}/"
        return Client().get(address, {"origin": origin, **query}, headers=headers)

    def config(self, page: Any) -> dict[str, Any]:
        found = re.search(r'id="page-config"[^>]*>(.*?)</script>', page.content.decode())
        assert found is not None, page.content
        config: dict[str, Any] = json.loads(found[1])
        return config

    def token(self, **changes: Any) -> str:
        visitor = {"deployment": self.deployment, "origin": SITE, "visitor": uuid.uuid4()}
        return WidgetVisitor(**{**visitor, **changes}).token()

    async def ask(self, token: str, *, client: AsyncClient | None = None, **more: Any) -> Any:
        headers = {"Authorization": f"Visitor {token}", **more.pop("headers", {})}
        body = {"message": KNOWN, **more}
        client = client or AsyncClient()
        return await client.post("/widget/ask", body, "application/json", headers=headers)


class FrameTests(WidgetTests):
    def test_listed_site_gets_a_page_that_no_other_may_frame(self) -> None:
        page = self.frame(referrer=f"{SITE}/contact/")
        assert page.status_code == 200
        assert page["Content-Security-Policy"].endswith(f"frame-ancestors {SITE}")
        assert "X-Frame-Options" not in page
        assert not page.cookies
        assert "no-store" in page["Cache-Control"]
        assert self.config(page)["origin"] == SITE

    def test_other_sites_are_refused(self) -> None:
        for origin, referrer in (
            ("https://evil.example", None),
            (SITE, "https://evil.example/"),
            ("", None),
            ("null", None),
            (f"{SITE}; script-src *", None),
            (f"{SITE}.evil.example", None),
            ("http://www.example.org", None),
        ):
            page = self.frame(origin, referrer)
            assert page.status_code == 403, origin
            assert b"page-config" not in page.content

    def test_closed_or_private_deployments_are_on_no_site(self) -> None:
        for change in ({"is_active": False}, {"audience": Audience.SIGNED_IN}):
            Deployment.objects.update(**{"is_active": True, "audience": "public", **change})
            assert self.frame().status_code == 403
        assert Client().get(f"/widget/rpk_none/?origin={SITE}").status_code == 403


class AskTests(WidgetTests):
    async def test_frame_offers_no_versions_so_none_is_made(self) -> None:
        answer = await self.ask(self.token(), replaces="no id at all")
        assert answer.status_code == 200

    async def test_visitor_asks_and_goes_on_in_the_same_conversation(self) -> None:
        page = await in_database(self.frame)
        token = self.config(page)["visitor"]
        first = events_of(await streamed(await self.ask(token, clientMessageId="a")))
        assert [name for name, _data in first] == ["meta", "sources", "delta", "done"]
        conversation = first[0][1]["conversationId"]
        await streamed(await self.ask(token, clientMessageId="b", conversationId=conversation))
        stored = await in_database(Conversation.objects.get)
        assert (stored.channel, stored.user_id) == (Channel.WIDGET, None)
        assert await in_database(Message.objects.count) == 4
        headers = {"Authorization": f"Visitor {token}"}
        thread = await AsyncClient().get(f"/widget/messages/{conversation}", headers=headers)
        assert [row["role"] for row in thread.json()["messages"]] == ["user", "assistant"] * 2
        again = await AsyncClient().get(f"/widget/turns/{first[0][1]['turnId']}/events", headers=headers)
        assert events_of(await streamed(again))[-1][0] == "done"

    async def test_stream_ends_when_the_deployment_is_closed(self) -> None:
        rest = threading.Event()
        with scripted(ScriptedReply(pieces=["Un début", " et la fin"], rest=rest)):
            asked = await self.ask(self.token(), message=NEAR)
            told = b""
            async for piece in asked.streaming_content:
                told += piece
                if "Un début".encode() in piece:
                    await in_database(Deployment.objects.update, is_active=False)
                    rest.set()
            while not await Message.objects.filter(role="assistant").aexists():  # noqa: ASYNC110  # another task writes the row
                await asyncio.sleep(0.05)
        assert events_of(told.decode())[-1][0] == "error"
        assert b"et la fin" not in told

    async def test_foreign_forged_and_old_visitors_are_refused(self) -> None:
        mine, other = self.token(), self.token()
        meta = events_of(await streamed(await self.ask(mine)))[0][1]
        conversation, turn = meta["conversationId"], meta["turnId"]
        assert (await self.ask(other, conversationId=conversation)).status_code == 404
        headers = {"Authorization": f"Visitor {other}"}
        for address in (f"/widget/messages/{conversation}", f"/widget/turns/{turn}/events"):
            assert (await AsyncClient().get(address, headers=headers)).status_code == 404
        for token in ("", "forged", mine[:-2]):
            assert (await self.ask(token)).status_code == 401
        with override(WIDGET_VISITOR_DAYS=0):
            assert (await self.ask(mine)).status_code == 401

    async def test_visitor_alone_says_what_an_answer_is_worth(self) -> None:
        mine, other = self.token(), self.token()
        await streamed(await self.ask(mine))
        answer = await Message.objects.aget(role="assistant")
        address = f"/widget/answers/{answer.pk}/feedback"
        body = {"verdict": "down", "comment": "Non."}
        for token, origin, status in (("", None, 401), (other, None, 404), (mine, SITE, 403), (mine, None, 200)):
            headers = {"Authorization": f"Visitor {token}"} | ({"Origin": origin} if origin else {})
            said = await AsyncClient().post(address, body, "application/json", headers=headers)
            assert said.status_code == status, (token, origin)
            given = await Feedback.objects.acount()
            assert given == (status == 200)
        headers = {"Authorization": f"Visitor {mine}"}
        assert (await AsyncClient().post(address, {}, "application/json", headers=headers)).status_code == 400
        assert (await AsyncClient().delete(address, headers=headers)).status_code == 204

    async def test_conversation_of_the_page_is_out_of_reach(self) -> None:
        visitor = uuid.uuid4()
        own = await in_database(make_conversation, self.deployment, visitor=visitor)
        token = self.token(visitor=visitor)
        assert (await self.ask(token, conversationId=str(own.pk))).status_code == 404

    async def test_token_is_as_good_as_the_list_of_sites_is_now(self) -> None:
        token = self.token()
        for change in (
            {"allowed_origins": "https://other.example"},
            {"audience": Audience.GROUPS},
            {"is_active": False},
        ):
            own = Deployment.objects.filter(pk=self.deployment.pk)
            before = {name: getattr(self.deployment, name) for name in change}
            await in_database(own.update, **change)
            assert (await self.ask(token)).status_code == 403, change
            await in_database(own.update, **before)
        assert (await self.ask(token)).status_code == 200

    async def test_request_of_another_origin_is_refused_and_sets_nothing(self) -> None:
        token = self.token()
        for origin, status in (("http://testserver", 200), (SITE, 403), ("null", 403), ("http://[", 403)):
            response = await self.ask(token, headers={"Origin": origin})
            assert response.status_code == status, origin
            assert not response.cookies

    async def test_session_says_nothing_here(self) -> None:
        client = AsyncClient()
        user = await in_database(make_user)
        await client.aforce_login(user)
        await streamed(await self.ask(self.token(), client=client))
        assert (await in_database(Conversation.objects.get)).user_id is None

    async def test_turn_that_another_process_runs_is_followed_and_stopped(self) -> None:
        visitor = uuid.uuid4()
        token = self.token(visitor=visitor)
        conversation = await in_database(make_conversation, self.deployment, visitor=visitor, channel=Channel.WIDGET)
        turn = await in_database(lambda: make_exchange(conversation, KNOWN, "…", status=TurnStatus.RUNNING))
        headers = {"Authorization": f"Visitor {token}"}
        thread = await AsyncClient().get(f"/widget/messages/{conversation.pk}", headers=headers)
        assert thread.json()["runningTurn"]["id"] == str(turn.pk)
        body = {"conversationId": str(conversation.pk)}
        await AsyncClient().post("/widget/stop", body, "application/json", headers=headers)
        await in_database(turn.refresh_from_db)
        assert turn.stop_requested_at is not None


def test_origins_are_written_as_browsers_write_them() -> None:
    for text, origin in (
        (" HTTPS://WWW.Example.org/ ", "https://www.example.org"),
        ("http://localhost:9000", "http://localhost:9000"),
        ("https://example.org:443", "https://example.org"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ):
        assert valid_origin(text) == origin
    for text in (
        *("", "*", "https://*", "https://:p@x.org", "example.org", "https://", "ftp://x.org", "https://x.org/a"),
        *("https://x.org?a", "https://u@x.org", "https://x;y", "https://x'y", "https://x.org:port"),
        *("null", "https://é.org", "https://x.org#a"),
    ):
        with pytest.raises(ValidationError):
            valid_origin(text)


def picture(kind: str = "PNG", size: tuple[int, int] = (1_200, 300)) -> bytes:
    made = io.BytesIO()
    Image.new("RGB", size, "#7a1fa2").save(made, kind)
    return made.getvalue()


class FaceTests(TestCase):
    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library(
            name="Bibliothèque",
            name_en="Library",
            welcome="Bienvenue.",
            welcome_en="Welcome.",
            organisation="la Ville de Lyon",
            accent="#7a1fa2",
            notice="Vos questions sont gardées un an.",
            notice_en="Your questions are kept for a year.",
            legal_url="https://www.example.org/legal",
            allowed_origins=SITE,
        )

    def test_page_and_widget_wear_it_in_the_language_of_the_reader(self) -> None:
        for language, words in (
            ("fr", ("Bibliothèque", "Bienvenue.", "gardées un an", "la Ville de Lyon")),
            ("en", ("Library", "Welcome.", "kept for a year", "la Ville de Lyon")),
        ):
            for page in (
                Client(headers={"Accept-Language": language}).get(f"/d/{self.deployment.slug}/"),
                Client().get(f"/widget/{self.deployment.public_key}/", {"origin": SITE, "lang": language}),
            ):
                shown = page.content.decode()
                for word in (*words, 'href="https://www.example.org/legal"'):
                    assert word in shown, (language, word)
                style = re.search(r"<style>(.*?)</style>", shown)
                assert style is not None
                digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
                assert f"style-src 'self' 'sha256-{digest}';" in page["Content-Security-Policy"]

    def test_logo_stands_on_every_page_of_its_deployment(self) -> None:
        staff = superuser_client()
        address = f"/admin/agents/deployment/{self.deployment.pk}/change/"
        form = DeploymentForm(instance=self.deployment)
        given = ((name, value) for name, value in form.initial.items() if name in form.fields)
        sent = {name: value for name, value in given if value is not None and not isinstance(value, list)}
        inline = {"specialists-TOTAL_FORMS": 0, "specialists-INITIAL_FORMS": 0}
        upload = ContentFile(picture("JPEG"), name="logo.jpg")
        answer = staff.post(address, {**sent, **inline, "logo_file": upload})
        assert answer.status_code == 302, answer.content.decode()

        self.deployment.refresh_from_db()
        assert self.deployment.logo is not None
        url = f"/logos/{self.deployment.logo.pk}.png"
        widget = Client().get(f"/widget/{self.deployment.public_key}/", {"origin": SITE})
        for page in (Client().get(f"/d/{self.deployment.slug}/"), widget, staff.get(address)):
            assert url in page.content.decode()
            assert "img-src 'self'" in page["Content-Security-Policy"]
        logo = Client().get(url)
        assert logo["Content-Type"] == "image/png"
        assert "immutable" in logo["Cache-Control"]
        with Image.open(io.BytesIO(logo.content)) as shown:
            assert shown.size == (480, 120)

        staff.post(address, {**sent, **inline, "without_logo": "on"})
        assert not Deployment.objects.filter(pk=self.deployment.pk, logo__isnull=False)
        assert Logo.objects.exists(), "the journal may bring it back"

    def test_what_is_no_picture_is_refused_as_a_logo(self) -> None:
        vector = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
        for data in (vector, b"", picture()[:60], picture("GIF"), picture(size=(9_000, 9_000))):
            with pytest.raises(ValidationError):
                logo_png(ContentFile(data))
        assert Image.open(io.BytesIO(logo_png(ContentFile(picture("WEBP"))))).size <= LOGO_SIZE
