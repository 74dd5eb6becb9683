"""What the migrations say that a site loses."""

from decimal import Decimal
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import pytest


@pytest.mark.parametrize(("tokens", "cost", "is_said"), [(0, "0", False), (9_000, "0", True), (0, "2.5000", True)])
def test_limits_of_a_day_that_go_are_said(
    tokens: int, cost: str, is_said: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    site = SimpleNamespace(
        question_tokens_per_day=tokens, question_cost_per_day=Decimal(cost), question_calls_per_day=5_000
    )
    apps = mock.Mock()
    apps.get_model.return_value.objects.using.return_value = [site]
    import_module("agents.migrations.0014_retire_approval_and_question_budget").announce_limits(apps, mock.Mock())
    told = capsys.readouterr().err
    assert ("are dropped" in told) is is_said
    assert not is_said or "5000 calls" in told


def test_desk_that_only_observed_stays_silent(capsys: pytest.CaptureFixture[str]) -> None:
    agent = SimpleNamespace(pk=1, slug="a", settings={"shadow_mode": True, "match_count": 4}, save=mock.Mock())
    other = SimpleNamespace(
        pk=1, slug="b", config_overlay={"shadow_mode": False, "direct_answers": True}, save=mock.Mock()
    )
    rows = {"RuntimeSettings": [], "Agent": [agent], "Deployment": [other]}
    apps = mock.Mock()
    apps.get_model.side_effect = lambda _app, model: mock.Mock(**{"objects.using.return_value": rows[model]})
    import_module("agents.migrations.0024_observe_by_what_if").drop(apps, mock.Mock())
    assert agent.settings == {"match_count": 4, "direct_answers": False, "memory": False, "clarification": False}
    assert other.config_overlay == {"direct_answers": True}
    assert "Agent a" in capsys.readouterr().err
