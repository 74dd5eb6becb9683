"""The journal as a table: every kind of change, by every way and door, with before and after, and restored."""

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

from auditlog.models import LogEntry
from django.apps import apps
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.core.management import call_command
from django.db import connection
from django.http import HttpResponse
from django.test import RequestFactory, TestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.admin_base import admin_url
from agents.history import LOGGED, MASK, acting, log_event, remember_who_asks, restorable, restore
from agents.jobs import cancel
from agents.models import Agent, AgentLimit, Job, RuntimeSettings, Specialist
from agents.retention import RULES
from chat.models import Conversation
from faqs.models import CachedResponse, LearnedResponse, QuestionGroup
from knowledge.models import Chunk, Document, IndexBuild
from tests.admin_pages import client_of, make_staff, run_action, superuser_client
from tests.doors.world import MARK, add_private_rows, make_owned, make_site
from tests.factories import (
    TEST_THRESHOLDS,
    fresh,
    make_agent,
    make_conversation,
    make_deployment,
    make_entry,
    make_learned,
    make_library,
    make_user,
    set_settings,
)
from tools_registry.models import ToolSource


def _through(user: User | None) -> Callable[[Callable[[], None]], None]:
    def run(call: Callable[[], None]) -> None:
        request = RequestFactory().post("/admin/x/")
        request.user = user or AnonymousUser()

        def view(_request: Any) -> HttpResponse:
            call()
            return HttpResponse()

        remember_who_asks(view)(request)

    return run


def _as_import(user: User) -> Callable[[Callable[[], None]], None]:
    def run(call: Callable[[], None]) -> None:
        with acting(user):
            call()

    return run


def doors(user: User) -> dict[str, Callable[[Callable[[], None]], None]]:
    """Who acts in a request, in a worker for somebody, as a visitor and in a process of nobody's."""
    return {
        "request": _through(user),
        "import": _as_import(user),
        "visitor": _through(None),
        "worker": lambda call: call(),
    }


def _save(row: Any, name: str, value: Any) -> None:
    setattr(row, name, value)
    row.save()


def _update(row: Any, name: str, value: Any) -> None:
    type(row).objects.filter(pk=row.pk).update(**{name: value})


def _bulk_update(row: Any, name: str, value: Any) -> None:
    setattr(row, name, value)
    type(row).objects.bulk_update([row], [name])


WAYS = {"save": _save, "update": _update, "bulk_update": _bulk_update}

#: By model, a column that is changed and what to; the others are found below.
CHANGES: dict[str, tuple[str, Any]] = {
    "agents.runtimesettings": ("values", {"match_count": 7}),
    "agents.agent": ("settings", {**TEST_THRESHOLDS, "system_prompt": "Répondez en vers."}),
    "agents.deployment": ("welcome", "Bonsoir"),
    "agents.specialist": ("position", 4),
    "agents.providergroup": ("name", "autre"),
    "auth.user": ("is_active", False),
    "auth.group": ("name", "autre"),
    "knowledge.category": ("name", "Autre"),
    "knowledge.websource": ("refresh_hours", 5),
    "knowledge.document": ("title", "Autre titre"),
    "knowledge.chunk": ("enabled", False),
    "knowledge.synonym": ("state", "refused"),
    "agents.job": ("status", "cancelled"),
    "knowledge.thresholdcalibration": ("memory", 0.91),
    "knowledge.pairverdict": ("same_answer", None),
    "faqs.learnedresponse": ("answer", "Une autre réponse."),
    "faqs.cachedresponse": ("answer", "Une autre réponse apprise."),
    "faqs.questiongroup": ("status", "dismissed"),
    "chat.feedback": ("dismissed_at", None),
    "chat.helprequest": ("status", "closed"),
    "chat.goldenset": ("language", "en"),
    "chat.goldenquestion": ("note", "Autre note"),
    "chat.apikey": ("is_revoked", True),
    "tools_registry.tooloverride": ("description", "Autre description"),
    "tools_registry.toolsource": ("name", "Autre nom"),
}


