"""The last steps of the path: the guard rail's refusal, the best passages quoted where no model writes, or the model's
answer as it streams, with the tools that it may use.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal

from django.utils.translation import gettext as _

from agents.database import in_database
from agents.effective import EffectiveConfig, own_refusal
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, Reply
from agents.models import Deployment
from agents.settings import ToolMode
from chat.errors import AnswerCutError, AnswerFilteredError
from chat.models import AnswerSource, StopReason
from chat.protocol import REASONING, Delta, Tool, ToolStatus
from chat.rendering import CitationFilter
from chat.thread.messages import check_isolation
from chat.turn.clarification import REFUSAL_OFFER
from chat.turn.prompt import build_prompt, number_sources
from chat.turn.quoting import in_language_first, named_place, quoted_text, widened, without_twins
from chat.turn.tool_loop import REFUSED, ToolLoop
from chat.turn.toolbox import Toolbox, choose_tools
from chat.turn.values import TurnInProgress
from faqs.models import UnansweredReason
from faqs.unanswered import Unanswered
from faqs.validity import starter_questions
from knowledge.language.words import fold, language_of
from knowledge.search import Passage

#: Questions that a refusal offers, and passages that it names.
MOST_OFFERED = 3
#: A stored question is offered, and a passage named, from this share of its guard rail on.
_NEAR = 0.6


async def refuse_outside(turn: TurnInProgress) -> bool:
    """Give the out-of-domain message where no passage is near enough and no tool was found for the question."""
    inside = turn.found.in_domain(turn.thresholds)
    turn.by_tool = turn.toolbox is not None and turn.toolbox.fits_the_question and not inside.hits
    _trace(turn, is_inside=bool(inside.hits))
    _note_unanswered(turn)
    if inside.hits or turn.by_tool:
        return False
    turn.answer.source = AnswerSource.GUARD_RAIL
    text, near = turn.config.guard_rail_message, _near(turn)
    if text == own_refusal(turn.config):
        questions = list(dict.fromkeys(hit.question for hit in near if hit.question))[:MOST_OFFERED]
        passages = without_twins([hit for hit in near if not hit.question], MOST_OFFERED)
        await turn.show(number_sources(passages))
        text = "\n\n".join([text, *await in_database(_offers, turn.config, questions, passages)])
    # The refusal that staff wrote is given as it is.
    await turn.say(text)
    return True


def _near(turn: TurnInProgress) -> list[Passage]:
    """The hits under the guard rail that are not far from it: of the reader's language, then closest first."""
    thresholds, language = turn.thresholds, turn.result.language
    hits = [
        hit for hit in turn.found.hits if thresholds.closeness(hit) >= _NEAR * (thresholds.guard_rail_for(hit) or 0)
    ]

    def place(hit: Passage) -> tuple[bool, float]:
        return language_of(hit.question or hit.content) not in ("", language), -thresholds.closeness(hit)

    return sorted(hits, key=place)


def _offers(config: EffectiveConfig, questions: Sequence[str], passages: Sequence[Passage]) -> list[str]:
    """What a refusal offers: the nearest questions and passages, or the questions that this desk begins with."""
    if not questions and not passages:
        questions = starter_questions(Deployment.objects.get(pk=config.deployment_id), MOST_OFFERED)
    asked = [_(REFUSAL_OFFER), "\n".join(f"- {question}" for question in questions)] if questions else []
    named = [f"- {named_place(passage)} [{number}]" for number, passage in enumerate(passages, start=1)]
    return [*asked, *([_("Le plus proche dans les documents :"), "\n".join(named)] if named else [])]


def _trace(turn: TurnInProgress, *, is_inside: bool) -> None:
    """The guard rail's line: the closest hit; where all were refused, what was considered, best first."""
    thresholds = turn.thresholds
    hits = sorted(turn.found.hits, key=lambda hit: (not thresholds.lets_in(hit), -thresholds.closeness(hit)))
    best = hits[0] if hits else None
    detail = ""
    if best is not None and is_inside:
        detail = f"{best.score:.2f} {best.coverage:.2f}"
    elif best is not None:
        detail = "\n".join(
            f"{thresholds.closeness(hit):.2f} {hit.question or hit.place()}" for hit in hits[:MOST_OFFERED]
        )
    turn.trace.step(
        "guard_rail",
        "passed" if is_inside else "passed_by_tool" if turn.by_tool else "refused",
        score=thresholds.closeness(best) if best else 0.0,
        threshold=thresholds.guard_rail_for(best) if best else None,
        detail=detail,
    )


