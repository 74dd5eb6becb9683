"""Questions of reference: filled, asked, compared, and standing in the way of what would make one of them fail."""

import io
import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from agents.models import Agent, AgentLimit, Deployment, IndexingMethod, Specialist
from chat.archive.retention import surplus_runs
from chat.models import (
    Feedback,
    GoldenQuestion,
    GoldenResult,
    GoldenRun,
    GoldenSet,
    Message,
    QuestionOrigin,
    RunKind,
    RunStatus,
    Turn,
    Verdict,
)
from chat.staff.golden.expectations import read_file, unmet
from chat.staff.golden.gate import worse_results
from chat.staff.golden.runs import carry_out, enqueue_nightly, enqueue_run, enqueue_what_if
from chat.staff.golden.sets import add_questions, row_of_turn
from knowledge.exceptions import KnowledgeError
from knowledge.indexing.jobs.decisions import approve_build, discard_build, retry_build
from knowledge.indexing.jobs.queue import enqueue_rebuild
from knowledge.indexing.jobs.run import run_build
from knowledge.models import BuildKind, BuildStatus, Chunk, IndexBuild
from knowledge.vectors.base import collection_alias, vector_store
from tests.admin_pages import client_of, make_staff, shown_messages, superuser_client
from tests.doors.admin import in_role
from tests.factories import add_document, make_agent, make_conversation, make_deployment, make_exchange, make_learned

POOL = """# Ville de Morvane

## Quel est le tarif de la piscine municipale ?

L'entrée de la piscine municipale coûte 4 euros, et 2 euros avant 12 ans.

## Quand la déchetterie est-elle ouverte ?

La déchetterie ouvre du lundi au samedi, de 9 heures à 17 heures.
"""
TARIFF = "Quel est le tarif de la piscine municipale ?"
DUMP = "Quand la déchetterie est-elle ouverte ?"
ROWS: list[dict[str, Any]] = [
    {"question": TARIFF, "answer_source": "direct_qa", "contains": "4 euros"},
    {"question": DUMP, "contains": ["9 heures", "17 heures"]},
]


class _Morvane:
    def setUp(self) -> None:
        self.agent = make_agent(slug="morvane")
        self.deployment = make_deployment(self.agent)
        self.document = add_document(self.agent, name="morvane.md", text=POOL)
        self.set = GoldenSet.objects.create(name="Morvane", deployment=self.deployment, is_gate=True)
        add_questions(self.set, ROWS, QuestionOrigin.FILE)


class GoldenCase(_Morvane, TestCase):
    def asked(self, run: GoldenRun) -> GoldenRun:
        carry_out(run.pk)
        run.refresh_from_db()
        assert run.status == RunStatus.DONE, run.error
        return run

    def reread(self, old: str, new: str) -> None:
        """As another reader of the same file would have it: the rows say so, the index not yet."""
        for chunk in Chunk.objects.filter(document=self.document):
            units = json.loads(json.dumps(chunk.knowledge_units).replace(old, new))
            Chunk.objects.filter(pk=chunk.pk).update(content=chunk.content.replace(old, new), knowledge_units=units)

    def staged(self) -> IndexBuild:
        build = enqueue_rebuild(agent=self.agent, method=IndexingMethod.QA_ATOMIC, needs_approval=True)
        run_build(build.pk)
        build.refresh_from_db()
        assert build.status == BuildStatus.STAGED
        return build


