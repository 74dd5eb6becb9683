"""The ready-made roles, whose rows a limit leaves, and rights in words."""

import re
from html import unescape
from typing import Any

from django.apps.registry import Apps
from django.contrib.auth.models import Group, Permission, User
from django.test import RequestFactory, TestCase

from agents.admin_base import admin_url
from agents.models import Agent, AgentLimit, Deployment, Role, Specialist
from agents.roles import OWNED, ROLES, agents_for, install_roles, limit_of, visible
from chat.models import GoldenSet
from faqs.models import LearnedResponse, QuestionGroup
from knowledge.models import Category, Chunk, Document
from tests.admin_pages import client_of, run_action, superuser_client
from tests.doors.admin import form_of, in_role
from tests.doors.world import MARK, add_private_rows, grant, make_site
from tests.factories import (
    fresh,
    make_agent,
    make_conversation,
    make_deployment,
    make_exchange,
    make_learned,
    make_library,
    make_user,
)


class RolesTest(TestCase):
    def test_every_named_right_exists(self) -> None:
        assert {role.code for role in Role.objects.all()} == set(ROLES)
        known = {f"{app}.{name}" for app, name in Permission.objects.values_list("content_type__app_label", "codename")}
        for ready in ROLES.values():
            assert ready.rights <= known

    def test_what_a_site_changed_stays(self) -> None:
        editor, reader = (Role.objects.get(code=code) for code in ("editor", "reader"))
        taken = Permission.objects.get(codename="delete_document")
        added = Permission.objects.get(codename="change_runtimesettings")
        assert editor.group is not None
        assert reader.group is not None
        editor.group.permissions.remove(taken)
        editor.group.permissions.add(added)
        Group.objects.filter(pk=editor.group.pk).update(name="Équipe éditoriale")
        reader.group.delete()
        install_roles()
        group = Group.objects.get(name="Équipe éditoriale")
        assert added in group.permissions.all()
        assert taken not in group.permissions.all()
        assert not Group.objects.filter(name=ROLES["reader"].name).exists()

    def test_group_that_a_site_named_so_itself_is_given_nothing(self) -> None:
        Role.objects.all().delete()
        Group.objects.all().delete()
        name = ROLES["operator"].name
        own = Group.objects.create(name=name)
        install_roles()
        assert not own.permissions.exists()
        made = Role.objects.get(code="operator").group
        assert made is not None
        assert made.name == f"{name} 2"
        assert made.permissions.exists()
        # One that has them all already is the role's own, of before the database went back.
        Role.objects.all().delete()
        own.permissions.set(made.permissions.all())
        install_roles()
        assert Role.objects.get(code="operator").group == own

    def test_database_that_went_back_before_roles_is_left_alone(self) -> None:
        with self.assertNumQueries(0):
            install_roles(apps=Apps())

    def test_right_of_a_later_release_is_given(self) -> None:
        role = Role.objects.get(code="reader")
        new = "knowledge.view_synonym"
        role.given.remove(new)
        role.save()
        assert role.group is not None
        role.group.permissions.remove(Permission.objects.get(codename="view_synonym"))
        install_roles()
        assert role.group.permissions.filter(codename="view_synonym").exists()
        assert new in Role.objects.get(code="reader").given