class TableOfChangesTest(TestCase):
    """Each kind × each way × each door."""

    rows: ClassVar[dict[str, Any]]
    person: ClassVar[User]

    @classmethod
    def setUpTestData(cls) -> None:
        world = make_site()
        add_private_rows(world)
        RuntimeSettings().save()
        cls.rows = {m._meta.label_lower: row for m, row in world.rows.items()}
        cls.rows["agents.specialist"] = Specialist.objects.create(deployment=world.deployment, agent=make_agent())
        cls.rows["agents.agentlimit"] = AgentLimit.objects.create(user=make_user())
        cls.rows["agents.job"] = Job.objects.get(pk=cls.rows["knowledge.indexbuild"].pk)
        ToolSource.objects.update(allowed_hosts=["x.example"])
        cls.person = make_user(is_staff=True, is_superuser=True)

    def test_every_logged_model_has_a_row(self) -> None:
        assert set(LOGGED) == set(CHANGES) | {"agents.agentlimit"}
        assert set(LOGGED) <= set(self.rows)

    def test_each_kind_by_each_way_and_door_is_seen_and_restored(self) -> None:
        seen = 0
        for label, (name, wanted) in CHANGES.items():
            rule = LOGGED[label]
            for way, change in WAYS.items():
                if way != "save" and label.startswith("auth."):
                    continue
                for door, through in doors(self.person).items():
                    with self.subTest(f"{label} {way} {door}"):
                        seen += self.see(
                            label, name, wanted, lambda *a, c=change, t=through: t(lambda: c(*a)), door, rule
                        )
        assert seen > 230

    def see(self, label: str, name: str, wanted: Any, change: Any, door: str, rule: Any) -> int:
        model = apps.get_model(label)
        sid = connection.savepoint()
        try:
            row = model._default_manager.get(pk=self.rows[label].pk)
            before = getattr(row, name)
            value: Any = timezone.now() if name == "dismissed_at" else (not before if wanted is None else wanted)
            LogEntry.objects.all().delete()
            change(row, name, value)
            lines = LogEntry.objects.filter(content_type__model=model._meta.model_name)
            is_person = door in ("request", "import")
            if rule.by_people and not is_person:
                assert not lines.exists()
                return 1
            [line] = lines
            assert line.actor == (self.person if is_person else None)
            assert (line.additional_data["who"] != "") == is_person
            # Each setting is a change of its own.
            (key, first, then) = (name, before, value)
            if name in ("settings", "values"):
                key, first, then = next((key, None, then) for key, then in value.items() if key not in before)
            old, new = line.changes[key]
            assert old == first or str(old) == str(first)
            assert str(new)[:10] == str(then)[:10]
            if not rule.restore:
                assert restorable(line) == {}
                return 1
            restore(line, by=self.person)
            assert getattr(model._default_manager.get(pk=row.pk), name) == before
            [_line, back] = lines.order_by("pk")
            assert back.actor == self.person
            assert back.changes[key] == [new, old]
            return 1
        finally:
            connection.savepoint_rollback(sid or "")

    def test_rows_that_come_and_go_are_seen(self) -> None:
        agent = Agent.objects.create(slug="a", name="A")
        key = str(agent.pk)
        agent.delete()
        lines = LogEntry.objects.filter(content_type__model="agent", object_pk=key)
        assert [line.action for line in lines.order_by("pk")] == [0, 2]

    def test_memberships_are_seen(self) -> None:
        group = Group.objects.create(name="g")
        group.permissions.add(Permission.objects.all()[0])
        line = LogEntry.objects.filter(content_type__model="group").latest("pk")
        assert line.changes["permissions"]["operation"] == "add"