class BuildGateTests(GoldenCase):
    def test_a_worse_index_is_stopped_and_a_better_one_passes(self) -> None:
        self.reread("4 euros", "[illisible]")
        build = self.staged()
        run = GoldenRun.objects.get(build=build)
        with pytest.raises(KnowledgeError, match="gate"):
            approve_build(build)  # still looking
        self.asked(run)
        assert [each.question for each in worse_results(run)] == [TARIFF]
        with pytest.raises(KnowledgeError) as stopped:
            approve_build(build)
        assert TARIFF in str(stopped.value.public_message)
        assert f"/goldenrun/{run.pk}/" in str(stopped.value.public_message)
        IndexBuild.objects.filter(pk=build.pk).update(status=BuildStatus.CANCELLED)

        self.reread("[illisible]", "4 euros")
        better = self.staged()
        self.asked(GoldenRun.objects.get(build=better))
        approve_build(better)
        better.refresh_from_db()
        assert better.status == BuildStatus.QUEUED
        assert not better.needs_approval

    def test_who_has_the_right_lets_it_pass_with_a_reason(self) -> None:
        self.reread("4 euros", "[illisible]")
        build = self.staged()
        run = self.asked(GoldenRun.objects.get(build=build))
        address = f"/admin/chat/goldenrun/{run.pk}/override/"
        reader = client_of(make_staff("chat.view_turn"))
        assert reader.post(address, {"reason": "Le tarif change."}).status_code == 403
        chief = client_of(make_staff("chat.view_turn", "chat.override_gate"))
        chief.post(address, {"reason": "  "})
        with pytest.raises(KnowledgeError):
            approve_build(build)
        chief.post(address, {"reason": "Le tarif change."})
        approve_build(build)
        run.refresh_from_db()
        assert run.override_reason == "Le tarif change."
        assert run.overridden_by is not None

    def test_a_set_that_has_changed_is_asked_again(self) -> None:
        build = self.staged()
        first = self.asked(GoldenRun.objects.get(build=build))
        add_questions(self.set, [{"question": "Où est la mairie ?"}], QuestionOrigin.HAND)
        with pytest.raises(KnowledgeError):
            approve_build(build)
        assert GoldenRun.objects.filter(build=build).exclude(pk=first.pk).count() == 1

    def test_a_rebuild_that_nobody_staged_waits_before_a_gate(self) -> None:
        alias = collection_alias("morvane", IndexingMethod.QA_ATOMIC)
        before = vector_store().resolve_alias(alias)
        self.reread("4 euros", "[illisible]")
        build = enqueue_rebuild(agent=self.agent, method=IndexingMethod.QA_ATOMIC)
        run_build(build.pk)
        build.refresh_from_db()
        assert build.status == BuildStatus.STAGED
        assert vector_store().resolve_alias(alias) == before
        self.asked(GoldenRun.objects.get(build=build))
        with pytest.raises(KnowledgeError, match="gate"):
            approve_build(build)

    def test_the_command_stages_before_a_gate_and_says_so(self) -> None:
        out = io.StringIO()
        call_command("rebuild_agent_index", "morvane", stdout=out)
        assert "--approve" in out.getvalue()
        build = IndexBuild.objects.get(status=BuildStatus.STAGED)
        self.asked(GoldenRun.objects.get(build=build))
        call_command("rebuild_agent_index", "morvane", "--approve", stdout=out)
        build.refresh_from_db()
        assert build.status == BuildStatus.DONE

    def test_the_command_says_what_stops_it_without_markup(self) -> None:
        self.reread("4 euros", "[illisible]")
        self.asked(GoldenRun.objects.get(build=self.staged()))
        with pytest.raises(CommandError) as stopped:
            call_command("rebuild_agent_index", "morvane", "--approve")
        assert TARIFF in str(stopped.value)
        assert "<a" not in str(stopped.value)

    def test_a_first_index_and_one_without_a_gate_go_live_at_once(self) -> None:
        GoldenSet.objects.update(is_gate=False)
        run_build(enqueue_rebuild(agent=self.agent, method=IndexingMethod.QA_ATOMIC).pk)
        GoldenSet.objects.update(is_gate=True)
        vector_store().remove_alias(collection_alias("morvane", IndexingMethod.QA_ATOMIC))
        run_build(enqueue_rebuild(agent=self.agent, method=IndexingMethod.QA_ATOMIC).pk)
        done = IndexBuild.objects.filter(kind=BuildKind.REBUILD, status=BuildStatus.DONE)
        assert done.count() == 2

    def test_no_gate_stops_a_rollback_and_the_journal_says_it(self) -> None:
        GoldenSet.objects.update(is_gate=False)
        run_build(enqueue_rebuild(agent=self.agent, method=IndexingMethod.QA_ATOMIC).pk)
        GoldenSet.objects.update(is_gate=True)
        client = superuser_client()
        client.post(f"/admin/knowledge/indexbuild/rollback/?agent={self.agent.pk}")
        line = LogEntry.objects.filter(changes__has_key="index_in_service").get()
        left, back = line.changes["index_in_service"]
        assert left > back
        page = client.get(f"/admin/auditlog/logentry/{line.pk}/change/").content.decode()
        assert back in page
        assert "Index en service" in page
        assert "Rétablir" not in page

    def test_an_index_that_is_filled_again_is_asked_again(self) -> None:
        build = self.staged()
        self.asked(GoldenRun.objects.get(build=build))
        discard_build(build)
        self.reread("4 euros", "[illisible]")
        build.refresh_from_db()
        retry_build(build)
        run_build(build.pk)
        build.refresh_from_db()
        assert build.status == BuildStatus.STAGED
        with pytest.raises(KnowledgeError):
            approve_build(build)  # still looking
        self.asked(GoldenRun.objects.filter(build=build)[0])
        with pytest.raises(KnowledgeError) as stopped:
            approve_build(build)
        assert TARIFF in str(stopped.value.public_message)

    def test_what_is_staged_while_it_is_approved_waits(self) -> None:
        build = self.staged()
        build.status = BuildStatus.RUNNING  # as it was when the page was opened
        with pytest.raises(KnowledgeError, match="not staged"):
            approve_build(build)
        assert IndexBuild.objects.get(pk=build.pk).status == BuildStatus.STAGED

    def test_a_run_that_failed_is_told_and_begun_again(self) -> None:
        build = self.staged()
        failed = GoldenRun.objects.get(build=build)
        GoldenRun.objects.update(status=RunStatus.FAILED, error="Base injoignable.")
        with pytest.raises(KnowledgeError) as stopped:
            approve_build(build)
        assert "Base injoignable." in str(stopped.value.public_message)
        self.asked(GoldenRun.objects.exclude(pk=failed.pk).get(build=build))
        approve_build(build)
        build.refresh_from_db()
        assert build.status == BuildStatus.QUEUED

    def test_questions_that_were_deleted_or_moved_stop_nothing(self) -> None:
        self.reread("4 euros", "[illisible]")
        build = self.staged()
        self.asked(GoldenRun.objects.get(build=build))
        row = GoldenQuestion.objects.get(question=TARIFF)
        form = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
        superuser_client().post("/admin/chat/goldenquestion/", form)
        with pytest.raises(KnowledgeError):
            approve_build(build)  # asked again, without it
        self.asked(GoldenRun.objects.filter(build=build)[0])
        approve_build(build)

    def test_whoever_looks_after_sets_deletes_one_that_was_asked(self) -> None:
        enqueue_run(self.set)
        address = f"/admin/chat/goldenset/{self.set.pk}/delete/"
        assert client_of(in_role("reviewer")).post(address, {"post": "yes"}).status_code == 302
        assert not GoldenSet.objects.exists()

    def test_a_set_that_is_asked_elsewhere_is_asked_again(self) -> None:
        before = self.set.changed_at
        other = make_deployment(self.agent, slug="other")
        address = f"/admin/chat/goldenset/{self.set.pk}/change/"
        form = {"name": "Morvane", "deployment": other.pk, "language": "fr", "is_gate": "on"}
        superuser_client().post(address, form)
        self.set.refresh_from_db()
        assert self.set.deployment == other
        assert self.set.changed_at > before

    def test_where_what_serves_cannot_be_asked_its_last_run_counts(self) -> None:
        self.asked(enqueue_run(self.set))
        run = GoldenRun.objects.create(kind=RunKind.BUILD, golden_set=self.set, deployment=self.deployment)
        lost = {"error": "embedding_mismatch", "unmet": ["error"]}
        failed = {"error": "", "unmet": ["contains: 4 euros"]}
        GoldenResult.objects.create(run=run, position=0, question=TARIFF, before=lost, after=failed)
        assert [each.question for each in worse_results(run)] == [TARIFF]