class LimitTest(TestCase):
    def setUp(self) -> None:
        self.mine, self.other = make_agent(), make_agent()
        self.person = in_role("editor")

    def limit(self, *agents: Agent, **of: Any) -> None:
        AgentLimit.objects.create(**of).agents.set(agents)

    def test_whose_limit_holds(self) -> None:
        first, second = (Group.objects.create(name=name) for name in ("a", "b"))
        both = frozenset({self.mine.pk, self.other.pk})
        assert self.known() is None
        self.person.groups.add(first, second)
        self.limit(self.mine, group=first)
        assert self.known() == frozenset({self.mine.pk})
        self.limit(self.other, group=second)
        assert self.known() == both
        self.limit(user=self.person)
        assert self.known() == frozenset()
        AgentLimit.objects.get(user=self.person).agents.add(self.other)
        assert self.known() == frozenset({self.other.pk})
        User.objects.filter(pk=self.person.pk).update(is_superuser=True)
        assert self.known() is None

    def known(self) -> frozenset[int] | None:
        return limit_of(User.objects.get(pk=self.person.pk))

    def test_rows_of_every_owned_model_are_left_out(self) -> None:
        world = make_site()
        add_private_rows(world)
        agent = world.rows[Agent]
        self.limit(agent, user=self.person)
        request = RequestFactory().get("/")
        seen = 0
        for model, row in world.rows.items():
            if model._meta.label_lower not in OWNED:
                continue
            rows = model._default_manager.filter(pk=row.pk)
            request.user = User.objects.get(pk=self.person.pk)
            assert visible(request, rows).exists() or model.__name__ in _OF_THE_PUBLIC_ONE
            request.user = make_user()
            self.limit(self.other, user=request.user)
            assert not visible(request, rows).exists(), model
            assert list(agents_for(request)) == [self.other]
            seen += 1
        assert seen >= 13

    def test_actions_and_forms_touch_no_others_rows(self) -> None:
        world = make_site()
        user = grant(make_user(is_staff=True), only=None, actions=())
        self.limit(self.mine, user=user)
        client = client_of(user)
        chunk = world.rows[Chunk]
        for action, row in (("disable", chunk), ("dismiss_groups", world.rows[QuestionGroup])):
            run_action(client, action, row)
            before = {name: getattr(row, name) for name in ("enabled", "status") if hasattr(row, name)}
            row.refresh_from_db()
            assert {name: getattr(row, name) for name in before} == before
        answer = {"agent": self.other.pk, "question": "Qui ?", "answer": "Nous.", "status": "valid"}
        client.post(admin_url(LearnedResponse, "add"), {**answer, "kind": "faq", "phrasings": ""})
        assert not LearnedResponse.objects.filter(question="Qui ?").exists()
        form = client.get(admin_url(Document, "add")).context["form"]
        assert list(form.fields["agent"].queryset) == [self.mine]

    def test_deployment_keeps_the_others_agents_and_is_saved_without_them(self) -> None:
        other = make_agent(name="Autre service")
        deployment = make_deployment(self.mine)
        Specialist.objects.create(deployment=deployment, agent=other)
        person = in_role("agents")
        self.limit(self.mine, user=person)
        client, address = client_of(person), admin_url(Deployment, "change", deployment.pk)
        page = client.get(address)
        assert other.name not in page.content.decode()
        answer = client.post(address, {**form_of(page), "welcome": "Bonsoir"})
        assert answer.status_code == 302
        assert fresh(deployment).welcome == "Bonsoir"
        assert deployment.specialists.get().agent == other

    def test_filters_offer_their_own(self) -> None:
        second = make_agent()
        for agent in (self.mine, second, self.other):
            make_deployment(agent)
        client, address = client_of(self.person), admin_url(Deployment, "changelist")
        assert self.other.name in client.get(address).content.decode()
        self.limit(self.mine, second, user=self.person)
        for agent, count in ((self.mine, 1), (self.other, 0)):
            page = client.get(address, {"agent__id__exact": agent.pk})
            assert page.context["cl"].result_count == count
            assert second.name in page.content.decode()
            assert self.other.name not in page.content.decode()

    def test_front_page_counts_their_rows_only(self) -> None:
        make_learned(self.mine, question="À moi ?", status="to_review")
        make_learned(self.other, question="Aux autres ?", status="to_review")
        self.limit(self.mine, user=self.person)
        work = client_of(self.person).get("/admin/").context["work"]
        [review] = [line for line in work if "relire" in str(line.title)]
        assert review.count == "1"


class LinksTest(TestCase):
    """Pages reached by following every link: none is an error, and none tells whoever is limited of anything but their
    own.
    """

    def setUp(self) -> None:
        self.deployment = make_library()
        make_exchange(make_conversation(self.deployment), "Quand ?", "Demain.")
        GoldenSet.objects.create(name="À nous", deployment=self.deployment)
        world = make_site()
        add_private_rows(world)
        Agent.objects.exclude(pk=self.deployment.agent_id).update(name="Autre service")
        Deployment.objects.exclude(pk=self.deployment.pk).update(name="Autre bureau")
        # Whom agents share may be named.
        Category.objects.update(name="Partagée")
        Group.objects.filter(name__contains=MARK).update(name="Partagé")

    def pages(self, person: User) -> dict[str, str]:
        """By address; of addresses that differ in values only, one."""
        client, found, shapes = client_of(person), dict[str, str](), {""}
        waiting = [("/admin/", "")]
        while waiting:
            address, above = waiting.pop()
            shape = re.sub(r"\d+|[0-9a-f-]{36}|=[^&]*", "", address)
            if shape in shapes or "logout" in address:
                continue
            shapes.add(shape)
            page = client.get(address, follow=True)
            assert page.status_code in (200, 403), (address, above)
            found[address] = "" if page.streaming else page.content.decode()
            links = re.findall(r'href="(/admin/[^"#]*)"', found[address])
            waiting += [(unescape(link), address) for link in links]
        return found

    def test_whoever_is_limited_is_led_to_their_own(self) -> None:
        person = in_role("agents")
        AgentLimit.objects.create(user=person).agents.add(self.deployment.agent)
        pages = self.pages(person)
        assert len(pages) > 60
        for address, page in pages.items():
            if "/tools_registry/" in address:
                continue  # Tools are everybody's.
            for words in ("Autre service", "Autre bureau", MARK):
                assert words not in page, (address, words)


#: Rows of the world that belong to its public agent.
_OF_THE_PUBLIC_ONE = {"Turn", "Conversation", "Feedback", "HelpRequest"}


class PickerTest(TestCase):
    def test_right_held_on_an_internal_table_is_kept(self) -> None:
        group = Group.objects.create(name="kept")
        right = Permission.objects.get(codename="view_vectorpoint")
        group.permissions.add(right)
        client = superuser_client()
        page = client.get(admin_url(Group, "change", group.pk))
        assert right in page.context["adminform"].form.fields["permissions"].queryset
