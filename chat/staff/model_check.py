"""What the language model can be trusted with, before it is switched on: the calls of production, on passages made up
for it. The command, the button and the worker run one verb; its result is the report of its job.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.utils import translation
from django.utils.translation import gettext_lazy as _

from agents.effective import EffectiveConfig, effective_config
from agents.errors import ApplicationError, LLMResponseError
from agents.jobs import Held, Outcome
from agents.llm.base import GenerationOptions, LanguageModel, language_model
from agents.models import VERIFIER_CHECK, Agent, Deployment
from chat.models import AnswerSource
from chat.protocol import Delta, Event
from chat.turn.generation import generate
from chat.turn.prompt import build_prompt
from chat.turn.values import Question, StandaloneQuestion, TurnContext, TurnInProgress, TurnRequest
from faqs.precedence import LearnedRecall
from faqs.second_key.verifier import confirms
from knowledge.embeddings.base import Purpose, embedder
from knowledge.indexing.questions import UnitsRequest
from knowledge.language.words import language_of
from knowledge.search import Passage, PointType, SearchResult

#: What a desk can work with; below, readers wait longer than for the passages themselves.
SECONDS_TO_FIRST_TEXT = 10.0
TOKENS_A_SECOND = 5.0
WINDOW_TOKENS = 4_096

#: Two texts with a question that each answers and one that it does not, pairs of questions with whether one answer is
#: right for both, and a tool.
_DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_REASONING = re.compile(r"</?(?:think|thinking|reason|reasoning|thought)>|<\|channel\|>", re.I)
_DIGITS = re.compile(r"(?<!\[)\d+(?!\])")


@dataclass(slots=True)
class Tried:
    """The model, and what its answers were so far, by language."""

    llm: LanguageModel
    model: str
    config: EffectiveConfig
    answers: dict[str, str] = field(default_factory=dict)
    first_seconds: float = 0.0
    tokens_a_second: float = 0.0

    async def answer(self, language: str, question: str) -> str:
        """The answer of production; empty where it gave way to the quotation."""
        text, kind = _DATA["texts"][language], PointType.SOURCE_MATERIAL
        passage = Passage("", kind, 1.0, text["passage"], "", text["title"], "", "", "", None, None, coverage=1.0)
        began, first = time.monotonic(), 0.0

        async def emit(event: Event) -> None:
            nonlocal first
            if isinstance(event, Delta) and not first:
                first = time.monotonic()

        turn = TurnInProgress(TurnRequest(0, question, language), emit)
        turn.result.language = language
        turn.context = TurnContext(self.config, [], "", None, None)
        vector = embedder().embed_one(question, purpose=Purpose.QUERY)
        asked = StandaloneQuestion(question, is_follow_up=False, question=question)
        turn.question = Question(asked, vector, embedder().recipe, None)
        turn.learned = LearnedRecall(SearchResult((passage,)), 0)
        with translation.override(language):
            await generate(turn, self.llm)
        if turn.result.model_error:
            raise turn.result.model_error
        given = turn.answer
        if first and (seconds := time.monotonic() - first) > 0:
            self.first_seconds, self.tokens_a_second = first - began, given.completion_tokens / seconds
        return given.text if given.source == AnswerSource.LLM else ""


Found = tuple[bool, str]


def _language(language: str) -> Callable[[Tried], Coroutine[Any, Any, Found]]:
    async def check(tried: Tried) -> Found:
        text = tried.answers[language] = await tried.answer(language, _DATA["texts"][language]["question"])
        return language_of(text) == language, text[:80]

    return check


async def _citation(tried: Tried) -> Found:
    right = [text for text in tried.answers.values() if "[1]" in text and {"8", "3"} <= set(_DIGITS.findall(text))]
    return len(right) == len(tried.answers), f"{len(right)} / {len(tried.answers)}"


async def _refusal(tried: Tried) -> Found:
    texts = [await tried.answer(language, text["unanswered"]) for language, text in _DATA["texts"].items()]
    refused = [text for text in texts if text and not _DIGITS.search(text)]
    return len(refused) == len(texts), f"{len(refused)} / {len(texts)}"


async def _reasoning(tried: Tried) -> Found:
    leaked = [text for text in tried.answers.values() if _REASONING.search(text)]
    return not leaked, f"{len(leaked)} / {len(tried.answers)}"


async def _units(tried: Tried) -> Found:
    text = _DATA["texts"]["fr"]
    request = UnitsRequest(title=text["title"], parent_context="", content=text["passage"], language="fr")
    options = replace(request.options, model=tried.model)
    found = request.take(await asyncio.to_thread(tried.llm.complete, request.messages, options))
    return bool(found.units), f"{len(found.units)}"


async def _tool_call(tried: Tried) -> Found:
    messages = build_prompt(
        config=tried.config, history=[], passages=[], question=_DATA["tool_question"], language="fr", has_tools=True
    )
    options = GenerationOptions(
        tried.model, tried.config.temperature, tried.config.max_answer_tokens, tools=(_DATA["tool"],)
    )
    reply = await asyncio.to_thread(tried.llm.complete, messages, options)
    with suppress(ValueError, AttributeError):
        cities = [json.loads(call.arguments).get("city") for call in reply.tool_calls if call.name == "weather"]
        return any("Lyon" in str(city) for city in cities), f"{len(cities)}"
    return False, "0"


async def _window(tried: Tried) -> Found:
    tokens = await tried.llm.window(tried.model)
    return tokens is None or tokens >= WINDOW_TOKENS, str(tokens or "?")


async def _first_text(tried: Tried) -> Found:
    return 0 < tried.first_seconds <= SECONDS_TO_FIRST_TEXT, f"{tried.first_seconds:.1f} s"


async def _speed(tried: Tried) -> Found:
    return tried.tokens_a_second >= TOKENS_A_SECOND, f"{tried.tokens_a_second:.1f}"


async def _verifier(tried: Tried) -> Found:
    said = [(await confirms(tried.llm, one, other, model=tried.model), same) for one, other, same in _DATA["pairs"]]
    wrong = sum(is_same and not same for is_same, same in said)
    return not wrong and sum(is_same for is_same, _same in said) >= 4, f"{sum(a == b for a, b in said)} / {len(said)}"


@dataclass(frozen=True, slots=True)
class Check:
    label: Any
    run: Callable[[Tried], Coroutine[Any, Any, Found]]
    #: What staff switch off, or set, where the model fails.
    remedy: Any


_NO_MODEL = _("N’employez pas ce modèle : sans lui, les passages sont cités (videz OPENAI_BASE_URL et OPENAI_API_KEY).")
CHECKS = {
    "french": Check(_("Répond en français"), _language("fr"), _NO_MODEL),
    "english": Check(_("Répond en anglais"), _language("en"), _("Réservez le modèle aux bureaux de langue française.")),
    "citation": Check(
        _("Cite le passage, avec ses nombres"), _citation, _("Apprentissage de la mémoire : jamais seul.")
    ),
    "refusal": Check(_("Dit que les passages ne répondent pas"), _refusal, _("Contrôle strict de ses réponses : oui.")),
    "reasoning": Check(_("Ne montre pas son raisonnement"), _reasoning, _NO_MODEL),
    "units": Check(_("Écrit des questions en JSON"), _units, _("Écriture de questions : non.")),
    "tool_call": Check(_("Appelle un outil"), _tool_call, _("Outils : non.")),
    "window": Check(_("Fenêtre, en tokens"), _window, _("Moins de passages et d’échanges, ou une fenêtre plus large.")),
    "first_text": Check(
        _("Secondes jusqu’au premier mot"), _first_text, _("LLM_READ_TIMEOUT_SECONDS=600 ; titres et réécriture : non.")
    ),
    "speed": Check(_("Tokens par seconde"), _speed, _("Une longueur maximale de réponse plus petite.")),
    VERIFIER_CHECK: Check(_("Juge dix paires de questions"), _verifier, _("Vérification par le modèle : non.")),
}


def check_model(held: Held) -> Outcome:
    """The job: each check in turn; one whose call the server refuses is failed. Raises the errors of the first call."""
    llm = language_model()
    if llm is None:
        message = _("Aucun modèle de langage n’est configuré : définissez OPENAI_BASE_URL ou OPENAI_API_KEY.")
        raise ApplicationError("no language model", public_message=message)
    deployment = Deployment(agent=Agent(slug="check"))
    deployment.has_specialists = False  # type: ignore[attr-defined]  # as outside a turn: the settings of the site alone
    config = effective_config(deployment)
    tried = Tried(llm, config.llm_model or llm.default_model, config)
    rows: list[dict[str, Any]] = []
    with asyncio.Runner() as runner:
        for number, (name, check) in enumerate(CHECKS.items()):
            held.progress(number, len(CHECKS), name)
            try:
                passed, figure = runner.run(check.run(tried))
            except LLMResponseError as error:
                if not rows:
                    raise
                passed, figure = False, str(error.public_message)
            rows.append({"check": name, "passed": passed, "figure": figure})
        runner.run(llm.aclose())
    held.progress(len(CHECKS), len(CHECKS), "")
    report = {"model": tried.model, "rows": rows}
    return Outcome(report=report, value=report)


def told(report: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """The rows of a report in words: `switch_off` is empty where the model passed."""
    rows = (row for row in report.get("rows", ()) if row["check"] in CHECKS)
    return [
        {**row, "label": CHECKS[row["check"]].label, "switch_off": "" if row["passed"] else CHECKS[row["check"]].remedy}
        for row in rows
    ]
