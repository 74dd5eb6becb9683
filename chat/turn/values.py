"""The values along the path of a question; a step takes one `TurnInProgress` and fills its part of it."""

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils import timezone

from agents.effective import EffectiveConfig
from agents.errors import ApplicationError
from agents.llm.base import PromptMessage
from chat.models import Conversation, Message, TurnStatus, told
from chat.protocol import Delta, Event, Restart, Source, Sources
from chat.thread.turns import ClaimedTurn
from faqs.learning import Learned
from faqs.precedence import LearnedRecall
from faqs.recall import MemoryMark, Scope
from faqs.unanswered import Unanswered
from knowledge.acronyms import NO_FORMS, Forms
from knowledge.embeddings.base import Recipe, Vectors
from knowledge.language.typed import TypedQuestion
from knowledge.search import SearchResult, Thresholds, thresholds_for
from tools_registry.catalog import ToolList
from tools_registry.selection import EXACT, SelectedTool, SelectionReason
from tools_registry.tool import ToolSpec

#: The model name of a direct answer (seed 001, section 5.1.2).
DIRECT_MODEL = "direct_qr_match"


@dataclass(slots=True)
class Trace:
    """The trace of a turn: its steps in order; each `step` records the time since the one before."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    _last: float = field(default_factory=time.perf_counter)

    def step(
        self,
        step: str,
        outcome: str,
        *,
        score: float | None = None,
        threshold: float | None = None,
        detail: str = "",
        refused: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Add a step. `refused`: similar stored answers that were refused (`faqs.recall.stored_refusal`)."""
        now = time.perf_counter()
        line: dict[str, Any] = {
            "step": step,
            "outcome": outcome,
            "score": None if score is None else round(score, 4),
            "threshold": threshold,
            "ms": round((now - self._last) * 1000, 2),
            "detail": detail,
        }
        if refused:
            line["refused"] = list(refused)
        self.lines.append(line)
        self._last = now

    def came_to(self, step: str, outcome: str, *, detail: str, entry: int | None) -> None:
        """Record the outcome of a step that was planned, once the turn is saved."""
        for line in self.lines:
            if line["step"] == step:
                line.update(outcome=outcome, detail=detail, entry=entry)

    def shows(self, text: str) -> None:
        """Have the last step tell the reader this reading of the question (`shown_reading`)."""
        self.lines[-1]["shown"] = text

    def gave(self, entry: int) -> None:
        """Record the memory's entry that the last step gave."""
        self.lines[-1]["entry"] = entry


def shown_reading(lines: Sequence[Mapping[str, Any]]) -> str:
    """How the reader is told that the question was read, the last word of the steps; empty where it was read as typed."""
    return next((str(line["shown"]) for line in reversed(lines) if line.get("shown")), "")


