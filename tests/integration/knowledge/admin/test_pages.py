"""The admin of categories, documents, passages, indexations, written questions and calibrations."""

import uuid
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import TestCase, override_settings
from django.urls import reverse

from agents.admin_base import admin_url
from agents.models import Agent, IndexingMethod, Job, JobKind, JobStatus
from knowledge.embeddings.base import embedder
from knowledge.models import Category, Document, DocumentStatus, IndexBuild, PairVerdict
from knowledge.thresholds import forget_calibrations
from tests.admin_pages import client_of, make_staff, run_action, shown_messages, superuser_client
from tests.factories import fresh, make_agent, make_calibration

UPLOAD = admin_url(Document, "add")


def make_document(agent: Agent | None = None, **overrides: Any) -> Document:
    """A document as a row with its file, without any indexing."""
    name = overrides.pop("name", f"{uuid.uuid4().hex[:8]}.md")
    data = overrides.pop("data", b"# Titre\n\nTexte.")
    document = Document(agent=agent or make_agent(), name=name, **overrides)
    document.file.save(name, ContentFile(data), save=False)
    document.save()
    return document


def make_build(agent: Agent | None = None, **overrides: Any) -> IndexBuild:
    defaults = {"kind": JobKind.DOCUMENTS, "status": JobStatus.DONE}
    return IndexBuild.objects.create(agent=agent or make_agent(), **{**defaults, **overrides})


def uploaded(name: str, data: bytes = b"# Titre\n\nTexte.") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data)


class AddDocumentsTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()
        self.agent = make_agent()

    def send(self, *files: SimpleUploadedFile, **fields: Any) -> Any:
        data = {"agent": self.agent.pk, "category": "", "uploads": list(files), **fields}
        return self.client.post(UPLOAD, data, follow=True)

    def test_several_files_are_stored_and_their_indexing_is_shown(self) -> None:
        category = Category.objects.create(name="Tarifs")
        response = self.send(uploaded("a.md"), uploaded("b.txt", b"Texte"), category=category.pk)
        build = IndexBuild.objects.get()
        assert response.redirect_chain[-1][0] == admin_url(IndexBuild, "change", build.pk)
        assert "Reçus, en cours de lecture : a.md, b.txt" in shown_messages(response)
        assert set(build.document_ids) == {document.pk for document in self.agent.documents.all()}
        assert set(self.agent.documents.values_list("category", flat=True)) == {category.pk}

    def test_one_refused_file_stops_no_other_and_its_reason_is_told(self) -> None:
        old = uploaded("vieux.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
        refused = [uploaded("vide.md", b""), uploaded("gros.md", b"x" * 31), uploaded("photo.xyz", b"abc"), old]
        with override_settings(MAX_DOCUMENT_BYTES=30):
            text = shown_messages(self.send(*refused, uploaded("bon.md")))
        assert "photo.xyz n’a pas été ajouté : Format non pris en charge (.xyz)" in text
        assert "vieux.docx n’a pas été ajouté" in text
        assert "vide.md n’a pas été ajouté : le fichier est vide." in text
        assert "gros.md n’a pas été ajouté : Ce fichier est trop gros" in text
        assert list(self.agent.documents.values_list("name", flat=True)) == ["bon.md"]

    def test_two_files_of_one_name_do_not_replace_each_other(self) -> None:
        text = shown_messages(self.send(uploaded("a.md", b"Un"), uploaded("a.md", b"Deux")))
        assert "un fichier du même nom est déjà dans cet envoi" in text
        with self.agent.documents.get().file.open("rb") as file:
            assert file.read() == b"Un"


class DocumentTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()

    def test_the_reason_of_a_failure_is_shown_in_list_and_form(self) -> None:
        document = make_document(status=DocumentStatus.FAILED, error="Ce PDF est une photographie.")
        for page, args in (("changelist", ()), ("change", (document.pk,))):
            self.assertContains(self.client.get(admin_url(Document, page, *args)), "Ce PDF est une photographie.")

    def test_chosen_documents_are_indexed_again_by_agent(self) -> None:
        first, second = make_agent(), make_agent()
        documents = [make_document(first), make_document(first), make_document(second)]
        response = run_action(self.client, "index_again", *documents)
        assert "2 documents vont être indexés à nouveau" in shown_messages(response)
        assert sorted(len(build.document_ids) for build in IndexBuild.objects.all()) == [1, 2]

    def test_the_file_is_replaced_through_the_form_and_indexed(self) -> None:
        document = make_document(data=b"Un")
        response = self.client.post(
            admin_url(Document, "change", document.pk),
            {"category": "", "replacement": uploaded("nouveau.md", b"Deux")},
            follow=True,
        )
        assert "va être indexé à nouveau" in shown_messages(response)
        document.refresh_from_db()
        with document.file.open("rb") as file:
            assert file.read() == b"Deux"
        assert IndexBuild.objects.get().document_ids == [document.pk]

    def test_a_new_category_is_indexed_and_an_unchanged_form_is_not(self) -> None:
        document, category = make_document(), Category.objects.create(name="Tarifs")
        address = admin_url(Document, "change", document.pk)
        self.client.post(address, {"category": ""})
        assert not IndexBuild.objects.exists()
        self.client.post(address, {"category": category.pk})
        assert fresh(document).category == category
        assert IndexBuild.objects.count() == 1

    def test_a_replacement_that_is_too_big_is_refused_at_its_field(self) -> None:
        document = make_document()
        with override_settings(MAX_DOCUMENT_BYTES=3):
            response = self.client.post(
                admin_url(Document, "change", document.pk), {"category": "", "replacement": uploaded("a.md")}
            )
        assert "replacement" in response.context["adminform"].form.errors

    def test_the_file_is_a_download_and_never_a_page(self) -> None:
        document = make_document(name="dossier/page.html", data=b"<script>alert(1)</script>")
        address = reverse("admin:knowledge_document_file", args=[document.pk])
        response = self.client.get(address)
        assert response["Content-Disposition"] == 'attachment; filename="page.html"'
        assert response["Content-Type"] == "application/octet-stream"
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response.getvalue() == b"<script>alert(1)</script>"

    def test_staff_who_may_only_look_can_read_and_download(self) -> None:
        document = make_document()
        client = client_of(make_staff("knowledge.view_document"))
        page = client.get(admin_url(Document, "change", document.pk))
        self.assertNotContains(page, "Remplacer le fichier")
        address = reverse("admin:knowledge_document_file", args=[document.pk])
        assert client.get(address).status_code == 200


class IndexBuildTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()

    def test_a_build_is_cancelled_and_tried_again_from_the_list(self) -> None:
        build = make_build(status=JobStatus.QUEUED)
        assert "1 indexation annulée." in shown_messages(run_action(self.client, "cancel", build))
        assert fresh(build).status == JobStatus.CANCELLED
        assert "1 indexation relancée." in shown_messages(run_action(self.client, "retry", build))
        assert fresh(build).status == JobStatus.QUEUED

    def test_a_failed_job_of_any_kind_is_seen_and_tried_again(self) -> None:
        failed = {"status": JobStatus.FAILED, "error": "La base vectorielle ne répond pas."}
        job = IndexBuild.objects.create(kind=JobKind.REMOVE_POINTS, payload={"agent": "a", "ids": []}, **failed)
        Job.objects.create(kind=JobKind.TOOLS, key=JobKind.TOOLS)
        listed = self.client.get(admin_url(IndexBuild, "changelist"))
        self.assertContains(listed, "Retrait de points")
        assert listed.context["cl"].result_count == 1
        self.assertContains(self.client.get(admin_url(IndexBuild, "change", job.pk)), failed["error"])
        run_action(self.client, "retry", job)
        assert fresh(job).status == JobStatus.QUEUED


class IndexPagesTest(TestCase):
    def setUp(self) -> None:
        self.client = superuser_client()
        self.agent = make_agent()

    def test_a_rebuild_is_confirmed_then_queued_and_shown(self) -> None:
        address = admin_url(IndexBuild, "rebuild", agent=self.agent.pk)
        self.assertContains(self.client.get(address), "Q/R Atomique")
        assert not IndexBuild.objects.exists()
        response = self.client.post(address, follow=True)
        build = IndexBuild.objects.get()
        assert build.method == IndexingMethod.QA_ATOMIC
        assert response.redirect_chain[-1][0] == admin_url(IndexBuild, "change", build.pk)

    def test_a_second_rebuild_is_refused_with_its_reason(self) -> None:
        address = admin_url(IndexBuild, "rebuild", agent=self.agent.pk)
        self.client.post(address)
        text = shown_messages(self.client.post(address, follow=True))
        assert "déjà en cours" in text
        assert IndexBuild.objects.count() == 1


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
