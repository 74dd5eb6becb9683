"""Deployment over agent over site, for every knob."""

import pytest
from django.core.exceptions import ValidationError
from django.test import TestCase
from django.utils import translation

from agents.effective import default_guard_rail_message, effective_config, presentation_of
from agents.models import Agent, Deployment, IndexingMethod, RuntimeSettings
from tests.factories import make_agent, make_deployment


class EffectiveConfigTests(TestCase):
    def test_deployment_wins_over_agent_over_site(self) -> None:
        RuntimeSettings(values={"match_count": 5, "context_exchanges": 2, "temperature": 0.1}).save()
        agent = make_agent(match_count=7, temperature=0.5, direct_answers=False)
        config = effective_config(make_deployment(agent, config_overlay={"temperature": 0.0}))
        assert (config.context_exchanges, config.match_count, config.temperature) == (2, 7, 0.0)
        assert config.direct_answers is False

    def test_defaults_apply_where_nothing_is_saved(self) -> None:
        agent = Agent.objects.create(slug="a", name="A")
        config = effective_config(make_deployment(agent, name="Mairie"))
        assert (config.context_exchanges, config.guard_rail_threshold) == (3, None)
        assert config.guard_rail_message.startswith("Je n’ai rien trouvé à ce sujet. « Mairie »")

    def test_overlay_method_wins_and_an_unknown_one_falls_back_to_the_agent(self) -> None:
        agent = make_agent(indexing_method=IndexingMethod.QA_ATOMIC)
        legacy = make_deployment(agent, slug="l", config_overlay={"indexing_method": "legacy"})
        unknown = make_deployment(agent, slug="u", config_overlay={"indexing_method": "nouveau"})
        assert legacy.method_of(legacy.agent) is IndexingMethod.LEGACY
        assert unknown.method_of(unknown.agent) is IndexingMethod.QA_ATOMIC
        assert agent.methods_in_use() == {IndexingMethod.QA_ATOMIC, IndexingMethod.LEGACY}

    def test_overlay_with_unknown_key_or_bad_value_is_refused_by_name(self) -> None:
        overlay = {"matchcount": 3, "temperature": 9, "indexing_method": "x"}
        deployment = make_deployment(config_overlay=overlay)
        with pytest.raises(ValidationError) as refusal:
            deployment.clean()
        text = " ".join(refusal.value.messages)
        for key in overlay:
            assert key in text

    def test_value_of_another_type_than_code_reads_is_refused(self) -> None:
        for overlay in ({"match_count": "6"}, {"match_count": 6.0}, {"contact": ["x"]}, {"temperature": True}):
            with pytest.raises(ValidationError):
                make_deployment(slug=next(iter(overlay)), config_overlay=overlay).clean()
            Deployment.objects.all().delete()
        make_deployment(config_overlay={"match_count": 6, "temperature": 1, "contact": "x", "memory": False}).clean()

    def test_refusal_says_what_staff_wrote_of_the_desk_in_the_readers_language(self) -> None:
        shipped, own = make_deployment(slug="s"), make_deployment(slug="o")
        own.config_overlay = {"presentation": "Je connais la piscine."}
        for language in ("fr", "en"):
            with translation.override(language):
                expected = default_guard_rail_message(presentation_of(effective_config(shipped)))
                assert effective_config(shipped).guard_rail_message == expected
                assert "Je connais la piscine." in effective_config(own).guard_rail_message

    def test_refusal_of_staff_stands_as_they_wrote_it(self) -> None:
        own = make_deployment(make_agent(guard_rail_message="Demandez à l’accueil."))
        with translation.override("en"):
            assert effective_config(own).guard_rail_message == "Demandez à l’accueil."

    def test_labels_of_the_methods_are_the_seeds(self) -> None:
        assert str(IndexingMethod.QA_ATOMIC.label) == "Q/R Atomique"
        assert str(IndexingMethod.LEGACY.label) == "Classique (legacy)"
        assert "Question/Réponse" in IndexingMethod.QA_ATOMIC.description