def _note_unanswered(turn: TurnInProgress) -> None:
    """Record the question as unanswered for staff, where nothing was near enough."""
    if not turn.found.is_out_of_domain(turn.thresholds) or not turn.config.record_unanswered or turn.by_tool:
        return
    turn.result.unanswered = Unanswered(
        agent_id=turn.config.agent_id,
        question=turn.question.text,
        vector=turn.question.vector,
        recipe=turn.question.recipe,
        reason=UnansweredReason.REFUSED,
        score=turn.found.best_score if turn.found.hits else None,
    )


async def quote_passages(turn: TurnInProgress) -> None:
    """Without a model: the best passages inside the guard rail, quoted with their source."""
    inside = turn.found.in_domain(turn.thresholds)
    most = turn.config.extractive_passages
    nearest = in_language_first(inside.passages(len(inside.hits)), turn.result.language)
    candidates = without_twins(nearest, 2 * most)
    passages = await in_database(widened, candidates, most)
    answer = turn.answer
    answer.source, answer.score = AnswerSource.EXTRACTIVE, passages[0].score
    turn.trace.step("extractive", "quoted", score=answer.score, detail=f"{len(passages)} passages")
    await turn.show(number_sources(passages))
    await turn.say(quoted_text(passages, turn.asked.text))


#: The notice of an answer, by how its last reply ended.
CUTS = {"length": AnswerCutError.code, "content_filter": AnswerFilteredError.code}
#: Characters of a model's reasoning that the trace keeps for staff.
MOST_REASONING = 4_000
#: More characters than this make an answer.
SHORT = 50
#: The same sentence so often is a model that turns in circles.
_REPEATED = 3
#: A call that the model wrote into its text instead of asking for it.
_CALL_AS_TEXT = re.compile(r"</?(?:tool_call|function)\b|\"(?:tool_calls|function|arguments|parameters)\"\s*:")
_SENTENCE_END = re.compile(r"[.!?…]+\s+|\n+")

ReplyQuality = Literal["satisfactory", "too_short", "cut", "call_as_text", "repeated"]


async def offer_tools(turn: TurnInProgress, llm: LanguageModel | None) -> None:
    """Choose the tools of this turn; none where none fits, unless a round of the turn is unfinished."""
    request = turn.request
    if llm is None or not llm.supports_tools:
        return
    if not turn.config.tools_enabled and not request.is_resumed:
        return
    if turn.context.tools is None:
        turn.trace.step("tools", "dry_run")
        return
    ground, question = turn.context.tools, turn.question
    toolbox = await choose_tools(ground, turn.config, vector=question.vector, question=question.text)
    for text, vector in question.by_forms:
        again = await choose_tools(ground, turn.config, vector=vector, question=text)
        toolbox = toolbox.joined(again, limit=turn.config.tool_top_k)
    if not request.is_resumed:
        toolbox = toolbox.without(REFUSED)
    is_limited = turn.config.tool_mode == ToolMode.DIRECT and not toolbox.is_everything
    outcome = "limited" if is_limited and not request.is_resumed else "chosen"
    turn.trace.step("tools", outcome if toolbox.selected else "none", detail=toolbox.describe())
    turn.toolbox = toolbox if toolbox.selected or request.is_resumed else None


async def generate(turn: TurnInProgress, llm: LanguageModel) -> None:
    """Prompt and generation, in the tool loop where tools are offered. Raises `IsolationError`."""
    context, request, config = turn.context, turn.request, turn.config
    passages = [] if turn.by_tool else turn.found.passages(config.match_count)
    if passages:
        passages = await in_database(widened, without_twins(passages, config.match_count), config.match_count)
    told = context.summarised or context.history
    check_isolation(told, request.conversation_id)
    messages = build_prompt(
        config=config,
        history=told,
        passages=passages,
        question=turn.asked.question,
        conversation_id=request.conversation_id,
        has_tools=turn.toolbox is not None,
    )
    outcome = "summarised" if context.summarised else "built"
    turn.trace.step("prompt", outcome, detail=f"{len(messages)} messages, {len(passages)} passages")
    await turn.show(number_sources(passages))
    if turn.toolbox is None:
        await _stream(turn, llm, messages)
    else:
        await _use_tools(turn, llm, turn.toolbox, messages)
    answer = turn.answer
    turn.trace.step("generation", answer.model, detail=f"{answer.completion_tokens} tokens")


