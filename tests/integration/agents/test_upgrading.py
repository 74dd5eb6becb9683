"""What the migrations say that a site loses."""

from importlib import import_module
from unittest import mock

import pytest
from django.apps import apps

from agents.models import RuntimeSettings, Specialist
from tests.factories import fresh, make_agent, make_config, make_deployment

SILENT = {"direct_answers": False, "memory": False, "clarification": False}


@pytest.mark.django_db
class TestModeOfObservation:
    def upgrade(self) -> None:
        import_module("agents.migrations.0024_observe_by_what_if").drop(
            apps, mock.Mock(**{"connection.alias": "default"})
        )

    def test_desk_that_only_observed_stays_silent(self, capsys: pytest.CaptureFixture[str]) -> None:
        agent = make_agent(slug="a", settings={"shadow_mode": True, "match_count": 4})
        live = make_deployment(slug="b", config_overlay={"shadow_mode": False, "direct_answers": True})
        self.upgrade()
        assert fresh(agent).settings == {"match_count": 4, **SILENT}
        assert fresh(live).config_overlay == {"direct_answers": True}
        said = capsys.readouterr().err
        assert "Agent a" in said
        assert "Deployment b" not in said

    def test_what_was_observed_by_the_site_is_not_served_where_an_agent_says_yes(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        RuntimeSettings.objects.create(values={"shadow_mode": True})
        agent = make_agent(slug="a", settings={"direct_answers": True})
        deployment = make_deployment(agent, config_overlay={"memory": True})
        self.upgrade()
        config = make_config(fresh(deployment))
        assert (config.direct_answers, config.memory, config.clarification) == (False, False, False)
        assert fresh(agent).settings == {"direct_answers": False}
        said = capsys.readouterr().err
        assert "RuntimeSettings 1, Agent a, Deployment a" in said

    @pytest.mark.parametrize("observed_by", ["site", "agent"])
    def test_live_deployment_goes_on_as_it_was(self, observed_by: str, capsys: pytest.CaptureFixture[str]) -> None:
        observes = {"shadow_mode": True}
        RuntimeSettings.objects.create(values=observes if observed_by == "site" else {})
        own = observes if observed_by == "agent" else {}
        agent = make_agent(settings={"clarification": False, **own})
        deployment = make_deployment(agent, slug="live", config_overlay={"shadow_mode": False})
        silent = make_deployment(agent, slug="silent")
        self.upgrade()
        config, other = make_config(fresh(deployment)), make_config(fresh(silent))
        assert (config.direct_answers, config.memory, config.clarification) == (True, True, False)
        assert (other.direct_answers, other.memory, other.clarification) == (False, False, False)
        assert "Deployment live" not in capsys.readouterr().err

    def test_agents_of_one_deployment_keep_what_they_differ_in(self) -> None:
        deployment = make_deployment(make_agent(settings={"direct_answers": False}))
        Specialist.objects.create(deployment=deployment, agent=make_agent(settings={"shadow_mode": True}))
        Specialist.objects.create(deployment=deployment, agent=make_agent())
        self.upgrade()
        assert fresh(deployment).config_overlay == {}
        served = [(each.direct_answers, each.memory) for each in make_config(fresh(deployment)).of_each_agent]
        assert served == [(False, True), (False, False), (True, True)]


@pytest.mark.django_db
def test_bounds_of_an_offer_leave_what_a_site_stored(capsys: pytest.CaptureFixture[str]) -> None:
    agent = make_agent(slug="a", settings={"clarification_band": 0.3, "match_count": 4})
    drop = import_module("agents.migrations.0031_two_fewer_settings").drop
    drop(apps, mock.Mock(**{"connection.alias": "default"}))
    assert fresh(agent).settings == {"match_count": 4}
    assert "Agent a" in capsys.readouterr().err