Emit = Callable[[Event], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer, with the conversation that both belong to, and their turn where they are stored."""

    conversation_id: uuid.UUID
    question: str
    answer: str
    turn_id: uuid.UUID | None = None
    #: What a person of the staff answered beside it.
    person: str = ""

    @classmethod
    def of(cls, question: Message, answer: Message) -> "Exchange":
        person = getattr(answer, "person", None) or ""
        return cls(question.conversation_id, question.content, answer.content, question.turn_id, person)

    @property
    def told(self) -> str:
        return told(self.answer, self.person)

    def as_prompt(self) -> list[PromptMessage]:
        owner = self.conversation_id
        return [
            PromptMessage("user", self.question, conversation_id=owner),
            PromptMessage("assistant", self.told, conversation_id=owner),
        ]


@dataclass(frozen=True, slots=True)
class GivenContext:
    """What a client that keeps its thread itself said came before: never searched, learned from or shown to others."""

    history: tuple[Exchange, ...]
    previous: str

    @classmethod
    def of(cls, conversation: Conversation) -> "GivenContext | None":
        """`None` for a conversation whose thread is stored here."""
        stored = conversation.client_thread
        if stored is None:
            return None
        history = (Exchange(conversation.pk, *exchange) for exchange in stored["exchanges"])
        return cls(tuple(history), stored["previous"])


@dataclass(frozen=True, slots=True)
class ToolGround:
    """What the choice starts from: the tools that the user may use, those that the conversation used last, and, where
    the turn goes on after a pause, the names of those it had."""

    candidates: ToolList
    user_id: int | None
    recent: Sequence[str] = ()
    kept: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a turn, chosen once, and for whom they run."""

    selected: tuple[SelectedTool, ...]
    user_id: int | None
    has_threshold: bool = False
    #: Whether all that the user may use is offered.
    is_everything: bool = False
    #: The turn goes on after a pause: it has passed the guard rail, and its round is to be finished.
    is_resumed: bool = False

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.selected)

    @property
    def fits_the_question(self) -> bool:
        """Whether a tool was found for this question, at or above its threshold: the guard rail asks.

        Without a threshold (none was measured for the embedding model) a tool is only the nearest there is, unless the
        question is one of its phrasings.
        """
        found = [tool for tool in self.selected if tool.reason is SelectionReason.SIMILAR]
        return self.is_resumed or any(self.has_threshold or tool.score == EXACT for tool in found)

    def describe(self) -> str:
        """The tools in words, for staff, in the trace."""
        return ", ".join(
            tool.spec.name if tool.score is None else f"{tool.spec.name} ({tool.score:.3f})" for tool in self.selected
        )


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The context of a turn, read in one database step."""

    config: EffectiveConfig
    #: The finished exchanges that the prompt gets, oldest first.
    history: Sequence[Exchange]
    previous: str
    #: Where the memory stands; `None`: it is empty or switched off.
    mark: MemoryMark | None
    #: What tools are chosen from; `None`: there are none.
    tools: ToolGround | None
    #: The exchanges with a summary in the place of the old ones; empty: there is none, or staff want none.
    summarised: Sequence[Exchange] = ()
    forms: Forms = NO_FORMS


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A question to a deployment. `turn_id` is the claimed turn; `None` is a dry run, which stores nothing."""

    deployment_id: int
    question: str
    language: str
    turn_id: uuid.UUID | None = None
    conversation_id: uuid.UUID | None = None
    #: Who asks; `None` for a visitor.
    user_id: int | None = None
    #: Of the conversation, where it names them: the memory's scope.
    phase: str = ""
    project: str = ""
    is_first: bool = False
    #: The turn waited for a person's approval, and goes on with the round that it planned.
    is_resumed: bool = False
    #: Where whoever claimed the turn has read it in the same step.
    context: TurnContext | None = None
    #: The reader wants it looked up as it was typed: no reading of its faults, and no other form of its acronyms.
    as_typed: bool = False
    #: How often the turn was begun again.
    run: int = 0
    #: What a client that keeps its own thread said came before, in place of the stored one.
    given: GivenContext | None = None
    #: Settings in the place of the deployment's, for a try (`chat.staff.simulator`).
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: Answered from what is stored, or not at all: the path ends where a model would be asked.
    without_model: bool = False

    @classmethod
    def of(
        cls, conversation: Conversation, question: str, language: str, claimed: ClaimedTurn | None = None
    ) -> "TurnRequest":
        """A question in a conversation; without a claimed turn it is a dry run."""
        return cls(
            deployment_id=conversation.deployment_id,
            question=question,
            language=language,
            turn_id=claimed.turn.pk if claimed else None,
            conversation_id=conversation.pk,
            user_id=conversation.user_id,
            phase=conversation.phase,
            project=conversation.project,
            is_first=claimed.is_first if claimed else False,
            run=claimed.turn.run if claimed else 0,
            given=GivenContext.of(conversation),
        )

    @property
    def is_dry_run(self) -> bool:
        return self.turn_id is None


@dataclass(frozen=True, slots=True)
class StandaloneQuestion:
    """`text` is embedded and searched, `question` was typed; `is_follow_up` bars stored answers; `rule` says why."""

    text: str
    is_follow_up: bool
    rule: str = ""
    question: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """The question as it is looked up: its words, their one vector, and the scope that the memory keeps to.

    `others` are further readings of it with their vectors: searched beside it, and no key to a stored answer.
    """

    asked: StandaloneQuestion
    vector: Vectors
    recipe: Recipe
    scope: Scope | None
    others: tuple[tuple[str, Vectors], ...] = ()
    #: The question with the other form of its acronyms and synonyms: as good as the question, for the second key too.
    by_forms: tuple[tuple[str, Vectors], ...] = ()

    @property
    def text(self) -> str:
        return self.asked.text


