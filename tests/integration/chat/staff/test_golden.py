"""Golden questions: filled, asked, compared, and tried with other settings."""

import json
from typing import Any

from django.test import TestCase, TransactionTestCase, override_settings

from agents.jobs import carry_out
from agents.models import JobStatus
from chat.errors import InvalidMessageError
from chat.models import GoldenQuestion, GoldenResult, GoldenRun, GoldenSet, Message, Turn
from chat.retention import surplus_runs
from chat.staff.golden import as_lines, enqueue_run, enqueue_what_if, read_lines, rows_of, unmet, write_questions
from tests.admin_pages import client_of, make_staff, superuser_client
from tests.constants import override
from tests.doors.admin import in_role
from tests.factories import add_document, make_agent, make_conversation, make_deployment, make_exchange
from tests.terminal import run

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
        self.set = GoldenSet.objects.create(name="Morvane", deployment=self.deployment)
        write_questions(self.set, ROWS)


class GoldenCase(_Morvane, TestCase):
    def asked(self, run: GoldenRun) -> GoldenRun:
        assert run.job is not None
        carry_out(run.job.pk)
        run.refresh_from_db()
        assert run.job.status == JobStatus.DONE, run.job.error
        return run


class SetTests(GoldenCase):
    def test_whoever_looks_after_sets_deletes_one_that_was_asked(self) -> None:
        enqueue_run(self.set)
        address = f"/admin/chat/goldenset/{self.set.pk}/delete/"
        assert client_of(in_role("reviewer")).post(address, {"post": "yes"}).status_code == 302
        assert not GoldenSet.objects.exists()


class RunTests(GoldenCase):
    def test_a_run_says_what_passes_and_stores_no_conversation(self) -> None:
        write_questions(self.set, [*ROWS, {"question": TARIFF + " ?", "contains": "9 euros"}])
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
        self.asked(run)
        assert (run.results.get(position=0).after or {})["answer"] == "kept"
        assert run.results.get(position=1).has_passed

    @override(GOLDEN_TURN_SECONDS=0.0)
    def test_a_long_run_lets_other_jobs_go_first(self) -> None:
        run = enqueue_run(self.set)
        assert run.job is not None
        carry_out(run.job.pk)
        run.job.refresh_from_db()
        assert (run.job.status, run.results.filter(after__isnull=True).count()) == (JobStatus.QUEUED, 2)

    def test_a_cancelled_run_asks_no_more(self) -> None:
        run = enqueue_run(self.set)
        superuser_client().post(f"/admin/chat/goldenrun/{run.pk}/cancel/")
        run.refresh_from_db()
        assert run.job is not None
        assert (run.job.status, carry_out(run.job.pk), run.is_over) == (JobStatus.CANCELLED, None, True)

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
        self.conversation = make_conversation(self.deployment)
        for text in (TARIFF, DUMP, TARIFF):
            make_exchange(self.conversation, text, "Réponse.")

    def run_of(self, **changes: Any) -> GoldenRun:
        return self.asked(enqueue_what_if(self.deployment, changes, count=50))

    def test_different_real_questions_are_asked_both_ways(self) -> None:
        run = self.run_of(direct_answers=False)
        results = list(run.results.all())
        assert {each.question for each in results} == {TARIFF, DUMP}
        assert all("answer_source" in each.changes for each in results)
        self.deployment.refresh_from_db()
        assert self.deployment.config_overlay == {}

    def test_questions_go_with_their_conversation(self) -> None:
        run = self.run_of(match_count=3)
        self.conversation.delete()
        assert not run.results.exists()

    def test_the_page_queues_a_run(self) -> None:
        client = superuser_client()
        data = {"deployment": self.deployment.pk, "count": 10}
        address = "/admin/chat/goldenrun/what-if/"
        assert client.post(address, data).status_code == 200  # nothing is changed
        assert client.post(address, {**data, "setting_match_count": 3, "count": 501}).status_code == 200
        assert client.post(address, {**data, "setting_match_count": 3}).status_code == 302
        assert GoldenRun.objects.get().changes == {"match_count": 3}
        self.assertContains(client.get(f"{address}?setting_guard_rail_threshold=0.9"), 'value="0.9"')

    def test_a_set_is_asked_with_other_settings_too(self) -> None:
        data = {"deployment": self.deployment.pk, "golden_set": self.set.pk, "count": 10}
        changes = {"setting_direct_answers": "false", "setting_guard_rail_threshold": "1"}
        client, address = superuser_client(), "/admin/chat/goldenrun/what-if/"
        client.post(address, {**data, **changes})
        run = self.asked(GoldenRun.objects.get(golden_set=self.set))
        assert {each.question for each in run.results.all() if each.verdict == "worse"} == {TARIFF}
        assert client.get(f"/admin/chat/goldenrun/{run.pk}/change/").context["counts"]["worse"] == 1
        elsewhere = {**data, "deployment": make_deployment(self.agent, slug="other").pk}
        assert client.post(address, {**elsewhere, **changes}).status_code == 200


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
        make_exchange(make_conversation(self.deployment), "Je m'appelle Zoé.", "Oui.")
        run = self.asked(enqueue_what_if(self.deployment, {"match_count": 3}, count=5))
        keeper = client_of(make_staff("chat.view_goldenrun", "chat.add_goldenrun"))
        address = f"/admin/chat/goldenrun/{run.pk}/change/"
        assert address not in keeper.get("/admin/chat/goldenrun/").content.decode()
        assert keeper.get(address).url == "/admin/"  # type: ignore[attr-defined]  # a row that is not there
        assert "Zoé" in client_of(make_staff("chat.view_turn")).get(address).content.decode()
        assert keeper.get("/admin/chat/goldenrun/what-if/").status_code == 403
        assert keeper.post(f"/admin/chat/goldenrun/{run.pk}/cancel/").status_code == 404


