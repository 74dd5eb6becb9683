"""`check_pairs` and `calibrate_thresholds`: the code that serves, on labelled pairs."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import TestCase

from knowledge.models import PairVerdict, ThresholdCalibration
from knowledge.search import serving_threshold, thresholds_for
from knowledge.thresholds import forget_calibrations, load_calibrations, threshold_profile
from tests.constants import override
from tests.factories import make_agent, make_config, make_deployment
from tests.terminal import run

SAME: dict[str, Any] = {
    "a": "Comment renouveler mon passeport ?",
    "b": "bonjour, comment renouveler mon passeport ?",
    "same_answer": True,
    "category": "politeness",
}
TRAP: dict[str, Any] = {
    "a": "Quel est le barème 2023 ?",
    "b": "Quel est le barème 2024 ?",
    "same_answer": False,
    "category": "date",
}
FIGURES = {
    *("pairs", "served", "same_answer", "hits", "hit_rate"),
    *("different_answer", "false_hits", "false_hit_rate"),
}


class PairFileTests(TestCase):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> Any:
        self.file = tmp_path / "pairs.jsonl"
        forget_calibrations()
        yield
        forget_calibrations()

    def write(self, *rows: Any) -> None:
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        self.file.write_text(text, encoding="utf-8")


class CheckTests(PairFileTests):
    def check(self, *rows: Any, words: tuple[str, ...] = ()) -> Any:
        self.write(*rows)
        agent = make_agent(direct_answer_threshold=0.3)
        return run("check_pairs", str(self.file), "--agent", agent.slug, *words)

    def test_each_row_says_whether_it_is_served_and_why_not_and_the_summary_is_by_category(self) -> None:
        found = self.check(SAME, TRAP)
        served, refused = found["rows"]
        assert served["served"] is True
        assert served["reasons"] == []
        assert refused["served"] is False
        assert "2023 ≠ 2024" in refused["reasons"][0]
        assert 0 < refused["score"] < 1
        summary = found["summary"]
        assert set(summary) == {"politeness", "date"}
        assert set(summary["date"]) == FIGURES
        assert summary["politeness"]["hits"] == 1
        assert summary["date"]["false_hits"] == 0

    def test_a_side_that_leans_on_the_exchange_before_is_not_served(self) -> None:
        follow_up = {"a": "Et pour un mineur ?", "b": "Et pour un mineur ?", "same_answer": True}
        for context in (
            "Comment avoir un passeport ?",
            {"question": "Comment avoir un passeport ?", "answer": "En mairie."},
            ["Comment avoir un passeport ?", "En mairie."],
        ):
            for side in ("context_a", "context_b"):
                row = self.check({**follow_up, side: context})["rows"][0]
                assert row["served"] is False
                assert row["reasons"] == ["follow_up"]
        assert self.check({**SAME, "context_b": "Quels sont les horaires ?"})["rows"][0]["served"]

    def test_a_model_without_thresholds_serves_nothing(self) -> None:
        self.write(SAME)
        row = run("check_pairs", str(self.file))["rows"][0]
        assert (row["served"], row["reasons"]) == (False, ["off"])

    def test_direct_answers_switched_off_serve_nothing(self) -> None:
        agent = make_agent(direct_answers=False)
        assert serving_threshold(agent, model="hashing") is None

    def test_a_bad_file_names_its_line(self) -> None:
        for text, match in (
            ("not json", "line 1"),
            ('{"a": "x"}', "`b`"),
            ('{"a": "x", "b": "y", "same_answer": "yes"}', "same_answer"),
            ("", "holds no pair"),
        ):
            self.file.write_text(text, encoding="utf-8")
            with pytest.raises(CommandError, match=match):
                call_command("check_pairs", str(self.file))
        with pytest.raises(CommandError):
            call_command("check_pairs", str(self.file.parent / "absent.jsonl"))


@override(CALIBRATION_MIN_SAME=1, CALIBRATION_MIN_DIFFERENT=1)
class CalibrationTests(PairFileTests):
    def calibrate(self, *words: str) -> Any:
        with self.captureOnCommitCallbacks(execute=True):
            return run("calibrate_thresholds", *words)

    def test_rates_have_their_interval_and_a_threshold_is_kept(self) -> None:
        self.write(SAME, TRAP)
        report = self.calibrate("--pairs", str(self.file))
        assert report["stored"] is True
        step = report["thresholds"][0]
        assert step["hit"]["low"] < step["hit"]["rate"] <= step["hit"]["high"]
        row = ThresholdCalibration.objects.get()
        assert row.direct_answer == report["proposed"]["direct_answer"]
        assert (row.hits, row.same_pairs, row.false_hits, row.different_pairs) == (1, 1, 0, 1)

    def test_a_calibrated_model_serves_what_an_unknown_one_did_not_until_it_is_deleted(self) -> None:
        config = make_config(make_deployment(make_agent(direct_answer_threshold=None)))
        model = "hashing"
        assert thresholds_for(config, model=model).direct_answer is None
        self.write(SAME, TRAP)
        report = self.calibrate("--pairs", str(self.file))
        load_calibrations()
        assert thresholds_for(config, model=report["model"]).direct_answer is not None
        row = run("check_pairs", str(self.file))["rows"][0]
        assert row["served"] is True
        with self.captureOnCommitCallbacks(execute=True):
            ThresholdCalibration.objects.all().delete()
        load_calibrations()
        assert threshold_profile(report["model"]) is None

    def test_a_calibration_of_one_agent_is_its_own(self) -> None:
        agent = make_agent(direct_answer_threshold=None)
        self.write(SAME, TRAP)
        report = self.calibrate("--pairs", str(self.file), "--agent", agent.slug)
        load_calibrations()
        assert threshold_profile(report["model"], agent.slug) is not None
        assert threshold_profile(report["model"]) is None

    def test_a_dry_run_keeps_nothing(self) -> None:
        self.write(SAME, TRAP)
        assert self.calibrate("--pairs", str(self.file), "--dry-run")["stored"] is False
        assert not ThresholdCalibration.objects.exists()

    @override(CALIBRATION_MIN_DIFFERENT=2)
    def test_too_few_pairs_are_measured_and_not_believed(self) -> None:
        self.write(SAME, TRAP)
        report = self.calibrate("--pairs", str(self.file))
        assert (report["enough_pairs"], report["stored"]) == (False, False)

    def test_no_threshold_within_the_budget_leaves_the_exit_off(self) -> None:
        self.write(SAME, {**SAME, "same_answer": False})
        report = self.calibrate("--pairs", str(self.file))
        assert report["proposed"]["direct_answer"] is None
        load_calibrations()
        profile = threshold_profile(report["model"])
        assert profile is not None
        assert profile.direct_answer is None

    def test_staff_verdicts_are_pairs(self) -> None:
        PairVerdict.objects.create(stored=SAME["a"], asked=SAME["b"], same_answer=True)
        PairVerdict.objects.create(stored=TRAP["a"], asked=TRAP["b"], same_answer=False)
        report = self.calibrate("--verdicts")
        assert report["proposed"]["hit"]["total"] == 1
        assert ThresholdCalibration.objects.get().source == "verdicts"

    def test_a_calibration_without_labels_is_refused(self) -> None:
        self.write({"a": "x ?", "b": "y ?"})
        with pytest.raises(CommandError, match="same_answer"):
            call_command("calibrate_thresholds", "--pairs", str(self.file))
        with pytest.raises(CommandError, match="--pairs"):
            call_command("calibrate_thresholds")