@dataclass(slots=True)
class Answer:
    """An answer in the making: filled by the path of a question, saved whole at its end."""

    text: str = ""
    source: str = ""
    model: str = ""
    score: float | None = None
    best_score: float | None = None
    sources: list[dict[str, Any]] = field(default_factory=list)
    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    #: The validated answer that was given, counted once the exchange is saved.
    learned_id: int | None = None
    rounds: int = 0
    efficiency: float = 100.0
    stop_reason: str = ""
    #: Why the text stops before its end, where the model's server ended it: the code of its notice.
    cut: str = ""
    #: What the check found wrong with it (`chat.turn.generation`), or the model's error: it is not learned.
    defect: str = ""
    #: A round is planned and not in the thread yet.
    has_open_round: bool = False
    is_personal: bool = False
    used_tools: bool = False
    answered_by: str = ""
    had_history: bool = False
    had_tool_results: bool = False


#: What an answer and the row of its turn call alike.
_ANSWER_COLUMNS = (
    *("model", "score", "best_score", "llm_calls", "prompt_tokens", "completion_tokens"),
    *("rounds", "efficiency", "stop_reason", "is_personal", "answered_by"),
)


@dataclass(slots=True)
class TurnResult:
    """The result of a turn: what is saved, and what `ask --json` prints."""

    answer: Answer = field(default_factory=Answer)
    trace: Trace = field(default_factory=Trace)
    status: TurnStatus = TurnStatus.DONE
    error: ApplicationError | None = None
    model_error: ApplicationError | None = None
    language: str = ""
    #: What the answer teaches once it is out (`chat.runs.afterwards`): the memory its lesson, ...
    learning: Callable[[], Learned] | None = None
    #: ... the question, when nothing stored met it well, ...
    unanswered: Unanswered | None = None
    #: ... and the tools that were chosen for it, where not all are offered anyway.
    chosen_tools: tuple[str, ...] = ()

    def columns(self) -> dict[str, object]:
        """The columns of the turn's row for its answer."""
        columns = {name: getattr(self.answer, name) for name in _ANSWER_COLUMNS}
        return {
            **columns,
            "answer_source": self.answer.source,
            "trace": self.trace.lines,
            "error_code": self.error.code if self.error else self.answer.cut,
        }


@dataclass(slots=True)
class TurnInProgress:
    """A question on its way. Steps leave their findings here for later steps."""

    request: TurnRequest
    emit: Emit
    result: TurnResult = field(default_factory=TurnResult)
    started_at: datetime = field(default_factory=timezone.now)
    #: Set by `receive`; with several agents, `dispatch_and_search` puts the settings of the one that answers in it.
    context: TurnContext = field(init=False)
    #: Set by `read_question`.
    read: TypedQuestion = field(init=False)
    #: Set by `embed_question`.
    question: Question = field(init=False)
    #: Set by `dispatch_and_search`: what the index holds, validated answers first.
    learned: LearnedRecall = field(init=False)
    is_searched: bool = False
    #: Set by `offer_tools`; `None`: the turn may use none.
    toolbox: Toolbox | None = None
    #: Set by the guard rail: no passage is near enough, but a tool was found for the question.
    by_tool: bool = False

    @property
    def config(self) -> EffectiveConfig:
        return self.context.config

    @property
    def history(self) -> Sequence[Exchange]:
        return self.context.history

    @property
    def found(self) -> SearchResult:
        return self.learned.result

    @property
    def asked(self) -> StandaloneQuestion:
        return self.question.asked

    @property
    def answer(self) -> Answer:
        return self.result.answer

    @property
    def trace(self) -> Trace:
        return self.result.trace

    @property
    def thresholds(self) -> Thresholds:
        return thresholds_for(self.config, model=self.question.recipe.model)

    async def show(self, sources: Sequence[Source]) -> None:
        """Send the reader the sources of the answer, before its text."""
        await self.show_stored([source.as_json() for source in sources])

    async def show_stored(self, sources: list[dict[str, Any]]) -> None:
        self.answer.sources = sources
        await self.emit(Sources(sources))

    async def forget_text(self) -> None:
        """Have readers forget the text that came so far, and begin it anew."""
        self.answer.text = ""
        await self.emit(Restart())

    async def say(self, text: str) -> None:
        """Send the whole answer as one delta, so that readers handle one form only."""
        self.answer.text = text
        await self.emit(Delta(text))