class PrivacyTest(TestCase):
    def test_secrets_are_masked(self) -> None:
        source = ToolSource.objects.create(
            slug="s", name="S", kind="mcp", url="https://x.example", headers={"Authorization": "tres-secret"}
        )
        source.headers = {"Authorization": "autre-secret"}
        source.save()
        ToolSource.objects.update(headers={"Authorization": "encore-secret"})
        user = make_user()
        user.set_password("mot-de-passe-4711")
        user.save()
        text = str(list(LogEntry.objects.values_list("changes", "object_repr")))
        assert "secret" not in text
        assert "4711" not in text
        assert "pbkdf2" not in text
        assert MASK in text

    def test_address_of_a_person_is_not_in_it_and_no_deleted_one_as_user_name(self) -> None:
        person = make_user(username="odile@example.org", email="odile@example.org", last_name="Martin")
        with acting(person):
            make_agent()
        person.email = "martin@example.org"
        person.save()
        number = f"№ {person.pk}"
        person.delete()
        text = str(list(LogEntry.objects.values()))
        assert "@" not in text
        assert "Martin" not in text
        assert text.count(number) >= 3

    def test_words_of_visitors_are_not_in_it(self) -> None:
        world = make_site()
        make_owned(world, "page", visitor=None)
        entry = make_entry(world.deployment, f"{MARK} visiteur ?", "Réponse.")
        LogEntry.objects.all().delete()
        with acting(make_user()):
            CachedResponse.objects.filter(pk=entry.pk).update(status="obsolete")
            QuestionGroup.objects.update(status="dismissed")
            entry.delete()
        assert LogEntry.objects.count() >= 2
        text = str(list(LogEntry.objects.values_list("changes", "object_repr")))
        assert MARK not in text

    def test_counters_cost_and_leave_nothing(self) -> None:
        entry = make_entry(make_library(), "Quand ?", "Demain.")
        LogEntry.objects.all().delete()
        with CaptureQueriesContext(connection) as captured:
            CachedResponse.objects.filter(pk=entry.pk).update(usage_count=3)
            LearnedResponse.objects.update(times_served=1)
        assert len(captured) == 2
        assert not LogEntry.objects.exists()

    def test_queries_do_not_grow_with_the_rows_of_one_change(self) -> None:
        make_library()
        with acting(make_user()):
            Chunk.objects.update(enabled=False)
            first = Chunk.objects.all()[0]
            with CaptureQueriesContext(connection) as one:
                Chunk.objects.filter(pk=first.pk).update(parent_context="Ici")
            with CaptureQueriesContext(connection) as many:
                Chunk.objects.update(parent_context="Ailleurs")
        assert LogEntry.objects.filter(changes__has_key="parent_context").count() > 2
        assert len(many) == len(one)

    def test_old_lines_go_at_night(self) -> None:
        make_agent()
        LogEntry.objects.update(timestamp=timezone.now() - timedelta(days=900))
        [rule] = [each for each in RULES if each.name == "changes"]
        with self.settings(AUDIT_LOG_DAYS=0):
            assert sum(rule.deleted()) == 0
        assert sum(rule.deleted()) > 0


