"""Every odd form of a reply, behind every door: no reasoning leaks, and nothing worse than the quotation is shown."""

from agents.database import in_database
from agents.llm.base import language_model
from chat.models import AnswerSource
from chat.runs.afterwards import generate_title
from faqs.models import CachedResponse
from tests.integration.chat.api.test_v1 import V1Tests
from tests.integration.chat.turn.test_path import NEAR, ask
from tests.integration.chat.turn.test_tool_loop import closed, served
from tests.servers.model_server import ModelReply, ModelServer
from tests.unit.agents.test_llm_reasoning import FORMS

GOOD = "Les salles se réservent à l’accueil [1]."
SHOWN = [form.replace("Bonjour [1].", GOOD) for form in FORMS]
QUOTED = {
    "empty": ["<think>4711, then the limit", "\n \n"],
    "only_number": ["[1]", "12 [1]."],
    "only_header": ["[Source 1] - Bibliothèque municipale"],
    "echo": [NEAR],
    "language": ["You can book one of the rooms at the desk with your card, and it is free for all of us [1]."],
    "loop": ["Les salles se réservent à l’accueil du rez-de-chaussée. " * 9],
    "call_as_text": ['{"name": "find_room", "arguments": {"q": "4711"}}', "<tool_call>find_room</tool_call>"],
}


class OddReplyTests(V1Tests):
    async def test_no_form_lets_reasoning_through_and_each_defect_is_quoted(self) -> None:
        await self.overlay(memory_learning="valid", tools_enabled=False)
        forms = [(form, "") for form in SHOWN] + [(text, name) for name, texts in QUOTED.items() for text in texts]
        with ModelServer(api_key="k") as server, served(server):
            for form, name in forms:
                server.script(*[ModelReply(tokens=[form[:9], form[9:]])] * 3)
                result, listener = await ask(self.deployment, NEAR)
                whole = await self.said(await self.post(messages=[{"role": "user", "content": NEAR}]))
                streamed = await self.said(await self.post(messages=[{"role": "user", "content": NEAR}], stream=True))
                [check] = [line["outcome"] for line in result.trace.lines if line["step"] == "check"]
                assert check == (name or check)
                assert not name or listener.done.cut == "answer_replaced"
                assert result.answer.source == (AnswerSource.EXTRACTIVE if name else AnswerSource.LLM), form
                for text in (listener.done.content, whole, *([] if name else [streamed])):
                    assert "4711" not in text, (form, text, [listener.done.content, whole, streamed])
                    assert ("Voici ce que disent" in text) if name else text == GOOD
            await closed()
        assert not await in_database(CachedResponse.objects.filter(answer__contains="4711").exists)

    async def test_titles_and_rewritings_hold_none_of_it(self) -> None:
        with ModelServer(api_key="k") as server, served(server):
            for form in FORMS:
                server.script(ModelReply(tokens=[form]))
                model = language_model()
                assert model is not None
                assert await generate_title(model, question=NEAR, llm_model="") == "Bonjour [1]"
            await closed()