class FillingTests(GoldenCase):
    def save(self, lines: str) -> Any:
        data = {"name": "Morvane", "deployment": self.deployment.pk, "language": "fr", "lines": lines}
        data["initial-lines"] = as_lines(rows_of(self.set)).replace("\n", "\r\n")
        return superuser_client().post(f"/admin/chat/goldenset/{self.set.pk}/change/", data)

    def test_the_set_holds_the_lines_with_what_is_expected(self) -> None:
        kept = self.set.questions.get(question=DUMP)
        row = {"question": "Où est la mairie ?", "contains": ["Rue Haute", "n° 3"], "page": 2}
        changed = {"question": DUMP, "answer_source": ["direct_qa", "llm"], "not_contains": "dimanche", "note": "Sûr ?"}
        assert (
            self.save(f"{json.dumps(row)}\n\nQui est le maire ?\n{json.dumps(changed)}\nQui est le maire ?").status_code
            == 302
        )
        assert rows_of(self.set) == [changed, row, {"question": "Qui est le maire ?"}]
        kept.refresh_from_db()
        assert kept.note == "Sûr ?"

    def test_a_set_is_edited_as_the_lines_that_it_is_read_from(self) -> None:
        rows = [*ROWS, {"question": "Où ?"}, {"question": "{a}"}, {"question": "Quand ?", "contains": "9 h => 12 h"}]
        rows += [
            {"question": "a => b"},
            {"question": "Qui ?", "contains": ["elle"]},
            {"question": "Une\nou deux ?", "note": "rare"},
        ]
        write_questions(self.set, rows)
        page = superuser_client().get(f"/admin/chat/goldenset/{self.set.pk}/change/")
        shown = page.context["adminform"].form["lines"].value()
        assert read_lines(shown) == rows_of(self.set) == rows
        assert as_lines(rows[len(ROWS) :: 2][:2]) == "Où ?\nQuand ? => 9 h => 12 h"
        looker = client_of(make_staff("chat.view_goldenset"))
        self.assertContains(looker.get(f"/admin/chat/goldenset/{self.set.pk}/change/"), DUMP)

    def test_lines_are_kept_all_or_none(self) -> None:
        for line, fault in (
            ('{"question": "Et ?", "page": "deux"}', "Ligne 2"),
            ('{"question": "Prix ?", "contain": "4"}', "« contain »"),
        ):
            assert fault in self.save(f"Où ?\n{line}").context["errors"][0][0]
        assert self.set.questions.count() == 2

    def test_a_page_from_before_takes_no_question_out(self) -> None:
        address = f"/admin/chat/goldenset/{self.set.pk}/change/"
        self.assertContains(superuser_client().get(address), 'name="initial-lines"')
        data = {"name": "Autre", "deployment": self.deployment.pk, "language": "fr"}
        for shown in ({}, {"lines": DUMP, "initial-lines": DUMP}):
            page = superuser_client().post(address, data | shown)
            assert "rechargez-la" in page.context["errors"][0][0]
        assert self.set.questions.count() == 2

    def test_a_line_with_what_cannot_be_stored_is_named(self) -> None:
        for line in ('{"question": "Prix \\ud800 ?"}', '{"question": "a", "contains": ["\\u0000"]}', "{"):
            with self.assertRaisesMessage(InvalidMessageError, "line 2"):
                read_lines(f'{{"question": "b"}}\n{line}')

    @override(GOLDEN_MAX_QUESTIONS=3)
    def test_a_set_is_bounded(self) -> None:
        rows = [{"question": f"Question {number}"} for number in range(5)]
        with self.assertRaisesMessage(InvalidMessageError, "line 4"):
            read_lines("\n".join(json.dumps(row) for row in rows))


class EvaluateTests(_Morvane, TransactionTestCase):
    def test_a_set_by_its_name_passes(self) -> None:
        assert run("evaluate", "morvane", "Morvane")["summary"]["passed"] == 2


def test_each_expectation_has_its_name() -> None:
    source = {"title": "Guide", "page": 2, "question": "Q ?"}
    row = {"answer_source": "llm", "answer": "Oui, 4 euros.", "sources": [source]}
    met = {"answer_source": ["llm"], "contains": "OUI", "document": "guide", "page": 2, "expected_question": "Q ?"}
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
    parts = {"contains": ["5 euros", "75 euros", "2,5", "2", "2024"]}
    assert [*unmet({**row, "answer": "75 euros, 2,5 %, 1.5.2024"}, parts)] == ["contains: 5 euros", "contains: 2"]