class SettingsGateTests(GoldenCase):
    def change(self, **settings: Any) -> Any:
        address = f"/admin/agents/deployment/{self.deployment.pk}/change/"
        client = superuser_client()
        form = client.get(address).context["adminform"].form
        data = {name: value for name in form.fields if (value := form[name].value()) not in (None, "")}
        data |= {"specialists-TOTAL_FORMS": 0, "specialists-INITIAL_FORMS": 0, **settings}
        return client.post(address, data)

    def test_a_setting_that_would_refuse_what_passes_is_not_saved(self) -> None:
        worse = {"overlay_direct_answers": "false", "overlay_guard_rail_threshold": "1"}
        assert self.change(**worse).status_code == 200
        run = self.asked(GoldenRun.objects.get(kind=RunKind.SETTINGS))
        assert run.changes == {"direct_answers": False, "guard_rail_threshold": 1.0}
        page = self.change(**worse)
        assert page.status_code == 200
        assert TARIFF in page.content.decode()
        self.deployment.refresh_from_db()
        assert "guard_rail_threshold" not in self.deployment.config_overlay

    def test_a_harmless_setting_is_saved_once_it_was_tried(self) -> None:
        assert self.change(overlay_match_count="7").status_code == 200
        self.asked(GoldenRun.objects.get(kind=RunKind.SETTINGS))
        assert self.change(overlay_match_count="7").status_code == 302
        self.deployment.refresh_from_db()
        assert self.deployment.config_overlay["match_count"] == 7

    def test_the_journal_takes_back_no_setting_that_it_stops(self) -> None:
        Deployment.objects.update(config_overlay={"direct_answers": False, "guard_rail_threshold": 1.0})
        Deployment.objects.update(config_overlay={})
        line = LogEntry.objects.filter(content_type__model="deployment").latest("pk")
        client, address = superuser_client(), f"/admin/auditlog/logentry/{line.pk}/restore/"
        client.post(address)
        run = self.asked(GoldenRun.objects.get(kind=RunKind.SETTINGS))
        assert run.changes == {"direct_answers": False, "guard_rail_threshold": 1.0}
        assert TARIFF in shown_messages(client.post(address, follow=True))
        self.deployment.refresh_from_db()
        assert self.deployment.config_overlay == {}

    def test_a_change_of_another_agent_is_not_theirs_to_apply(self) -> None:
        other = make_agent()
        Specialist.objects.create(deployment=self.deployment, agent=other)
        run = GoldenRun.objects.create(
            kind=RunKind.SETTINGS,
            deployment=self.deployment,
            level="agent",
            target_id=other.pk,
            changes={"match_count": 3},
            status=RunStatus.DONE,
        )
        person = make_staff("chat.view_turn", "agents.change_agent")
        AgentLimit.objects.create(user=person).agents.add(self.agent)
        client, address = client_of(person), f"/admin/chat/goldenrun/{run.pk}/"
        assert not client.get(f"{address}change/").context["may_apply"]
        assert client.post(f"{address}apply/").status_code == 403
        assert not Agent.objects.filter(match_count=3).exists()

    def test_what_a_nearer_level_says_itself_is_not_asked(self) -> None:
        from chat.staff.golden.gate import look_at_settings

        Deployment.objects.filter(pk=self.deployment.pk).update(config_overlay={"match_count": 3})
        assert look_at_settings(self.agent, {"match_count": 9}) == ""
        assert not GoldenRun.objects.exists()


