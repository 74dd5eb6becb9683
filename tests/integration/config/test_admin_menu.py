"""The menu of the admin: what is opened every day, and one page for the rest."""

from django.contrib import admin
from django.test import RequestFactory, TestCase

from chat.models import Turn
from config.desk.home import ADVANCED, DAILY, navigation
from tests.admin_pages import client_of, make_staff, superuser_client
from tests.factories import make_user


class MenuTest(TestCase):
    def active(self, path: str) -> list[str]:
        request = RequestFactory().get(path)
        request.user = make_user(is_staff=True, is_superuser=True)
        items = [item for section in navigation(request) for item in section["items"]]
        return [str(item["title"]) for item in items if item["active"]]

    def test_it_has_twelve_entries(self) -> None:
        entries = [entry for _title, entries in DAILY for entry in entries]
        assert len(entries) + 1 == 12

    def test_every_list_is_in_it_or_on_the_page_of_the_rest(self) -> None:
        entries = [entry for _title, entries in (*DAILY, *ADVANCED) for entry in entries]
        listed = {entry.model for entry in entries if entry.page == "changelist"}
        assert listed == {model._meta.label_lower for model in admin.site._registry}

    def test_every_list_says_what_it_is_for(self) -> None:
        page = superuser_client().get("/admin/advanced/")
        for _title, entries in ADVANCED:
            for entry in entries:
                assert entry.purpose, entry.model
                self.assertContains(page, f'href="{entry.address}"')
        assert all(getattr(each, "purpose", "") for each in admin.site._registry.values())

    def test_the_rest_is_shown_by_right_and_left_out_where_there_is_none(self) -> None:
        page = client_of(make_staff("knowledge.view_category")).get("/admin/advanced/")
        assert [[entry.model for entry in entries] for _title, entries in page.context["sections"]] == [
            ["knowledge.category"]
        ]
        self.assertNotContains(client_of(make_staff()).get("/admin/"), "/admin/advanced/")

    def test_one_entry_is_the_page_s_own(self) -> None:
        for path, title in (
            ("/admin/", "Le travail du jour"),
            ("/admin/chat/turn/", "Questions posées"),
            ("/admin/chat/turn/try/", "Essayer une question"),
            (f"/admin/chat/turn/{Turn().pk}/change/", "Questions posées"),
            ("/admin/knowledge/category/", "Avancé"),
            ("/admin/advanced/", "Avancé"),
        ):
            assert self.active(path) == [title], path