class RealDoorsTest(TestCase):
    """What used to leave nothing."""

    def setUp(self) -> None:
        self.user = make_user(is_staff=True, is_superuser=True)
        self.client = client_of(self.user)

    def last(self, model: str) -> LogEntry:
        return LogEntry.objects.filter(content_type__model=model).latest("pk")

    def test_actions_of_lists(self) -> None:
        deployment = make_library()
        chunk = Chunk.objects.all()[0]
        learned = make_learned(deployment.agent, question="Qui ?", answer="Nous.")
        entry = make_entry(deployment, "Où ?", "Ici.", status="to_review")
        for model, action, row, expected in (
            (Chunk, "disable", chunk, {"enabled": [True, False]}),
            (LearnedResponse, "mark_obsolete", learned, {"status": ["valid", "obsolete"]}),
            (CachedResponse, "validate_entries", entry, {"status": ["to_review", "valid"]}),
        ):
            run_action(self.client, action, row)
            line = self.last(model._meta.model_name or "")
            assert expected.items() <= line.changes.items(), model
            assert line.actor == self.user

    def test_upload_and_commands(self) -> None:
        agent = make_agent()
        file = io.BytesIO(b"# Titre\n\nUn texte.")
        file.name = "a.md"
        self.client.post(admin_url(Document, "add"), {"agent": agent.pk, "uploads": file})
        line = LogEntry.objects.filter(content_type__model="document", action=0).latest("pk")
        assert line.actor == self.user
        call_command("create_agent", "desk", name="Desk", stdout=io.StringIO())
        line = self.last("deployment")
        assert line.additional_data == {"who": ""}

    def test_values_of_choices_are_shown_by_their_names(self) -> None:
        learned = make_learned()
        LearnedResponse.objects.filter(pk=learned.pk).update(status="to_review")
        line = LogEntry.objects.filter(action=LogEntry.Action.UPDATE).latest("pk")
        client = superuser_client()
        for address in (admin_url(LogEntry, "change", line.pk), admin_url(LogEntry, "changelist")):
            page = client.get(address).content.decode()
            assert "À revoir" in page
            assert "to_review" not in page

    def test_line_of_a_column_that_has_gone_is_still_read(self) -> None:
        agent = make_agent()
        log_event(agent, "tone_of_voice", [0.5], ["direct", "bref"])
        line = LogEntry.objects.get(changes__has_key="tone_of_voice")
        page = superuser_client().get(admin_url(LogEntry, "change", line.pk))
        assert "tone_of_voice" in page.content.decode()
        self.assertContains(page, "0,5")
        self.assertContains(page, "direct, bref")
        self.assertContains(superuser_client().get(admin_url(LogEntry, "changelist")), "tone_of_voice")

    def test_who_may_not_look_at_agents_sees_no_line_of_one(self) -> None:
        make_agent(system_prompt="Avant.")
        blind = client_of(make_staff("auditlog.view_logentry"))
        assert not blind.get(admin_url(LogEntry, "changelist")).context["cl"].result_count

    def test_nobody_deletes_their_own_account(self) -> None:
        address = admin_url("auth.user", "delete", self.user.pk)
        assert self.client.post(address, {"post": "yes"}).status_code == 403

    def test_rows_without_a_page_go_with_that_on_which_they_stand(self) -> None:
        Specialist.objects.create(deployment=make_deployment(name="mots de quelqu’un"), agent=make_agent())
        LogEntry.objects.exclude(content_type__model="specialist").delete()
        address = admin_url(LogEntry, "changelist")
        reader = client_of(make_staff("auditlog.view_logentry")).get(address).content.decode()
        assert "mots de quelqu’un" not in reader
        assert "mots de quelqu’un" in self.client.get(address).content.decode()


