"""Calibrations and verdicts in the admin: looked at, deleted, and said on the settings pages."""

from django.test import TestCase

from agents.admin_base import admin_url
from agents.models import Agent
from knowledge.embeddings.base import embedder
from knowledge.models import PairVerdict
from knowledge.thresholds import forget_calibrations
from tests.admin_pages import client_of, make_staff, superuser_client
from tests.factories import make_agent, make_calibration


class CalibrationAdminTest(TestCase):
    def setUp(self) -> None:
        forget_calibrations()
        self.addCleanup(forget_calibrations)

    def test_a_calibration_takes_the_notice_away(self) -> None:
        agent, client = make_agent(direct_answer_threshold=None), superuser_client()
        address = admin_url(Agent, "change", agent.pk)
        self.assertContains(client.get(address), "Les réponses directes sont désactivées")
        make_calibration(model=embedder().recipe.model)
        forget_calibrations()
        self.assertNotContains(client.get(address), "Les réponses directes sont désactivées")

    def test_a_verdict_is_signed_by_who_gave_it(self) -> None:
        user = make_staff("knowledge.add_pairverdict", "knowledge.view_pairverdict")
        data = {"stored": "Quand ?", "asked": "À quelle date ?", "same_answer": "on", "index": ""}
        answer = client_of(user).post(admin_url(PairVerdict, "add"), data)
        assert answer.status_code == 302
        assert PairVerdict.objects.get().decided_by == user