async def _use_tools(
    turn: TurnInProgress, llm: LanguageModel, toolbox: Toolbox, messages: Sequence[PromptMessage]
) -> None:
    """Generate in the bounded loop; where it ends without an answer, a sentence says why."""
    if not toolbox.is_everything and not turn.request.is_resumed:
        turn.result.chosen_tools = tuple(spec.name for spec in toolbox.specs)

    async def call_model(thread: Sequence[PromptMessage], tools: tuple[Mapping[str, Any], ...]) -> Reply:
        return await _stream(turn, llm, thread, tools)

    sees_images = llm.sees(turn.config.llm_model)
    loop = ToolLoop(turn, toolbox, messages, call_model, sees_images=sees_images)
    reason = await loop.run()
    answer = turn.answer
    turn.trace.step("tool_loop", reason.value, detail=f"{answer.rounds} / {loop.results} / {answer.efficiency:g} %")
    if reason is StopReason.ANSWERED and loop.reply is not None:
        length = len(loop.reply.text.strip())
        turn.trace.step("quality", judge_reply(loop.reply), detail=f"{length}")
    if reason in (StopReason.ROUND_LIMIT, StopReason.SATURATED):
        answer.source = AnswerSource.ROUND_LIMIT
        await turn.emit(Delta(answer.text))


async def _stream(
    turn: TurnInProgress,
    llm: LanguageModel,
    messages: Sequence[PromptMessage],
    tools: tuple[Mapping[str, Any], ...] = (),
) -> Reply:
    """Stream one reply of the model into the answer, without citations of sources that were not given."""
    config, answer, emit = turn.config, turn.answer, turn.emit
    answer.source, answer.model = AnswerSource.LLM, config.llm_model or llm.default_model
    answer.llm_calls += 1
    given = {source["n"] for source in answer.sources}
    citations = CitationFilter(given)
    options = GenerationOptions(
        model=config.llm_model, temperature=config.temperature, max_tokens=config.max_answer_tokens, tools=tools
    )
    reply = Reply(text="", model=answer.model)
    answer.text, reasons = "", False

    async def send(text: str) -> None:
        if text:
            answer.text += text
            await emit(Delta(text))

    async def tell_reasoning(status: ToolStatus) -> None:
        await emit(Tool(REASONING, answer.model, status, relance_index=answer.rounds))

    try:
        async with aclosing(llm.stream(messages, options)) as stream:
            async for chunk in stream:
                if chunk.starts_over and answer.text:
                    citations = CitationFilter(given)
                    await turn.forget_text()
                if chunk.is_reasoning and not reasons:
                    await tell_reasoning("running")
                    reasons = True
                if reasons and chunk.text:
                    await tell_reasoning("done")
                    reasons = False
                await send(citations.feed(chunk.text))
                if chunk.final is not None:
                    reply = chunk.final
                    answer.model = reply.model
                    answer.prompt_tokens += reply.usage.prompt_tokens
                    answer.completion_tokens += reply.usage.completion_tokens
    finally:
        await send(citations.flush())
        if reasons:
            await tell_reasoning("done")
    if reply.reasoning:
        turn.trace.step("reasoning", answer.model, detail=reply.reasoning[:MOST_REASONING])
    answer.cut = "" if reply.tool_calls else CUTS.get(reply.finish_reason, "")
    return reply


def judge_reply(reply: Reply) -> ReplyQuality:
    """Judge a reply by the first stopping criterion of seed 002, section I: « Contenu > 50 caractères et cohérent ».

    Returns the first defect, or that there is none. The verdict is shown to staff and decides nothing: a reply without
    tool calls ends the loop whatever its quality, and one with tool calls goes on (a model may announce its calls in
    whole sentences).
    """
    text = reply.text.strip()
    if len(text) <= SHORT:
        return "too_short"
    if reply.finish_reason == "length":
        return "cut"
    if _CALL_AS_TEXT.search(text):
        return "call_as_text"
    sentences = Counter(part for part in _SENTENCE_END.split(f"{fold(text)} ") if len(part) > SHORT // 2)
    if max(sentences.values(), default=0) >= _REPEATED:
        return "repeated"
    return "satisfactory"
