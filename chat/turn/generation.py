"""The last steps of the path: the best passages quoted where no model writes, or the model's answer as it streams, with
the tools that it may use, and its check.

`defect` names what makes an answer worse than the quotation of its passages, which then takes its place. `unsupported`
finds statements whose numbers no passage holds that they cite. What fails either is never learned.
"""

import asyncio
import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from agents.database import in_database
from agents.errors import LLMContextError, LLMError, LLMResponseError, LLMTimeoutError
from agents.llm.base import GenerationOptions, LanguageModel, PromptMessage, Reply, StreamChunk
from agents.settings import ToolMode
from chat.errors import AnswerCutError, AnswerFilteredError, AnswerReplacedError, NumberUnsupportedError
from chat.models import AnswerSource, StopReason
from chat.protocol import REASONING, Delta, Tool
from chat.rendering import CitationFilter
from chat.thread.messages import check_isolation
from chat.turn.prompt import build_prompt, fitted, number_sources
from chat.turn.quoting import (
    EXTRACTIVE_PASSAGES,
    in_language_first,
    quoted_text,
    widened,
    without_repeats,
    without_twins,
)
from chat.turn.tool_loop import ToolLoop, choose_tools
from chat.turn.values import Exchange, Toolbox, TurnInProgress
from faqs.learning import is_refusal
from faqs.second_key.reading import names
from knowledge.language.numbers import values_in
from knowledge.language.words import (
    LANGUAGES,
    content_stems,
    fold,
    is_foreign,
    language_of,
    passage_language,
    same_writing,
    turns_in_circles,
    word_class,
    words,
)
from knowledge.search import Passage
from tools_registry.tool import calls_in, is_call


async def quote_passages(turn: TurnInProgress, *, instead: str = "") -> bool:
    """Quote the best passages inside the guard rail, if any; `instead` of an answer: the code of the notice why."""
    inside = turn.found.in_domain(turn.thresholds)
    if not inside.hits:
        return False
    nearest = in_language_first(inside.passages(len(inside.hits)), turn.result.language)
    nearest = without_twins(nearest, 2 * EXTRACTIVE_PASSAGES)
    passages = await in_database(widened, nearest, EXTRACTIVE_PASSAGES)
    answer = turn.answer
    if answer.text:
        await turn.forget_text()
    answer.source, answer.score, answer.cut = AnswerSource.EXTRACTIVE, passages[0].score, instead
    outcome = "instead" if instead else "quoted"
    turn.trace.step("extractive", outcome, score=answer.score, detail=f"{len(passages)} passages")
    await turn.show(number_sources(passages))
    await turn.say(quoted_text(passages, turn.asked.text))
    return True


# The check: pure, by the form of the text

