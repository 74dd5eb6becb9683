"""What whoever carries a session may not do by accident or for another site."""

from django.test import Client

from chat.models import Conversation, SharedThread
from tests.factories import make_api_key
from tests.readers import QUESTION, ReaderTest


class CrossSiteTests(ReaderTest):
    """Whatever carries a session changes nothing for another site: a visitor's no less than that of somebody signed in."""

    def setUp(self) -> None:
        super().setUp()
        visitor, self.client = self.client, Client(enforce_csrf_checks=True)
        self.client.cookies = visitor.cookies

    def test_no_door_takes_a_visitors_session_without_the_token(self) -> None:
        own = f"/api/conversations/{self.conversation.pk}"
        refused = [
            self.client.post("/api/conversations/", {}, "application/json"),
            self.client.patch(f"{own}/", {"title": "Pris"}, "application/json"),
            self.client.post(f"{own}/branch/", {"turnId": self.turn.pk}, "application/json"),
            self.client.post(f"{own}/links", {}, "application/json"),
            self.judge("down"),
            self.client.delete(f"{own}/"),
        ]
        assert [response.status_code for response in refused] == [403] * 6
        assert Conversation.objects.get().title == QUESTION
        assert not SharedThread.objects.exists()

    def test_the_pages_own_token_opens_them(self) -> None:
        self.client.get("/")
        token = self.client.cookies["csrftoken"].value
        url = f"/api/conversations/{self.conversation.pk}/"
        assert self.client.delete(url).status_code == 403
        assert self.client.delete(url, headers={"X-CSRFToken": token}).status_code == 204


class ZeroByteTests(ReaderTest):
    """PostgreSQL takes no text with a zero byte: an address that holds one names nothing, and is no failure of ours."""

    def test_nothing_has_such_a_name(self) -> None:
        own = f"/api/conversations/{self.conversation.pk}"
        for address in ("/s/%00/", "/widget/%00/?origin=https://a.example", "/v1/models/%00"):
            headers = {"Authorization": f"Bearer {make_api_key(self.deployment)}"}
            assert self.client.get(address, headers=headers).status_code == 404, address
        assert self.client.delete(f"{own}/links/%00").status_code == 404
        listed = self.client.get("/api/conversations/?deployment=%00").json()
        assert listed["results"] == []
        found = self.client.get("/api/conversations/?q=salle%00").json()
        assert len(found["results"]) == 1
        asked = {"message": "Où ?", "deployment": "\0"}
        assert self.client.post("/api/rag/chat", asked, "application/json").status_code == 404
