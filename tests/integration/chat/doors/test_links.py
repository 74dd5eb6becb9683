"""Links by which a conversation is shared, and the page that they show."""

from datetime import timedelta
from unittest import mock

from django.test import Client
from django.utils import timezone

from agents.models import Audience, Deployment
from chat.archive import forget_expired
from chat.models import Conversation, Message, Role, SharedThread
from chat.rendering import render_answer
from tests.constants import override
from tests.factories import make_exchange, make_user
from tests.readers import QUESTION, ReaderTest


class LinkTests(ReaderTest):
    def setUp(self) -> None:
        super().setUp()
        self.url = f"/api/conversations/{self.conversation.pk}/links"

    def share(self) -> str:
        created = self.client.post(self.url)
        assert created.status_code == 201, created.content
        return str(created.json()["url"]).removeprefix("http://testserver")

    def test_link_shows_a_copy_that_no_engine_keeps(self) -> None:
        page = self.share()
        make_exchange(self.conversation, "Plus tard ?", "Oui.")
        response = Client().get(page)
        text = response.content.decode()
        assert response.status_code == 200
        assert QUESTION in text
        assert "Le texte." in text
        assert "Plus tard" not in text
        assert "noindex" in response["X-Robots-Tag"]
        assert response["Referrer-Policy"] == "no-referrer"
        assert "default-src 'none'" in response["Content-Security-Policy"]

    def test_nothing_in_the_page_names_the_owner(self) -> None:
        owner = make_user(username="odile", email="odile@example.org")
        Conversation.objects.update(user=owner, visitor=None)
        self.client.force_login(owner)
        text = Client().get(self.share()).content.decode()
        assert "odile" not in text
        assert str(self.conversation.pk) not in text

    def test_text_of_a_shared_thread_is_sanitised(self) -> None:
        Message.objects.filter(turn=self.turn).update(content="<script>alert(1)</script> **x**")
        text = Client().get(self.share()).content.decode()
        assert "<script>alert" not in text

    def test_source_keeps_its_own_numbers_in_brackets(self) -> None:
        text = "Selon le décret [12], `rang[3]`."
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(
            sources=[{"n": 1, "title": "Décret", "text": text}]
        )
        page = Client().get(self.share()).content.decode()
        assert "Selon le décret [12], <code>rang[3]</code>." in page

    def test_page_lays_out_each_passage_once_and_no_more_than_so_many(self) -> None:
        texts = ["**un**", "**un**", "**deux** <b>x</b>"]
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(
            sources=[{"n": n, "title": "t", "text": text} for n, text in enumerate(texts, 1)]
        )
        link = self.share()
        with (
            mock.patch("chat.page.views.MAX_RENDERED_CHARACTERS", 10),
            mock.patch("chat.page.views.render_answer", wraps=render_answer) as rendered,
        ):
            page = Client().get(link).content.decode()
        assert page.count("<strong>un</strong>") == 2
        assert "**deux** &lt;b&gt;x&lt;/b&gt;" in page
        assert rendered.call_count == 2

    def test_revoked_link_opens_for_nobody_and_keeps_nothing(self) -> None:
        page = self.share()
        [listed] = self.client.get(self.url).json()["results"]
        assert Client().delete(f"{self.url}/{listed['token']}").status_code == 404
        assert self.client.delete(f"{self.url}/{listed['token']}").status_code == 204
        assert Client().get(page).status_code == 404
        assert not SharedThread.objects.exists()
        assert self.client.delete(f"{self.url}/{listed['token']}").status_code == 404

    def test_link_expires(self) -> None:
        page = self.share()
        SharedThread.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        assert Client().get(page).status_code == 404
        assert self.client.get(self.url).json()["results"] == []
        forget_expired()
        assert not SharedThread.objects.exists()

    def test_link_follows_the_audience_of_its_deployment(self) -> None:
        page = self.share()
        Deployment.objects.update(audience=Audience.SIGNED_IN)
        assert Client().get(page).status_code == 404
        colleague = Client()
        colleague.force_login(make_user())
        assert colleague.get(page).status_code == 200
        Deployment.objects.update(is_active=False)
        assert colleague.get(page).status_code == 404

    def test_strangers_neither_share_nor_list(self) -> None:
        assert Client().post(self.url).status_code == 404
        assert Client().get(self.url).status_code == 404

    def test_sources_are_shown_as_on_the_chat_page(self) -> None:
        source = {
            "n": 1,
            "title": "Guide > Prix > Quel prix ?",
            "question": "Quel prix ?",
            "text": "`12` euros. <script>x</script>",
        }
        Message.objects.filter(role=Role.ASSISTANT).update(sources=[source])
        page = Client().get(self.share()).content.decode()
        assert "</span> Quel prix ?</summary>" in page
        assert '<p class="passage-question" dir="auto">Guide › Prix</p>' in page
        assert "<code>12</code> euros" in page
        assert "<script>x" not in page

    @override(SHARE_MAX_LINKS=2)
    def test_links_of_a_conversation_are_bounded(self) -> None:
        for _ in range(2):
            self.share()
        refused = self.client.post(self.url)
        assert (refused.status_code, refused.json()["code"]) == (409, "sharing_refused")

    def test_temporary_chat_is_not_shared(self) -> None:
        Conversation.objects.update(is_temporary=True)
        assert self.client.post(self.url).status_code == 409

    def test_links_go_with_their_conversation(self) -> None:
        page = self.share()
        assert self.client.delete(f"/api/conversations/{self.conversation.pk}/").status_code == 204
        assert Client().get(page).status_code == 404