CITATION = re.compile(r"[ \t\u00a0]*\[(\d{1,3})\]")
#: So an answer begins that may turn out to be a call or a bare number: readers wait for more of it.
UNDECIDED = re.compile(r"\A\s*(?:\{|<|\[\s*\{|```(?:json)?\s*(?:[\[{]|\Z)|[\W\d_]{0,40}\Z)")
SENTENCE = re.compile(r"(?<=[.!?…])(?:[»\"”)]|[ ]?\[\d+\])*\s+|\n+")
#: Citations behind a full stop: they belong to the sentence before it.
_BEHIND = re.compile(r"([.!?…])((?:[ \u00a0]?\[\d+\])+)(?=\s*(?:\Z|\n|[A-ZÀ-Ý]))")
_CLAUSE = re.compile(rf"{SENTENCE.pattern}|;\s")
_SENTENCE_END = re.compile(r"[.!?…:](?:\s|[»\"”)*]|\[\d|\Z)|\n")
_MARKER = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+", re.MULTILINE)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_YES_NO = re.compile(r"\A\W*(?:oui|non|si|yes|no)\b", re.IGNORECASE)
#: Shorter answers may well be said twice in a row.
_WORTH_REPEATING = 80
#: The share of a question's words that a cited passage holds at least where it is about the same subject.
_SAME_SUBJECT = 0.6
#: The share of a statement's words that a passage holds at least which says it, and the words that make a statement.
_SAID, _STATEMENT = 2 / 3, 3


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer is checked against."""

    question: str
    #: The language of the answer, and whether the question itself is sure to be in it.
    language: str
    is_sure: bool
    sources: Sequence[Mapping[str, Any]]
    previous_question: str = ""
    previous_answer: str = ""
    #: `strict_answers`: also an answer of few words has them from what it cites.
    is_strict: bool = False
    #: What is asked, as it was read: without greeting and story, and with the other form of its acronyms.
    readings: Sequence[str] = ()


#: What is shown to nobody, also where nothing can be quoted in its place.
UNUSABLE = ("empty", "only_number", "only_header", "loop", "call_as_text")


def defect(reply: Reply, text: str, asked: Asked, *, by_tool: bool = False) -> str:
    """The first defect of an answer (`text`: as shown), or an empty string; a tool's may be a number, and cites nothing."""
    plain = CITATION.sub("", text).strip()
    if not any(map(str.isalpha, plain)) and not (by_tool and any(map(str.isdigit, plain))):
        return "only_number" if any(map(str.isdigit, text)) else "empty"
    if is_call(text):
        return "call_as_text"
    if reply.finish_reason in ("length", "content_filter") and not has_sentence(text):
        return "cut"
    if _is_header(text, asked.sources):
        return "only_header"
    if same_writing(plain, asked.question) or (not by_tool and _only_restates(text, asked)):
        return "echo"
    is_again = len(plain) >= _WORTH_REPEATING and same_writing(plain, CITATION.sub("", asked.previous_answer))
    if is_again and not same_writing(asked.question, asked.previous_question):
        return "repeated"
    prose = words(fold(_CODE.sub(" ", plain)))
    if turns_in_circles(prose):
        return "loop"
    if is_foreign(plain, asked.question, asked.language, is_sure=asked.is_sure):
        return "language"
    return "unvouched" if not by_tool and _is_unvouched(text, asked) else ""


def attributed(text: str, asked: Asked) -> str:
    """Add `[n]` to each statement without one that a passage says: most words, all numbers, negated as it is there.

    Refusals, code, headings, tables, lines that announce or ask, and those that begin with a citation stay.
    """
    if "```" in text or is_refusal(text):
        return text
    texts = [(each["n"], str(each["text"])) for each in asked.sources]
    given = [(number, content_stems(each), values_in(each), _clauses(each)) for number, each in texts]
    return "\n".join(_attributed_line(line, given) for line in text.split("\n"))


def _attributed_line(line: str, given: Sequence[tuple[int, set[str], frozenset[float], Any]]) -> str:
    marker = (_MARKER.match(line) or [""])[0]
    said = line[len(marker) :]
    if said.lstrip()[:1] in ("#", "|") or said.rstrip(" *_").endswith((":", "?")) or CITATION.match(said):
        return line
    pieces = re.split(f"({SENTENCE.pattern})", _BEHIND.sub(r"\2\1", said))
    for at, piece in enumerate(pieces):
        stems, values = content_stems(piece), values_in(piece, digits_only=True)
        if not stems or cited(piece) or not any(map(str.isalpha, piece)):
            continue
        least = _SAID * len(stems) if len(stems) >= _STATEMENT else len(stems)
        says = {}
        for number, held, numbers, clauses in given:
            _nearest, is_negated = max(clauses, key=lambda clause: len(stems & clause[0]))
            if len(stems & held) >= least and values <= numbers and is_negated == _has_negation(piece):
                says[number] = len(stems & held)
        if says:
            bare = piece.rstrip(" .!?…*_")
            pieces[at] = f"{bare} [{max(says, key=lambda n: (says[n], -n))}]{piece[len(bare) :]}"
    return marker + "".join(pieces)


def _clauses(text: str) -> list[tuple[set[str], bool]]:
    """The words of each clause, and whether it is negated."""
    return [(content_stems(each), _has_negation(each)) for each in _CLAUSE.split(text)]


