"""Deployments with several agents: the specialist answers, and a deployment with one pays nothing."""

from unittest import mock

from django.test import TestCase

from agents.database import in_database, in_thread
from agents.effective import effective_config
from agents.models import Agent, Deployment, IndexingMethod, Specialist
from chat.models import AnswerSource, Turn
from tests.factories import add_document, make_agent, make_entry, make_library
from tests.integration.chat.turn.test_path import KNOWN, ask

POOL = """# Piscine

## Quel est le tarif d'entrée de la piscine olympique ?

L'entrée de la piscine coûte 4 euros.
"""
POOL_QUESTION = "Quel est le tarif d'entrée de la piscine olympique ?"


def make_two_agents() -> Deployment:
    deployment = make_library()
    # A name drawn by lot would stand for the agent, near or far from any question.
    deployment.agent.name = "Bibliothèque"
    deployment.agent.description = "Horaires et salles de la bibliothèque"
    deployment.agent.save()
    pool = make_agent(name="Piscine", description="Bassins, tarifs et horaires de la piscine")
    add_document(pool, name="piscine.md", text=POOL)
    Specialist.objects.create(deployment=deployment, agent=pool)
    return deployment


class DispatchTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_two_agents()

    async def test_the_specialist_answers_and_is_named(self) -> None:
        result, listener = await ask(self.deployment, POOL_QUESTION)
        assert result.answer.source == AnswerSource.DIRECT_QA
        assert "4 euros" in listener.text
        done = listener.done
        assert done.agent == "Piscine"
        assert (await Turn.objects.aget()).answered_by == "Piscine"
        (line,) = [line for line in result.trace.lines if line["step"] == "dispatch"]
        assert line["outcome"] == "index"
        assert line["detail"].startswith("Piscine ")

    async def test_descriptions_of_all_agents_are_one_step_in_a_thread(self) -> None:
        with mock.patch("chat.turn.dispatch.in_thread", wraps=in_thread) as hops:
            await ask(self.deployment, POOL_QUESTION)
        assert [hop.args[0].__name__ for hop in hops.call_args_list].count("_description_vectors") == 1

    async def test_what_is_not_clear_goes_to_the_default_agent(self) -> None:
        result, _ = await ask(self.deployment, "xylophone zygote kiwi ?")
        assert result.answer.answered_by == self.deployment.agent.name
        assert result.answer.source == AnswerSource.GUARD_RAIL

    async def test_an_agent_without_an_index_leaves_the_question_to_the_others(self) -> None:
        empty = await in_database(make_agent, name="Vide")
        await in_database(Specialist.objects.create, deployment=self.deployment, agent=empty)
        result, _ = await ask(self.deployment, POOL_QUESTION)
        assert result.answer.answered_by == "Piscine"

    async def test_default_agent_without_an_index_answers_nothing(self) -> None:
        empty = await in_database(make_agent, name="Accueil")
        await in_database(Deployment.objects.update, agent=empty)
        result, _ = await ask(self.deployment, "xylophone zygote kiwi ?")
        assert result.answer.source == AnswerSource.GUARD_RAIL
        assert result.answer.answered_by == "Piscine"

    async def test_the_memory_is_asked_before_dispatch(self) -> None:
        await in_database(Deployment.objects.update, config_overlay={"memory_threshold": 0.7})
        await in_database(make_entry, self.deployment, POOL_QUESTION, "Gratuit.", sources=[])
        result, _ = await ask(self.deployment, POOL_QUESTION)
        assert result.answer.source == AnswerSource.MEMORY_GUARD
        assert "dispatch" not in [line["step"] for line in result.trace.lines]

    def test_specialists_settings_are_theirs_under_the_deployments(self) -> None:
        pool = self.deployment.specialists.get().agent
        Agent.objects.filter(pk=pool.pk).update(settings={"match_count": 9}, indexing_method=IndexingMethod.LEGACY)
        self.deployment.config_overlay = {"context_exchanges": 1}
        self.deployment.save()
        config = effective_config(self.deployment)
        assert [each.agent.name for each in config.agents] == [self.deployment.agent.name, "Piscine"]
        special = config.agents[1]
        assert (special.agent.pk, special.match_count, special.context_exchanges) == (pool.pk, 9, 1)
        assert special.indexing_method == IndexingMethod.LEGACY

    def test_overlays_method_is_in_use_by_every_agent_of_the_deployment(self) -> None:
        self.deployment.config_overlay = {"indexing_method": "legacy"}
        self.deployment.save()
        pool = self.deployment.specialists.get().agent
        assert pool.methods_in_use() == {IndexingMethod.QA_ATOMIC, IndexingMethod.LEGACY}


class OneAgentTests(TestCase):
    async def test_one_agent_is_not_dispatched_and_not_named(self) -> None:
        deployment = await in_database(make_library)
        result, listener = await ask(deployment, KNOWN)
        assert "dispatch" not in [line["step"] for line in result.trace.lines]
        done = listener.done
        assert done.agent == ""
