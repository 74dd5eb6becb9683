"""A reader of the tests: a visitor of the page with a conversation of their own."""

from typing import Any

from django.test import Client, TestCase

from agents.models import Deployment
from chat.models import Conversation, Message, Role
from tests.factories import make_deployment, make_exchange, make_library

QUESTION = "Où réserver une salle ?"


class LibraryCase(TestCase):
    """A deployment whose agent knows the little library."""

    deployment: Deployment

    @classmethod
    def setUpTestData(cls) -> None:
        cls.deployment = make_library()


class ReaderTest(TestCase):
    """A visitor with one conversation of one answered question."""

    def setUp(self) -> None:
        self.deployment: Deployment = make_deployment()
        self.client = Client()
        self.conversation = self.open_conversation()
        self.turn = make_exchange(self.conversation, QUESTION, "À l’accueil [1].")
        self.source({"n": 1, "title": "Guide > Salles", "question": "Où ?", "text": "Le texte."})

    def open_conversation(self, **body: Any) -> Conversation:
        body = {"deployment": self.deployment.slug, **body}
        created = self.client.post("/api/conversations/", body, "application/json")
        assert created.status_code == 201, created.content
        return Conversation.objects.get(pk=created.json()["id"])

    def source(self, *sources: dict[str, Any]) -> None:
        Message.objects.filter(turn=self.turn, role=Role.ASSISTANT).update(sources=list(sources))

    @property
    def answer(self) -> Message:
        return Message.objects.get(turn=self.turn, role=Role.ASSISTANT)

    def judge(self, verdict: str, client: Client | None = None, **body: str) -> Any:
        url = f"/api/messages/{self.answer.pk}/feedback"
        return (client or self.client).post(url, {"verdict": verdict, **body}, "application/json")
