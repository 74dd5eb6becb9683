"""`check_model`: rows of a good model and of bad ones; what a failed verifier forbids; who sees the page."""

import json
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.forms import modelform_factory
from django.test import TransactionTestCase

from agents.admin.deployments import RuntimeSettingsForm
from agents.errors import LLMModelUnknownError, LLMToolsRefusedError
from agents.llm.base import Usage
from agents.models import Job, JobKind, RuntimeSettings
from chat.staff.model_check import CHECKS
from tests.integration.chat.turn.test_path import scripted
from tests.scripted import ScriptedReply
from tests.terminal import run
from tests.tools import asking, call

FRENCH = "On peut emprunter 8 documents pour une durée de 3 semaines [1]."
ENGLISH = "You can borrow 8 items for a period of 3 weeks [1]."
UNKNOWN = ("Les passages ne disent rien du montant de cette amende.", "The passages do not say what the fine is.")
UNITS = json.dumps({"units": [{"question": "Combien de documents ?", "answer": "On emprunte 8 documents."}]})
WEATHER = asking(call("weather", id="a", city="Lyon"))
SAME, OTHER = '{"same_answer": true}', '{"same_answer": false}'


def said(text: str) -> ScriptedReply:
    return ScriptedReply([text], usage=Usage(100, 40))


def check(answers: Any, *replies: Any) -> dict[str, Any]:
    with scripted(*(said(text) for text in answers), *replies):
        return dict(run("check_model"))


class ModelCheckTests(TransactionTestCase):
    def failed(self, answers: Any, *replies: Any) -> set[str]:
        report = check(answers, *replies)
        assert [row["check"] for row in report["rows"]] == list(CHECKS)
        assert all(bool(row["switch_off"]) != row["passed"] for row in report["rows"])
        return {row["check"] for row in report["rows"] if not row["passed"]}

    def test_good_model_passes_and_each_bad_one_fails_what_it_cannot_do(self) -> None:
        verdicts = [*[SAME] * 5, *[OTHER] * 5]
        assert self.failed((FRENCH, ENGLISH, *UNKNOWN), [UNITS], WEATHER, *verdicts) == set()
        english = ("You can borrow 8 items for 3 weeks.", ENGLISH, *UNKNOWN)
        assert self.failed(english, [UNITS], WEATHER, *verdicts) >= {"french", "citation"}
        guessing = ("L’amende est de 12 € [1].", "The fine is 12 euros, as the passage says [1].")
        no_json = ("{", "nothing")
        found = self.failed((FRENCH, ENGLISH, *guessing), *no_json, LLMToolsRefusedError("no tools"), *[SAME] * 10)
        assert found == {"refusal", "units", "tool_call", "verifier"}

    def test_unknown_model_and_none_are_said_by_name(self) -> None:
        error = LLMModelUnknownError.named("gpt-6", "HTTP 404.")
        with pytest.raises(CommandError, match="gpt-6"), scripted(error):
            call_command("check_model")
        with pytest.raises(CommandError, match="OPENAI_BASE_URL"):
            call_command("check_model")

    @mock.patch("agents.admin.deployments.language_model", mock.Mock())
    def test_a_model_that_failed_the_verifier_is_refused_for_it(self) -> None:
        def errors() -> dict[str, Any]:
            made = modelform_factory(RuntimeSettings, form=RuntimeSettingsForm, fields=())
            form = made({"verify_answers": "true", "llm_model": "m"}, instance=RuntimeSettings(pk=1))
            return {name: found for name, found in form.errors.items() if name == "verify_answers"}

        assert not errors()
        for passed in (False, True):
            rows = [{"check": "verifier", "passed": passed, "figure": ""}]
            Job.objects.create(kind=JobKind.MODEL_CHECK, status="done", report={"model": "m", "rows": rows})
            assert bool(errors()) is not passed

    def test_page_has_the_last_check_and_its_button_asks_a_worker(self) -> None:
        user = User.objects.create_user("staff", is_staff=True)
        self.client.force_login(user)
        address = "/admin/chat/turn/model/"
        assert self.client.get(address).status_code == 403
        user.user_permissions.add(Permission.objects.get(codename="change_runtimesettings"))
        rows = [{"check": "french", "passed": False, "figure": "[1]"}]
        Job.objects.create(kind=JobKind.MODEL_CHECK, status="done", report={"model": "small", "rows": rows})
        assert "OPENAI_BASE_URL" in self.client.get(address).content.decode()
        assert self.client.post(address).status_code == 302
        assert Job.objects.filter(kind=JobKind.MODEL_CHECK, status="queued").count() == 1
