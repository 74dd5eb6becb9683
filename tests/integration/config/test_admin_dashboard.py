"""The first page of the admin."""

from django.test import TestCase
from django.urls import reverse

from agents.admin_base import admin_url
from knowledge.models import Document
from tests.admin_pages import make_staff, superuser_client
from tests.factories import make_deployment


class DashboardTest(TestCase):
    def test_a_new_site_is_told_where_to_begin(self) -> None:
        page = superuser_client().get("/admin/")
        self.assertContains(page, "Pour commencer")
        self.assertContains(page, reverse("admin-first-agent"))

    def test_a_site_that_has_everything_is_told_what_waits(self) -> None:
        deployment = make_deployment()
        Document.objects.create(agent=deployment.agent, name="a.md", status="failed")
        page = superuser_client().get("/admin/")
        self.assertNotContains(page, "Pour commencer")
        self.assertContains(page, admin_url(Document, "changelist", status__exact="failed"))

    def test_a_login_without_a_destination_leads_here(self) -> None:
        make_staff(username="marie", password="secret-of-marie")
        data = {"username": "marie", "password": "secret-of-marie"}
        self.assertRedirects(self.client.post("/admin/login/", data), "/admin/")
