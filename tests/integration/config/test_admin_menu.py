"""The menu of the admin: what is opened every day, and one page for the rest."""

from django.contrib import admin
from django.test import Client, TestCase

from config.home import DAILY, TABBED
from tests.admin_pages import client_of, make_staff, superuser_client


class MenuTest(TestCase):
    def rest(self, client: Client) -> set[str]:
        sections = client.get("/admin/advanced/").context["sections"]
        return {each["model"]._meta.label_lower for app in sections for each in app["models"]}

    def test_every_list_is_in_it_on_the_page_of_the_rest_or_a_tab_of_one_that_is(self) -> None:
        daily = {entry.model for _title, entries in DAILY for entry in entries if entry.page == "changelist"}
        rest = self.rest(superuser_client())
        tabs = [model for models in TABBED for model in models[1:]]
        assert sorted([*daily, *rest, *tabs]) == sorted(model._meta.label_lower for model in admin.site._registry)
        assert len(rest) <= 10
        assert all(models[0] in daily | rest for models in TABBED)

    def test_a_page_is_marked_in_the_menu_before_the_list_that_it_lies_below(self) -> None:
        for path in ("/admin/chat/goldenrun/what-if/", "/admin/agents/deployment/begin/"):
            page = superuser_client().get(path)
            items = [each for part in page.context["sidebar_navigation"] for each in part["items"]]
            marked = [each["link"] for each in items if each["active"]]
            assert [path.startswith(each) and each != "/admin/" for each in marked] == [True], path

    def test_a_list_shows_the_others_of_its_subject_as_tabs(self) -> None:
        page = superuser_client().get("/admin/auth/group/")
        self.assertContains(page, 'href="/admin/auth/user/"')
        client = client_of(make_staff("knowledge.view_category"))
        self.assertNotContains(client.get("/admin/knowledge/category/"), 'href="/admin/knowledge/chunk/"')

    def test_the_rest_is_shown_by_right_and_left_out_where_there_is_none(self) -> None:
        assert self.rest(client_of(make_staff("knowledge.view_category"))) == {"knowledge.category"}
        self.assertNotContains(client_of(make_staff()).get("/admin/"), "/admin/advanced/")
