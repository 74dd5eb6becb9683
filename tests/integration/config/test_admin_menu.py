"""The menu of the admin: what is opened every day, and one page for the rest."""

from django.contrib import admin
from django.test import TestCase

from config.desk.home import ADVANCED, DAILY
from tests.admin_pages import client_of, make_staff


class MenuTest(TestCase):
    def test_every_list_is_in_it_or_on_the_page_of_the_rest(self) -> None:
        entries = [entry for _title, entries in (*DAILY, *ADVANCED) for entry in entries]
        listed = {entry.model for entry in entries if entry.page == "changelist"}
        assert listed == {model._meta.label_lower for model in admin.site._registry}

    def test_the_rest_is_shown_by_right_and_left_out_where_there_is_none(self) -> None:
        page = client_of(make_staff("knowledge.view_category")).get("/admin/advanced/")
        assert [[entry.model for entry in entries] for _title, entries in page.context["sections"]] == [
            ["knowledge.category"]
        ]
        self.assertNotContains(client_of(make_staff()).get("/admin/"), "/admin/advanced/")