class RunTests(GoldenCase):
    def test_a_run_says_what_passes_and_stores_no_conversation(self) -> None:
        add_questions(self.set, [{"question": TARIFF + " ?", "contains": "9 euros"}], QuestionOrigin.HAND)
        run = self.asked(enqueue_run(self.set))
        assert [each.has_passed for each in run.results.all()] == [True, True, False]
        assert not Turn.objects.exists()
        assert not Message.objects.exists()

    def test_a_killed_run_goes_on_where_it_was(self) -> None:
        run = enqueue_run(self.set)
        first = run.results.first()
        assert first is not None
        kept = {"unmet": [], "answer": "kept", "error": ""}
        GoldenResult.objects.filter(pk=first.pk).update(after=kept)
        gone = timezone.now() - timedelta(seconds=1)
        GoldenRun.objects.filter(pk=run.pk).update(
            status=RunStatus.RUNNING, lease_owner="dead", lease_expires_at=gone, attempts=1
        )
        self.asked(run)
        assert (run.results.get(position=0).after or {})["answer"] == "kept"
        assert run.results.get(position=1).has_passed
        carry_out(run.pk)  # a doubled message
        run.refresh_from_db()
        assert run.attempts == 2

    def test_a_run_whose_lease_another_holds_is_left_alone(self) -> None:
        run = enqueue_run(self.set)
        later = timezone.now() + timedelta(minutes=5)
        GoldenRun.objects.filter(pk=run.pk).update(
            status=RunStatus.RUNNING, lease_owner="other", lease_expires_at=later
        )
        carry_out(run.pk)
        assert not run.results.filter(after__isnull=False).exists()

    @override_settings(RETAIN_HOUR=3)
    def test_a_nightly_set_is_asked_once_a_night(self) -> None:
        GoldenSet.objects.update(is_nightly=True)
        assert (enqueue_nightly(), enqueue_nightly()) == (1, 0)

    @override_settings(GOLDEN_RUNS_KEPT=2)
    def test_only_the_last_runs_are_kept(self) -> None:
        runs = [self.asked(enqueue_run(self.set)) for _number in range(3)]
        assert list(surplus_runs()) == [runs[0]]

    def test_two_runs_are_shown_side_by_side(self) -> None:
        self.asked(enqueue_run(self.set))
        GoldenQuestion.objects.filter(question=TARIFF).update(expected={"contains": "5 euros"})
        second = self.asked(enqueue_run(self.set))
        page = superuser_client().get(f"/admin/chat/goldenrun/{second.pk}/change/")
        assert page.context["counts"]["worse"] == 1


