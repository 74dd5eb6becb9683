"""A file of validated answers in the admin: uploaded, looked at, chosen from and imported, by its uploader and once."""

import re
from typing import Any
from unittest import mock

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, TestCase, override_settings

from agents.admin_base import admin_url
from agents.history import lines_of
from faqs.admin.imports import IMPORT_RIGHTS
from faqs.answers import save_learned
from faqs.csv import write_rows
from faqs.models import ImportPreview, ImportState, LearnedResponse
from faqs.previews import forgotten_previews
from tests.admin_pages import client_of, make_staff, queries_of
from tests.constants import override
from tests.factories import make_agent, make_learned

IMPORT = admin_url(LearnedResponse, "import")
PRICE = "Combien coûte la carte de lecteur ?"
REWORDED = "Quel est le prix de la carte de lecteur ?"
FILE = f"question,answer\n{PRICE},15 <b>euros</b>.\n{REWORDED},16 euros.\nOù ?,Ici.\n,2\n"


def upload(client: Client, agent_id: int, text: str | bytes = FILE) -> Any:
    data = text.encode() if isinstance(text, str) else text
    file = SimpleUploadedFile("faq.csv", data)
    return client.post(IMPORT, {"agent": agent_id, "file": file}, follow=True)


class ImportTest(TestCase):
    def setUp(self) -> None:
        self.agent = make_agent()
        self.row = make_learned(self.agent, question=PRICE, answer="12 euros.")
        self.user = make_staff(*IMPORT_RIGHTS, "faqs.view_learnedresponse")
        self.client = client_of(self.user)

    def upload(self, text: str | bytes = FILE) -> str:
        """The address of the preview."""
        response = upload(self.client, self.agent.pk, text)
        assert response.status_code == 200
        return str(response.request["PATH_INFO"])

    def answers(self) -> list[str]:
        return list(LearnedResponse.objects.filter(agent=self.agent).order_by("pk").values_list("answer", flat=True))

    def test_preview_shows_old_and_new_and_writes_nothing(self) -> None:
        page = upload(self.client, self.agent.pk).content.decode()
        assert "<del>12</del>" in page
        assert "&lt;" in page
        assert "<b>" not in page
        for label in ("Modifiées (1)", "Contradictoires (1)", "Nouvelles (1)", "Refusées (1)"):
            assert label in page
        assert self.answers() == ["12 euros."]

    def test_every_filter_shows_its_rows(self) -> None:
        address = self.upload()
        for kind, shown in (
            ("changed", PRICE),
            ("contradictory", REWORDED),
            ("new", "Ici."),
            ("unchanged", "Aucune ligne"),
            ("failed", "question est vide"),
            ("nonsense", PRICE),
        ):
            page = self.client.get(f"{address}?kind={kind}&number=99").content.decode()
            assert shown in page, kind
            assert page.count('type="checkbox" name="chosen"') == (kind in ("changed", "contradictory", "nonsense")), (
                kind
            )

    def test_nothing_chosen_adds_the_new_rows_only(self) -> None:
        response = self.client.post(self.upload(), {"go": "apply"}, follow=True)
        for told in ("Ajoutées : 1. Mises à jour : 0.", "Laissées telles quelles : 2.", "Ligne 5"):
            self.assertContains(response, told)
        assert self.answers() == ["12 euros.", "Ici."]

    def test_ticks_of_every_page_are_kept_and_applied(self) -> None:
        address = self.upload()
        self.client.post(address, {"kind": "changed", "chosen": "2", "go": "show:contradictory:1"})
        assert " checked" in self.client.get(f"{address}?kind=changed").content.decode()
        self.client.post(address, {"kind": "contradictory", "chosen": ["3", "4", "99", "x"], "go": "apply"})
        assert self.answers() == ["15 <b>euros</b>.", "16 euros.", "Ici."]
        latest = lines_of(self.row).first()
        assert latest is not None
        assert (latest.actor, latest.additional_data["origin"]) == (self.user, "import")

    def test_tick_that_is_taken_back_is_forgotten(self) -> None:
        address = self.upload()
        self.client.post(address, {"kind": "changed", "chosen": "2", "go": "show:changed:1"})
        self.client.post(address, {"kind": "changed", "go": "apply"})
        assert self.answers() == ["12 euros.", "Ici."]

    def test_enter_key_keeps_the_ticks_and_imports_nothing(self) -> None:
        address = self.upload()
        buttons = re.findall(r'name="go" value="([^"]+)"', self.client.get(address).content.decode())
        self.client.post(address, {"kind": "changed", "chosen": "2", "go": buttons[0]})
        assert ImportPreview.objects.get().chosen == [2]
        assert self.answers() == ["12 euros."]

    def test_all_changed_are_chosen_at_once_and_none_again(self) -> None:
        address = self.upload()
        for go, chosen in (("all", [2]), ("none", [])):
            self.client.post(address, {"go": go})
            assert ImportPreview.objects.get().chosen == chosen

    @override(FAQ_MAX_COMPARED=0)
    def test_large_file_has_pages_and_says_what_was_not_compared(self) -> None:
        rows = "".join(f"Question {number} ?,R\n" for number in range(120))
        address = self.upload(f"question,answer\n{rows}")
        page = self.client.get(f"{address}?kind=new&number=3").content.decode()
        assert page.count("<article") == 20
        assert "Page 3 sur 3" in page
        assert 'value="show:new:2"' in page
        assert "120 lignes n’ont pas été comparées" in page

    def test_preview_takes_the_same_queries_whatever_its_length(self) -> None:
        counts = []
        for rows in (1, 40):
            for number in range(rows):
                make_learned(self.agent, question=f"Q{rows} {number} ?")
            address = self.upload("question,answer\n" + "".join(f"Q{rows} {n} ?,R\n" for n in range(rows)))
            assert self.client.get(address).content.decode().count("<article") == rows
            counts.append(queries_of(self.client, address))
        assert counts[0] == counts[1]

    def test_next_upload_takes_the_place_of_the_one_before(self) -> None:
        first, second = self.upload(), self.upload()
        assert self.client.get(first).status_code == 302
        assert self.client.get(second).status_code == 200

    def test_it_is_applied_once(self) -> None:
        address = self.upload()
        self.client.post(address, {"go": "apply"})
        assert self.client.post(address, {"go": "apply"}).status_code == 302
        self.assertContains(self.client.get(address), "Ajoutées : 1.")
        assert self.answers() == ["12 euros.", "Ici."]

    @override(FAQ_IMPORT_BATCH=1)
    @mock.patch("faqs.admin.imports.WRITING_SECONDS", 0)
    def test_a_long_one_is_written_in_several_requests_and_followed(self) -> None:
        address = self.upload("question,answer\n,2\nOù ?,Ici.\nQui ?,Lui.\n")
        response = self.client.post(address, {"go": "apply"})
        self.assertRedirects(response, address)
        page = self.client.get(address)
        self.assertContains(page, "50 % (1 / 2)")
        self.assertContains(page, f'hx-post="{address}"')
        assert self.client.post(address, {"go": "leave"}).status_code == 302
        page = self.client.get(address)
        self.assertContains(page, "100 % (2 / 2)")
        self.assertContains(page, "Lignes refusées")
        self.assertNotContains(page, "hx-post=")
        assert self.answers() == ["12 euros.", "Ici.", "Lui."]
        self.client.post(address)
        assert len(self.answers()) == 3

    def test_another_upload_leaves_one_that_goes_on_alone(self) -> None:
        address = self.upload()
        ImportPreview.objects.update(state=ImportState.APPLYING)
        self.upload()
        assert ImportPreview.objects.count() == 2
        assert self.client.get(address).status_code == 200
        with override_settings(FAQ_PREVIEW_SECONDS=0):
            assert forgotten_previews().count() == 2

    def test_one_that_failed_half_way_goes_on_at_the_first_row_that_is_missing(self) -> None:
        address = self.upload("question,answer\nOù ?,Ici.\nQui ?,Lui.\n")
        written: list[int] = []

        def fails_at_the_second(*args: Any) -> None:
            if written:
                raise RuntimeError("bug")
            written.append(1)
            write_rows(*args)

        with override(FAQ_IMPORT_BATCH=1), mock.patch("faqs.previews.write_rows", fails_at_the_second):
            with pytest.raises(RuntimeError):
                self.client.post(address, {"go": "apply"})
        self.assertContains(self.client.get(address), "50 % (1 / 2)")
        self.client.post(address)
        self.assertContains(self.client.get(address), "100 % (2 / 2)")
        assert self.answers() == ["12 euros.", "Ici.", "Lui."]

    def test_left_import_is_forgotten(self) -> None:
        address = self.upload()
        self.client.post(address, {"go": "leave"})
        assert self.client.post(address, {"go": "apply"}).status_code == 302
        assert self.answers() == ["12 euros."]

    def test_only_its_uploader_sees_and_applies_it(self) -> None:
        address = self.upload()
        colleague = client_of(make_staff(*IMPORT_RIGHTS))
        assert colleague.get(address).status_code == 302
        assert colleague.post(address, {"go": "apply"}).status_code == 302
        self.user.user_permissions.clear()
        assert self.client.post(address, {"go": "apply"}).status_code == 403
        assert self.answers() == ["12 euros."]

    def test_every_page_asks_for_both_rights(self) -> None:
        address = self.upload()
        for right in ("view", "add", "change"):
            client = client_of(make_staff(f"faqs.{right}_learnedresponse"))
            assert client.get(IMPORT).status_code == 403
            assert client.get(address).status_code == 403
            assert upload(client, self.agent.pk).status_code == 403

    def test_answer_that_changed_since_is_left_and_named(self) -> None:
        address = self.upload()
        self.row.answer = "13 euros."
        save_learned(self.row)
        response = self.client.post(address, {"kind": "changed", "chosen": "2", "go": "apply"}, follow=True)
        self.assertContains(response, "a changé depuis l’aperçu")
        assert self.answers() == ["13 euros.", "Ici."]

    def test_worker_is_told_of_what_was_written(self) -> None:
        address = self.upload()
        with mock.patch("faqs.answer_points.nudge") as nudge:
            with self.captureOnCommitCallbacks(execute=True):
                self.client.post(address, {"go": "apply"})
        assert nudge.call_count == 1

    def test_files_of_spreadsheets_are_read(self) -> None:
        text = f"question;réponse;catégorie\n{PRICE};15 €;Tarifs\n"
        for data in (text.encode("cp1252"), text.encode("utf-16"), f"\ufeff{text}".encode()):
            page = upload(self.client, self.agent.pk, data).content.decode()
            assert "<ins>15 €</ins>" in page
            assert "<ins>Tarifs</ins>" in page

    def test_file_that_is_no_csv_or_too_large_to_show_is_refused_on_the_form(self) -> None:
        assert "colonnes attendues" in upload(self.client, self.agent.pk, "a,b\n").content.decode()
        with override(FAQ_MAX_PREVIEW_BYTES=10):
            page = upload(self.client, self.agent.pk).content.decode()
        assert "en plusieurs fois" in page
        assert not ImportPreview.objects.exists()