def _only_restates(text: str, asked: Asked) -> bool:
    """Whether an answer says no more than its question, in words that no clause of what it cites confirms."""
    stems, question = content_stems(CITATION.sub("", _YES_NO.sub("", text))), content_stems(asked.question)
    if not stems or not stems <= question:
        return False
    said = [clause for each in _cited_passages(text, asked) for clause in _clauses(str(each["text"]))]
    return not any(len(stems & own) >= _SAID * len(stems) and negated == _has_negation(text) for own, negated in said)


def _has_negation(text: str) -> bool:
    return not word_class("negations").isdisjoint(words(fold(text)))


def _cited_passages(text: str, asked: Asked) -> list[Mapping[str, Any]]:
    """The passages that an answer cites; where it cites none, all that it was given."""
    numbers = cited(text)
    return [each for each in asked.sources if not numbers or each["n"] in numbers]


def _whole(source: Mapping[str, Any]) -> str:
    return f"{source['title']}\n{source.get('question', '')}\n{source['text']}"


def _is_unvouched(text: str, asked: Asked) -> bool:
    """Whether an answer is the model's own word: no passage has a name of the question, or those that the answer cites
    have less than half of the words that it adds to the question, or of all its few words and are about another subject.

    Code, and a sentence that the answer is not there, need no passage. Passages of another language are not compared.
    """
    passages = [each for each in _cited_passages(text, asked) if passage_language(each["text"]) in ("", asked.language)]
    said = " ".join(each for each in SENTENCE.split(_CODE.sub(" ", _YES_NO.sub("", text))) if not is_refusal(each))
    if not passages or not (said.strip() or _YES_NO.match(text)):
        return False
    stems = content_stems(CITATION.sub("", said))
    if is_refusal(text) and len(stems) < _STATEMENT:
        return False
    held = content_stems("\n".join([*map(_whole, passages), asked.previous_question, asked.previous_answer]))
    added = stems - content_stems(asked.question)
    least = 0 if asked.is_strict else _STATEMENT
    if len(added) >= least and (not stems or 2 * len(added & held) < len(added)):
        return True
    if 2 * len(stems & held) < max(1, len(stems)) and (not cited(text) or is_of_another_subject(text, asked)):
        return True
    given = content_stems("\n".join([*map(_whole, asked.sources), asked.previous_question, asked.previous_answer]))
    return not any(content_stems(" ".join(names(each))) <= given for each in asked.readings or [asked.question])


def has_sentence(text: str) -> bool:
    """Whether a text has come to the end of a sentence or of a line."""
    return _SENTENCE_END.search(text.strip()) is not None