class WhatIfTests(GoldenCase):
    def setUp(self) -> None:
        super().setUp()
        GoldenSet.objects.update(is_gate=False)
        self.conversation = make_conversation(self.deployment)
        for text in (TARIFF, DUMP, TARIFF):
            make_exchange(self.conversation, text, "Réponse.")

    def run_of(self, **changes: Any) -> GoldenRun:
        return self.asked(enqueue_what_if(self.deployment, changes, level="deployment", count=50, by=None))

    def test_different_real_questions_are_asked_both_ways(self) -> None:
        run = self.run_of(direct_answers=False)
        results = list(run.results.all())
        assert {each.question for each in results} == {TARIFF, DUMP}
        assert all("answer_source" in each.changes for each in results)
        self.deployment.refresh_from_db()
        assert self.deployment.config_overlay == {}

    def test_applying_writes_the_change_unless_a_gate_stops_it(self) -> None:
        GoldenSet.objects.update(is_gate=True)
        run = self.run_of(direct_answers=False, guard_rail_threshold=1.0)
        address, client = f"/admin/chat/goldenrun/{run.pk}/apply/", superuser_client()
        client.post(address)
        self.asked(GoldenRun.objects.get(kind=RunKind.SETTINGS))
        response = client.post(address, follow=True)
        assert TARIFF in shown_messages(response)
        GoldenSet.objects.update(is_gate=False)
        client.post(address)
        self.deployment.refresh_from_db()
        assert self.deployment.config_overlay == run.changes

    def test_only_who_may_read_conversations_sees_the_questions(self) -> None:
        run = self.run_of(match_count=3)
        address = f"/admin/chat/goldenrun/{run.pk}/change/"
        outsider = client_of(make_staff("chat.view_goldenrun", "chat.add_goldenrun"))
        assert outsider.get(address).url == "/admin/"  # type: ignore[attr-defined]  # a row that is not there
        assert outsider.get("/admin/chat/goldenrun/what-if/").status_code == 403
        assert TARIFF in client_of(make_staff("chat.view_turn")).get(address).content.decode()

    def test_questions_go_with_their_conversation(self) -> None:
        run = self.run_of(match_count=3)
        self.conversation.delete()
        assert not run.results.exists()

    def test_the_page_queues_a_run(self) -> None:
        client = superuser_client()
        data = {"deployment": self.deployment.pk, "level": "agent", "count": 10}
        address = "/admin/chat/goldenrun/what-if/"
        assert client.post(address, data).status_code == 200  # nothing is changed
        assert client.post(address, {**data, "setting_match_count": 3, "count": 501}).status_code == 200
        assert client.post(address, {**data, "setting_match_count": 3}).status_code == 302
        run = GoldenRun.objects.get()
        assert (run.level, run.target_id, run.changes) == ("agent", self.agent.pk, {"match_count": 3})


