"""A file of validated answers in the admin: uploaded, looked at, chosen from and imported."""

import html
import re
from typing import Any
from unittest import mock

from auditlog.models import LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, TestCase

from agents.admin_base import admin_url
from faqs.admin.imports import IMPORT_RIGHTS, MAX_BYTES
from faqs.answers import save_learned
from faqs.models import LearnedResponse
from tests.admin_pages import client_of, make_staff
from tests.constants import override
from tests.factories import make_agent, make_learned

IMPORT = admin_url(LearnedResponse, "import")
PRICE = "Combien coûte la carte de lecteur ?"
REWORDED = "Quel est le prix de la carte de lecteur ?"
FILE = f"question,answer\n{PRICE},15 <b>euros</b>.\n{REWORDED},16 euros.\nOù ?,Ici.\n,2\n"


class ImportTest(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.row = make_learned(self.agent, question=PRICE, answer="12 euros.")
        self.user = make_staff(*IMPORT_RIGHTS, "faqs.view_learnedresponse")
        self.client = client_of(self.user)

    def upload(self, text: str | bytes = FILE, client: Client | None = None) -> Any:
        data = text.encode() if isinstance(text, str) else text
        file = SimpleUploadedFile("faq.csv", data)
        return (client or self.client).post(IMPORT, {"agent": self.agent.pk, "file": file})

    def confirm(self, page: Any, *ticked: str) -> Any:
        """Send the form of a preview, with the rows of these questions ticked."""
        content = page.content.decode()
        text = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", content, re.DOTALL)
        assert text is not None
        boxes = dict(re.findall(r'name="chosen" value="([^"]+)"> (.*?)</label>', content))
        chosen = [choice for choice, question in boxes.items() if html.unescape(question) in ticked]
        return self.client.post(IMPORT, {"agent": self.agent.pk, "text": html.unescape(text[1]), "chosen": chosen})

    def answers(self) -> list[str]:
        return list(LearnedResponse.objects.filter(agent=self.agent).order_by("pk").values_list("answer", flat=True))

    def test_preview_shows_old_and_new_and_writes_nothing(self) -> None:
        page = self.upload().content.decode()
        for shown in ("12 euros.", "15 &lt;b&gt;euros", "Ici.", "question est vide"):
            assert shown in page
        assert "<b>" not in page
        for label in ("Modifiées (1)", "Contradictoires (1)", "Nouvelles (1)", "Inchangées (0)"):
            assert label in page
        assert self.answers() == ["12 euros."]

    def test_nothing_chosen_adds_the_new_rows_only(self) -> None:
        response = self.confirm(self.upload())
        for told in ("Ajoutées : 1. Mises à jour : 0.", "Laissées telles quelles : 2.", "Ligne 5"):
            self.assertContains(response, told)
        assert self.answers() == ["12 euros.", "Ici."]

    def test_chosen_rows_are_applied_by_name(self) -> None:
        self.confirm(self.upload(), PRICE, REWORDED)
        assert self.answers() == ["15 <b>euros</b>.", "16 euros.", "Ici."]
        latest = LogEntry.objects.get_for_object(self.row).get(changes__has_key="answer", action=1)
        assert latest.actor == self.user

    def test_answer_that_changed_since_the_preview_is_left(self) -> None:
        page = self.upload()
        self.row.answer = "13 euros."
        save_learned(self.row)
        self.assertContains(self.confirm(page, PRICE, REWORDED), "Laissées telles quelles : 2.")
        assert self.answers() == ["13 euros.", "Ici."]

    def test_it_asks_for_both_rights(self) -> None:
        for right in ("view", "add", "change"):
            client = client_of(make_staff(f"faqs.{right}_learnedresponse"))
            assert client.get(IMPORT).status_code == 403
            assert self.upload(client=client).status_code == 403

    def test_worker_is_told_of_what_was_written(self) -> None:
        page = self.upload()
        with mock.patch("faqs.answer_points.nudge") as nudge, self.captureOnCommitCallbacks(execute=True):
            self.confirm(page)
        assert nudge.call_count == 1

    def test_file_that_is_no_csv_or_too_large_is_refused_on_the_form(self) -> None:
        self.assertContains(self.upload("a,b\n"), "colonnes attendues")
        self.assertContains(self.upload(b"\0\0"), "texte")
        with override(MAX_ROWS=2):
            self.assertContains(self.upload(), "import_faqs")
        self.assertContains(self.upload("x" * (MAX_BYTES + 1)), "dépasse")