def _is_header(text: str, sources: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the answer is made of the lines that head passages in the prompt, and of no more."""
    if not re.search(r"\A\W*(?:\[\d|source \d)|\[(?:source )?\d+\] - ", fold(text)):
        return False
    said = words(fold(re.sub(r"(?i)\[[^\]]*\]|\bsources?\s+\d+", " ", text)))
    titles = {word for each in sources for word in words(fold(str(each["title"])))}
    return set(said) - word_class("stop_words") <= titles


def cited(text: str) -> set[int]:
    return {int(number) for number in CITATION.findall(_CODE.sub("", text))}


def unsupported(text: str, asked: Asked) -> list[str]:
    """The statements with a number that is in no passage they cite, nor in the question; without a citation, in none."""
    held = {each["n"]: values_in(_whole(each)) for each in asked.sources}
    known = values_in(f"{asked.question}\n{asked.previous_answer}")
    found = []
    for sentence in SENTENCE.split(_CODE.sub(" ", _MARKER.sub("", text))):
        values = values_in(CITATION.sub("", sentence), digits_only=True) - known
        numbers = cited(sentence) & held.keys() or held.keys()
        if values and not values <= set().union(*(held[number] for number in numbers)):
            found.append(sentence.strip())
    return found


def is_of_another_subject(text: str, asked: Asked) -> bool:
    """Whether the passages that an answer cites lack the names, numbers or most words of its question, however read."""
    numbers = cited(text)
    have = content_stems("\n".join(_whole(each) for each in asked.sources if each["n"] in numbers))
    for question in asked.readings or [asked.question]:
        named = content_stems(" ".join([*names(question), *re.findall(r"\b\w*\d\w*\b", question)]))
        telling = content_stems(question)
        if named <= have and len(telling & have) >= _SAME_SUBJECT * len(telling):
            return False
    return True


# The model's answer

#: The notice of an answer, by how its last reply ended.
CUTS = {"length": AnswerCutError.code, "content_filter": AnswerFilteredError.code}
#: Characters of a model's reasoning that the trace keeps for staff.
MOST_REASONING = 4_000
#: Characters of a token, before any was measured and at most; what usage measured by model, the least so far.
LEAST_PER_TOKEN, CHARACTERS_PER_TOKEN, MOST_PER_TOKEN = 1.5, 2.8, 4.5
_measured: dict[str, float] = {}
#: The share of a window that is never filled; tokens of an answer, and characters of passages, that it has room for.
_MARGIN, _LEAST_ANSWER, _LEAST_GROUND = 0.05, 256, 1_500


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
    is_limited = turn.config.tool_mode == ToolMode.DIRECT and not toolbox.is_everything
    outcome = "limited" if is_limited and not request.is_resumed else "chosen"
    turn.trace.step("tools", outcome if toolbox.selected else "none", detail=toolbox.describe())
    turn.toolbox = toolbox if toolbox.selected or request.is_resumed else None


async def generate(turn: TurnInProgress, llm: LanguageModel) -> None:
    """The model's answer, checked, or the quotation. Raises `IsolationError`, and errors of the model after a sentence."""
    check_isolation(turn.context.summarised or turn.context.history, turn.request.conversation_id)
    config, passages = turn.config, list[Passage]()
    if turn.found.hits and not turn.by_tool:
        nearest = without_twins(turn.found.passages(len(turn.found.hits)), 2 * config.match_count)
        passages = without_repeats(await in_database(widened, nearest, config.match_count))
    writing = _Writing(turn, llm, passages)
    try:
        try:
            await writing.write(await llm.window(config.llm_model) or config.context_tokens or None)
        except LLMContextError as error:
            if turn.answer.text:
                await turn.forget_text()
            await writing.write(error.window or writing.tokens // 2, again=True)
    except LLMError as error:
        is_said = has_sentence(turn.answer.text) or turn.answer.rounds
        if is_said or not await quote_passages(turn, instead=error.code):
            raise
        turn.answer.defect, turn.result.model_error = error.code, error
        turn.trace.step("check", "failed", detail=error.code)
        return
    if turn.answer.source == AnswerSource.LLM:
        await _check(turn, writing)


async def _check(turn: TurnInProgress, writing: "_Writing") -> None:
    """Put the quotation in the place of an answer that has a defect; mark the numbers that no cited passage holds."""
    answer, asked = turn.answer, writing.asked(turn.answer.sources)
    if answer.stop_reason not in ("", StopReason.ANSWERED):
        return
    written = answer.text
    if not answer.rounds:
        # Readers are given the numbers with the end of the answer: what was streamed stays.
        answer.text = attributed(written, asked)
    # Citations that were added to those of the model vouch for nothing.
    checked = written if cited(written) else answer.text
    answer.defect = defect(writing.reply, checked, asked, by_tool=bool(answer.rounds))
    is_elsewhere = is_of_another_subject(answer.text, asked)
    if is_elsewhere and asked.is_strict and not (answer.rounds or is_refusal(answer.text)):
        answer.defect = answer.defect or "other_subject"
    if answer.defect:
        turn.trace.step("check", answer.defect, detail=answer.text[:MOST_REASONING])
        if not await quote_passages(turn, instead=AnswerReplacedError.code) and answer.defect in UNUSABLE:
            await turn.forget_text()
            raise LLMResponseError(f"The model's answer is of no use ({answer.defect}).")
        return
    if answer.rounds and not cited(answer.text):
        await turn.show([])
        turn.trace.step("check", "by_tool")
        return
    lines = [] if answer.rounds else unsupported(answer.text, asked)
    outcome = "unsupported" if lines else "other_subject" if is_elsewhere else "sound"
    answer.defect = "" if outcome == "sound" else outcome
    if lines:
        answer.cut = answer.cut or NumberUnsupportedError.code
    turn.trace.step("check", outcome, detail="\n".join(lines))


class _Writing:
    """The model's answer to one question: its prompt, as long as the window allows, and its replies."""

    def __init__(self, turn: TurnInProgress, llm: LanguageModel, passages: list[Passage]) -> None:
        self.turn, self.llm, self.passages = turn, llm, passages
        self.model = turn.config.llm_model or llm.default_model
        self.language = turn.result.language if turn.result.language in LANGUAGES else LANGUAGES[0]
        self.is_sure = bool(language_of(turn.asked.question, least=2))
        self.reply = Reply(text="", model="")
        self.tokens = 0
        self.share = turn.config.max_answer_tokens

    def asked(self, sources: Sequence[Mapping[str, Any]]) -> Asked:
        turn = self.turn
        last = turn.history[-1] if turn.history else None
        before = (last.question, last.told) if last else ("", "")
        readings = [turn.asked.text, *(text for text, _ in (*turn.question.others, *turn.question.by_forms))]
        is_strict = turn.config.strict_answers
        return Asked(turn.asked.question, self.language, self.is_sure, sources, *before, is_strict, readings)

    async def write(self, window: int | None, *, again: bool = False) -> None:
        turn, context, toolbox = self.turn, self.turn.context, self.turn.toolbox
        told = context.summarised or context.history
        functions = "" if toolbox is None else json.dumps([spec.as_function() for spec in toolbox.specs])
        fixed = len(functions) + sum(len(message.content) for message in self._prompt([], []))
        room = None if window is None else self._room(window * 4 // 5 if again else window, fixed)
        history, passages = fitted(told, self.passages, turn.asked.text, room)
        messages = self._prompt(history, passages)
        characters = len(functions) + sum(len(message.content) for message in messages)
        self.tokens = round(characters / self._ratio)
        outcome = "summarised" if context.summarised else "built"
        if again or len(history) < len(told) or len(passages) < len(self.passages):
            outcome = "shortened"
        detail = f"{len(messages)} messages, {len(passages)} passages, ≈ {self.tokens} tokens"
        turn.trace.step("prompt", outcome, detail=detail)
        await turn.show(number_sources(passages))
        if toolbox is None:
            await self.stream(messages)
        else:
            await self._use_tools(toolbox, messages, room)
        turn.trace.step("generation", turn.answer.model, detail=f"{turn.answer.completion_tokens} tokens")

    def _prompt(self, history: Sequence[Exchange], passages: Sequence[Passage]) -> list[PromptMessage]:
        return build_prompt(
            config=self.turn.config,
            history=history,
            passages=passages,
            question=self.turn.asked.question,
            language=self.language,
            conversation_id=self.turn.request.conversation_id,
            has_tools=self.turn.toolbox is not None,
        )

    @property
    def _ratio(self) -> float:
        return _measured.get(self.model, CHARACTERS_PER_TOKEN)

    def _room(self, window: int, fixed: int) -> int:
        """The characters of exchanges and passages that fit in the window, beside all else and the answer's share."""
        whole = int(window * (1 - _MARGIN))
        self.share = min(self.share, max(_LEAST_ANSWER, whole // 4))
        room = int((whole - self.share) * self._ratio) - fixed
        if (missing := _LEAST_GROUND - room) > 0:
            given = min(self.share - _LEAST_ANSWER, round(missing / self._ratio))
            self.share, room = self.share - max(0, given), room + round(max(0, given) * self._ratio)
        return max(0, room)

    async def _use_tools(self, toolbox: Toolbox, messages: Sequence[PromptMessage], room: int | None) -> None:
        """Generate in the bounded loop; where it ends without an answer, a sentence says why."""
        turn = self.turn
        if not toolbox.is_everything and not turn.request.is_resumed:
            turn.result.chosen_tools = tuple(spec.name for spec in toolbox.specs)
        loop = ToolLoop(turn, toolbox, messages, self.ask, room)
        reason = await loop.run()
        answer = turn.answer
        turn.trace.step("tool_loop", reason.value, detail=f"{answer.rounds} / {loop.results} / {answer.efficiency:g} %")
        if reason in (StopReason.ROUND_LIMIT, StopReason.SATURATED):
            answer.source = AnswerSource.ROUND_LIMIT
            await turn.emit(Delta(answer.text))

    async def ask(self, thread: Sequence[PromptMessage], tools: tuple[Mapping[str, Any], ...]) -> Reply:
        """Return one reply. A call written as text counts; one of no tool makes the model reply anew, without tools."""
        reply = await self.stream(thread, tools)
        if reply.tool_calls or not tools or not is_call(reply.text):
            return reply
        calls = calls_in(reply.text, [tool["function"]["name"] for tool in tools])
        self.turn.trace.step("tools", "from_text" if calls else "not_in_text", detail=reply.text[:MOST_REASONING])
        await self.turn.forget_text()
        if calls:
            return replace(reply, text="", tool_calls=tuple(calls))
        return await self.stream(thread)

    async def stream(self, messages: Sequence[PromptMessage], tools: tuple[Mapping[str, Any], ...] = ()) -> Reply:
        """Stream one reply of the model into the answer, its citations made one form."""
        turn, config, answer = self.turn, self.turn.config, self.turn.answer
        answer.source, answer.model, answer.text = AnswerSource.LLM, self.model, ""
        answer.llm_calls += 1
        given = {source["n"] for source in answer.sources}
        options = GenerationOptions(config.llm_model, config.temperature, self.share, tools=tools)
        out = _Outlet(turn, given)
        self.reply = Reply(text="", model=answer.model)
        try:
            async with (
                asyncio.timeout(settings.LLM_FIRST_TOKEN_SECONDS) as first,
                aclosing(self.llm.stream(messages, options)) as stream,
            ):
                async for chunk in stream:
                    first.reschedule(None)
                    await out.take(chunk)
                    if chunk.final is not None:
                        self.reply = chunk.final
        except TimeoutError as error:
            if not first.expired():
                raise
            raise LLMTimeoutError("The model's first token did not come in time.") from error
        finally:
            await out.close()
        reply = self.reply
        answer.model = reply.model
        answer.prompt_tokens += reply.usage.prompt_tokens
        answer.completion_tokens += reply.usage.completion_tokens
        # A server that counts oddly shortens no prompt to nothing.
        if reply.usage.prompt_tokens > 100:
            calls = sum(len(call.arguments) for message in messages for call in message.tool_calls)
            characters = len(json.dumps(tools)) + calls + sum(len(message.content) for message in messages)
            ratio = max(LEAST_PER_TOKEN, characters / reply.usage.prompt_tokens)
            _measured[self.model] = min(_measured.get(self.model, MOST_PER_TOKEN), ratio)
        if reply.reasoning:
            turn.trace.step("reasoning", answer.model, detail=reply.reasoning[:MOST_REASONING])
        answer.cut = "" if reply.tool_calls else CUTS.get(reply.finish_reason, "")
        return reply


class _Outlet:
    """Sends one reply to readers as it comes: that the model reasons, and text once it is surely not a tool call."""

    def __init__(self, turn: TurnInProgress, given: Collection[int]) -> None:
        self._turn, self._given = turn, given
        self._citations = CitationFilter(given)
        self._held = ""
        self._reasons = False

    async def take(self, chunk: StreamChunk) -> None:
        if chunk.starts_over:
            self._citations, self._held = CitationFilter(self._given), ""
            if self._turn.answer.text:
                await self._turn.forget_text()
        if chunk.is_reasoning or (self._reasons and chunk.text):
            await self._tell_reasoning(chunk.is_reasoning)
        await self._send(self._citations.feed(chunk.text))

    async def close(self) -> None:
        if self._reasons:
            await self._tell_reasoning(False)
        await self._send(self._citations.flush(), is_last=True)

    async def _send(self, text: str, *, is_last: bool = False) -> None:
        text = self._held + text
        answer, self._held = self._turn.answer, ""
        if not answer.text and not is_last and UNDECIDED.match(text):
            self._held = text
        elif text:
            answer.text += text
            if not (is_last and is_call(answer.text)):
                await self._turn.emit(Delta(text))

    async def _tell_reasoning(self, now: bool) -> None:
        if now != self._reasons:
            self._reasons = now
            answer = self._turn.answer
            await self._turn.emit(
                Tool(REASONING, answer.model, "running" if now else "done", relance_index=answer.rounds)
            )