class RightsTests(GoldenCase):
    """Questions of a set are the staff's; only whoever reads conversations takes from them, or sees real ones asked."""

    def test_the_staff_of_a_set_run_it_without_reading_conversations(self) -> None:
        keeper = client_of(make_staff("chat.view_goldenset", "chat.view_goldenrun", "chat.add_goldenrun"))
        page = keeper.post(f"/admin/chat/goldenset/{self.set.pk}/run/", follow=True)
        assert page.status_code == 200
        assert TARIFF not in page.content.decode()  # not asked yet
        run = self.asked(GoldenRun.objects.get())
        address = f"/admin/chat/goldenrun/{run.pk}/change/"
        assert "4 euros" in keeper.get(address).content.decode()
        assert client_of(make_staff("chat.view_goldenset")).get(address).status_code == 403

    def test_a_what_if_is_hidden_from_whoever_may_not_read_conversations(self) -> None:
        turn = make_exchange(make_conversation(self.deployment), "Je m'appelle Zoé.", "Oui.")
        run = enqueue_what_if(self.deployment, {"match_count": 3}, level="agent", count=5, by=None)
        keeper = client_of(make_staff("chat.view_goldenrun", "chat.add_goldenrun", "chat.add_goldenquestion"))
        assert f"/{run.pk}/change/" not in keeper.get("/admin/chat/goldenrun/").content.decode()
        for verb in ("cancel", "override", "apply"):
            answer = keeper.post(f"/admin/chat/goldenrun/{run.pk}/{verb}/", {"reason": "x"})
            assert answer.status_code in (403, 404), verb
        fill = f"/admin/chat/goldenset/{self.set.pk}/fill/"
        assert keeper.post(fill, {"useful": "1"}).status_code == 403
        assert keeper.post(f"/admin/chat/goldenset/keep/{turn.pk}/").status_code == 403


