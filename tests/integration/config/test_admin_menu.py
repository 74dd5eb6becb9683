"""The menu of the admin: what is opened every day, and one page for the rest."""

from django.contrib import admin
from django.test import Client, TestCase

from config.home import DAILY
from tests.admin_pages import client_of, make_staff, superuser_client


class MenuTest(TestCase):
    def rest(self, client: Client) -> set[str]:
        sections = client.get("/admin/advanced/").context["sections"]
        return {each["model"]._meta.label_lower for app in sections for each in app["models"]}

    def test_every_list_is_in_it_or_on_the_page_of_the_rest(self) -> None:
        daily = {entry.model for _title, entries in DAILY for entry in entries if entry.page == "changelist"}
        listed = [*(model for model in daily if model), *self.rest(superuser_client())]
        assert sorted(listed) == sorted(model._meta.label_lower for model in admin.site._registry)

    def test_the_rest_is_shown_by_right_and_left_out_where_there_is_none(self) -> None:
        assert self.rest(client_of(make_staff("knowledge.view_category"))) == {"knowledge.category"}
        self.assertNotContains(client_of(make_staff()).get("/admin/"), "/admin/advanced/")
