"""The memory of a deployment with several agents: an answer leaves it on the terms of the agent whose passages it came
from.
"""

from datetime import timedelta
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.database import in_database
from agents.effective import effective_config
from agents.models import Agent, Deployment, Specialist
from chat.models import AnswerSource
from faqs.models import CachedResponse
from faqs.recall import lookup_of, recall_cached, stored_mark
from knowledge.embeddings.base import Purpose, embedder
from knowledge.models import Chunk
from tests.factories import make_entry, set_settings, source_of
from tests.integration.chat.turn.test_dispatch import POOL_QUESTION, make_two_agents
from tests.integration.chat.turn.test_path import KNOWN, ask

FROM_MEMORY = "Gratuit, de mémoire."


class MemoryOfAgentsTests(TestCase):
    def setUp(self) -> None:
        self.deployment = make_two_agents()
        set_settings(memory_threshold=0.7)
        pool = Specialist.objects.get().agent
        self.pool = Agent.objects.filter(pk=pool.pk)
        self.default = Agent.objects.exclude(pk=pool.pk)
        chunk = Chunk.objects.filter(document__agent=pool).first()
        assert chunk is not None
        self.entry = make_entry(self.deployment, POOL_QUESTION, FROM_MEMORY, sources=[source_of(chunk)])

    async def told(self, question: str = POOL_QUESTION) -> tuple[str, str]:
        result, listener = await ask(self.deployment, question)
        return result.answer.source, listener.text

    async def step(self, question: str = POOL_QUESTION) -> Any:
        result, _listener = await ask(self.deployment, question)
        return next(line for line in result.trace.lines if line["step"] == "memory_guard")

    async def test_specialist_without_a_memory_answers_from_its_documents(self) -> None:
        assert await self.told() == (AnswerSource.MEMORY_GUARD, FROM_MEMORY)
        await in_database(set_settings, self.pool, memory=False)
        source, text = await self.told()
        assert (source, "4 euros" in text) == (AnswerSource.DIRECT_QA, True)
        (refused,) = (await self.step())["refused"]
        assert refused["reason"] == "agent_off"

    async def test_specialist_has_a_memory_where_the_default_agent_has_none(self) -> None:
        await in_database(set_settings, self.default, memory=False)
        assert await self.told() == (AnswerSource.MEMORY_GUARD, FROM_MEMORY)
        await in_database(make_entry, self.deployment, KNOWN, FROM_MEMORY)
        assert (await self.told(KNOWN))[0] == AnswerSource.DIRECT_QA

    async def test_specialists_threshold_counts_for_its_answers(self) -> None:
        near = "Quel est le tarif d'entrée de la grande piscine olympique ?"
        score = (await self.step(near))["score"]
        await in_database(set_settings, self.pool, memory_threshold=min(1.0, score + 0.01))
        (refused,) = (await self.step(near))["refused"]
        assert refused["reason"] == "below_threshold"
        await in_database(set_settings, self.pool, memory_threshold=0.95)
        served = await self.step()
        assert (served["outcome"], served["threshold"]) == ("respond_from_memory", 0.95)

    async def test_specialist_in_shadow_gives_nothing_and_counts_nothing(self) -> None:
        await in_database(set_settings, self.pool, shadow_mode=True)
        assert (await self.step())["outcome"] == "shadow"
        await in_database(self.entry.refresh_from_db)
        assert self.entry.usage_count == 0

    async def test_answer_is_as_old_as_its_agent_lets_it_become(self) -> None:
        aged = timezone.now() - timedelta(days=100)
        await in_database(CachedResponse.objects.update, confirmed_at=aged)
        await in_database(set_settings, self.default, memory_max_age_days=30)
        await in_database(call_command, "prune_memory", verbosity=0)
        assert (await self.told())[0] == AnswerSource.MEMORY_GUARD
        await in_database(set_settings, self.pool, memory_max_age_days=30)
        await in_database(set_settings, self.default, memory_max_age_days=180)
        (refused,) = (await self.step())["refused"]
        assert refused["reason"] == "expired"

    def test_agents_with_the_same_settings_cost_no_query_more(self) -> None:
        model, mark = embedder(), stored_mark(self.deployment.pk)
        assert mark is not None
        vector = model.embed_one(POOL_QUESTION, purpose=Purpose.QUERY)
        spent = []
        for threshold in (0.7, 0.8):
            set_settings(self.pool, memory_threshold=threshold)
            config = effective_config(Deployment.objects.get(pk=self.deployment.pk))
            lookup = lookup_of(config, POOL_QUESTION, model=model.recipe.model, writes=False)
            assert lookup is not None
            with CaptureQueriesContext(connection) as queries:
                recall_cached(mark, lookup, vector=vector, recipe=model.recipe)
            spent.append(len(queries))
        assert spent[1] - spent[0] == 1