class RestoringTest(TestCase):
    """« Rétablir » on the page of a change."""

    def setUp(self) -> None:
        self.user = make_user(is_staff=True, is_superuser=True)
        self.agent = make_agent(system_prompt="Avant.")
        set_settings(system_prompt="Après.")
        self.line = LogEntry.objects.latest("pk")
        self.address = admin_url(LogEntry, "restore", self.line.pk)
        self.client = client_of(self.user)

    def refused(self, line: LogEntry) -> str:
        page = self.client.post(admin_url(LogEntry, "restore", line.pk), follow=True)
        [message] = page.context["messages"]
        assert message.level_tag == "error"
        return str(message)

    def prompt(self) -> str:
        return str(fresh(self.agent).settings["system_prompt"])

    def test_button_restores_one_setting(self) -> None:
        set_settings(match_count=7)
        self.assertContains(self.client.get(admin_url(LogEntry, "change", self.line.pk)), self.address)
        self.client.post(self.address)
        assert self.prompt() == "Avant."
        assert self.agent.settings["match_count"] == 7
        back = LogEntry.objects.get_for_object(self.agent).latest("pk")
        assert back.changes == {"system_prompt": ["Après.", "Avant."]}

    def test_each_setting_of_a_deployment_is_told_by_name_and_inherited_again(self) -> None:
        deployment = make_deployment(self.agent)
        deployment.config_overlay = {"guard_rail_threshold": 0.9, "indexing_method": "legacy"}
        deployment.save()
        history = self.client.get(admin_url(type(deployment), "history", deployment.pk), follow=True)
        self.assertContains(history, "Seuil du garde-fou : 0,9")
        self.assertContains(history, "Classique")
        restore(LogEntry.objects.latest("pk"), by=self.user)
        assert fresh(deployment).config_overlay == {}

    def test_any_setting_is_restored_whatever_other_tables_call_their_rows(self) -> None:
        for row, column in ((make_agent(), "settings"), (make_deployment(self.agent), "config_overlay")):
            before = dict(getattr(row, column))
            setattr(row, column, {**before, "memory": False, "match_count": 7})
            row.save()
            self.client.post(admin_url(LogEntry, "restore", LogEntry.objects.latest("pk").pk))
            assert getattr(fresh(row), column) == before

    def test_history_of_a_row_is_in_the_journal_where_that_has_it_and_its_reader_may_open_it(self) -> None:
        world = make_site()
        build, thread = world.rows[IndexBuild], make_conversation(world.deployment)
        IndexBuild.objects.update(status="queued")
        with acting(self.user):
            assert cancel(build)
        opened = self.client.get(admin_url(IndexBuild, "history", build.pk), follow=True)
        assert [line.object_pk for line in opened.context["cl"].queryset] == [str(build.pk)]
        assert self.client.get(admin_url(Conversation, "history", thread.pk)).status_code == 200
        limited = make_staff("auditlog.view_logentry", "agents.view_agent")
        AgentLimit.objects.create(user=limited).agents.add(self.agent)
        assert client_of(limited).get(admin_url(Agent, "history", self.agent.pk)).status_code == 200

    def test_by_post_and_by_who_may_change_alone(self) -> None:
        assert self.client.get(self.address).status_code == 405
        rights = ("auditlog.view_logentry", "agents.view_agent")
        reader, blind = client_of(make_staff(*rights)), client_of(make_staff(*rights[:1]))
        self.assertNotContains(reader.get(admin_url(LogEntry, "change", self.line.pk)), self.address)
        limited = make_staff(*rights, "agents.change_agent")
        AgentLimit.objects.create(user=limited).agents.add(make_agent())
        assert [each.post(self.address).status_code for each in (reader, blind, client_of(limited))] == [403, 404, 403]
        assert self.prompt() == "Après."

    def test_later_change_is_restored_first(self) -> None:
        set_settings(system_prompt="Encore.")
        later = LogEntry.objects.latest("pk")
        assert "plus récent" in self.refused(self.line)
        assert self.prompt() == "Encore."
        for line in (later, self.line):
            restore(line, by=self.user)
        assert self.prompt() == "Avant."

    def test_what_is_deleted_or_fixed_is_not_restored(self) -> None:
        Agent.objects.filter(pk=self.agent.pk).update(slug="b")
        assert "ne se rétablit pas" in self.refused(LogEntry.objects.latest("pk"))
        assert fresh(self.agent).slug == "b"
        self.agent.delete()
        assert "ne se rétablit pas" in self.refused(self.line)

    def test_value_that_is_no_longer_allowed_is_told(self) -> None:
        first = make_deployment(self.agent, slug="a")
        first.slug = "b"
        first.save()
        line = LogEntry.objects.filter(changes__has_key="slug").latest("pk")
        make_deployment(self.agent, slug="a")
        assert self.refused(line)
        assert fresh(first).slug == "b"
