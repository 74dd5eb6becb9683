"""From nothing to a public page, in one page of the admin."""

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import TestCase
from django.urls import reverse

from agents.models import AgentLimit, Deployment
from knowledge.models import Document
from tests.admin_pages import client_of, make_staff, superuser_client
from tests.doors.admin import in_role
from tests.factories import make_agent, make_learned

_PAGE = "/admin/agents/deployment/begin/"


class FirstAgentTest(TestCase):
    def test_site_with_an_agent_begins_with_documents_and_one_with_answers_has_begun(self) -> None:
        agent, client = make_agent(), superuser_client()
        page = client.get("/admin/").content.decode()
        assert reverse("admin:knowledge_document_add") in page
        assert _PAGE not in page
        make_learned(agent)
        assert "Pour commencer" not in client.get("/admin/").content.decode()

    def test_unreadable_file_is_told_and_same_name_gets_a_number(self) -> None:
        make_agent(slug="guide")
        file = SimpleUploadedFile("a.exe", b"MZ")
        typed = {"name": "Guide", "audience": "signed_in", "welcome": "Bonjour.", "uploads": file}
        page = superuser_client().post(_PAGE, typed, follow=True)
        assert "a.exe" in page.content.decode()
        assert Deployment.objects.get(slug="guide-2", audience="signed_in", welcome="Bonjour.").is_active is False
        assert not Document.objects.exists()
        assert "Publier" not in page.content.decode()

    def test_who_may_not_do_all_of_it_is_refused(self) -> None:
        refused = client_of(make_staff("agents.add_agent")).get(_PAGE)
        self.assertContains(refused, "Cette page ne vous est pas ouverte", status_code=403)
        limited = in_role("agents")
        assert client_of(limited).get(_PAGE).status_code == 200
        AgentLimit.objects.create(user=limited)
        assert client_of(limited).get(_PAGE).status_code == 403
        missing = superuser_client().get(f"{_PAGE}?deployment={'9' * 30}")
        self.assertContains(missing, "Cette page n’existe pas", status_code=404)