class FillingTests(GoldenCase):
    def test_a_turn_is_kept_by_one_click_once(self) -> None:
        turn = make_exchange(
            make_conversation(self.deployment), "Où est la mairie ?", "Rue Haute.", answer_source="direct_qa"
        )
        for _click in range(2):
            superuser_client().post(f"/admin/chat/goldenset/keep/{turn.pk}/")
        kept = GoldenQuestion.objects.get(origin=QuestionOrigin.TURN)
        assert kept.expected["contains"] == "Rue Haute."

    def test_nothing_is_kept_of_a_temporary_chat(self) -> None:
        conversation = make_conversation(self.deployment, is_temporary=True)
        assert row_of_turn(make_exchange(conversation, "Où ?", "Là.")) is None

    def test_useful_and_validated_answers_fill_a_set(self) -> None:
        turn = make_exchange(make_conversation(self.deployment), "Où est la mairie ?", "Rue Haute.")
        Feedback.objects.create(turn=turn, verdict=Verdict.UP)
        make_learned(agent=self.agent, question="Qui est le maire ?", answer="Mme Orval.")
        client = superuser_client()
        for kind in ("useful", "validated"):
            client.post(f"/admin/chat/goldenset/{self.set.pk}/fill/", {kind: "1"})
        found = set(self.set.questions.values_list("origin", flat=True))
        assert found == {"file", "verdict", "answer"}

    def test_a_file_is_looked_at_before_it_is_added(self) -> None:
        text = f"question;contains;page\nOù est la mairie ?;Rue Haute|n° 3;2\n{TARIFF};4 euros;\n;;\nEt ?;;deux\n"
        client, address = superuser_client(), f"/admin/chat/goldenset/{self.set.pk}/import/"
        upload = SimpleUploadedFile("q.csv", text.encode())
        page = client.post(address, {"file": upload})
        assert [line for line, _fault in page.context["found"].faults] == [4, 5]
        assert self.set.questions.count() == 2
        client.post(address, {"rows": page.context["packed"]})
        added = self.set.questions.get(question="Où est la mairie ?")
        assert added.expected == {"contains": ["Rue Haute", "n° 3"], "page": 2}
        assert self.set.questions.count() == 3

    def test_a_line_with_what_cannot_be_stored_is_named(self) -> None:
        lines = (rb'{"question": "Prix \ud800 ?"}', rb'{"question": "a", "contains": ["\u0000"]}', b'{"question": "b"}')
        found = read_file("q.jsonl", b"\n".join(lines))
        assert [line for line, _fault in found.faults] == [1, 2]
        assert [line for line, _fault in read_file("q.csv", b"question\na\0\nb\n").faults] == [2]

    def test_a_file_that_cannot_be_kept_is_told_line_by_line(self) -> None:
        half, zero = b'{"question": "Une moiti\\u00e9 \\ud800 ?"}', b'{"question": "a\\u0000b"}'
        long = b"question," + b"a" * 200_000 + b"\nx,y\n"
        client, address = superuser_client(), f"/admin/chat/goldenset/{self.set.pk}/import/"
        for name, data in (("q.jsonl", half), ("q.jsonl", zero), ("q.csv", long)):
            page = client.post(address, {"file": SimpleUploadedFile(name, data)})
            assert [line for line, _fault in page.context["found"].faults] == [1], data[:30]
            assert client.post(address, {"rows": data.decode()}).status_code == 302
        assert self.set.questions.count() == 2

    @override_settings(GOLDEN_MAX_QUESTIONS=3)
    def test_a_set_is_bounded(self) -> None:
        rows = [{"question": f"Question {number}"} for number in range(5)]
        assert add_questions(self.set, rows, QuestionOrigin.FILE) == 1
        lines = "\n".join(json.dumps(row) for row in rows)
        assert len(read_file("a.jsonl", lines.encode()).faults) == 2

    def test_pages_open_and_ask_for_their_rights(self) -> None:
        client, nobody = superuser_client(), client_of(make_staff())
        question = self.set.questions.first()
        assert question is not None
        for address in (
            "/admin/chat/goldenset/",
            f"/admin/chat/goldenset/{self.set.pk}/change/",
            f"/admin/chat/goldenset/{self.set.pk}/import/",
            "/admin/chat/goldenquestion/",
            f"/admin/chat/goldenquestion/{question.pk}/change/",
            "/admin/chat/goldenrun/",
            "/admin/chat/goldenrun/what-if/",
        ):
            assert client.get(address).status_code == 200, address
            assert nobody.get(address).status_code == 403, address

    def test_expectations_are_edited_in_fields(self) -> None:
        question = self.set.questions.get(question=DUMP)
        data = {
            "golden_set": self.set.pk,
            "question": DUMP,
            "answer_source": ["direct_qa", "llm"],
            "not_contains": "dimanche\nfermé",
            "refused": "",
        }
        address = f"/admin/chat/goldenquestion/{question.pk}/change/"
        assert superuser_client().post(address, data).status_code == 302
        question.refresh_from_db()
        assert question.expected == {"answer_source": ["direct_qa", "llm"], "not_contains": ["dimanche", "fermé"]}


class EvaluateTests(_Morvane, TransactionTestCase):
    def test_a_set_by_its_name_passes(self) -> None:
        out = io.StringIO()
        call_command("evaluate", "morvane", "Morvane", "--json", stdout=out)
        assert json.loads(out.getvalue())["summary"]["passed"] == 2

    def test_it_fails_where_one_fails(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "q.jsonl"
            path.write_text(json.dumps({"question": TARIFF, "not_contains": "4 euros"}))
            out = io.StringIO()
            with pytest.raises(SystemExit) as ended:
                call_command("evaluate", "morvane", str(path), "--json", stdout=out)
        assert ended.value.code == 1
        assert json.loads(out.getvalue())["rows"][0]["unmet"] == ["not_contains: 4 euros"]


def test_each_expectation_has_its_name() -> None:
    source = {"title": "Guide", "page": 2, "question": "Q ?"}
    row = {"answer_source": "llm", "answer": "Oui, 4 euros.", "sources": [source]}
    met = {
        "answer_source": ["llm", "extractive"],
        "contains": "OUI",
        "document": "guide",
        "page": 2,
        "expected_question": "Q ?",
    }
    assert list(unmet(row, met)) == []
    wrong = {
        "answer_source": "direct_qa",
        "contains": ["non"],
        "not_contains": ["4 Euros"],
        "document": "Autre",
        "page": 3,
        "expected_question": "R ?",
        "refused": True,
    }
    names = [each.partition(":")[0] for each in unmet(row, wrong)]
    assert names == list(wrong)
