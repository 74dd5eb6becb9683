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
