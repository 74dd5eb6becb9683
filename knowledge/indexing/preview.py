"""What a rebuild would change, before it goes live: points added, removed, changed, and what questions then retrieve.

The comparison runs the production search over both generations. A dry run fills a generation of its own and drops it at
the end. Apps above this one register where real questions are (`register_question_source`).
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agents.hooks import Hooks
from agents.models import Agent, IndexingMethod
from agents.texts import read_json
from knowledge.exceptions import CollectionMissingError, EmbeddingInputError, EmbeddingMismatchError, KnowledgeError
from knowledge.indexing.rebuild import IndexDiff, diff_agent_index, discard_generation, fill_generation
from knowledge.indexing.report import OnProgress, no_progress
from knowledge.search import confirm_passages, query_of, search
from knowledge.vectors.base import collection_alias
from knowledge.vectors.generations import new_generation

#: Real questions that a rebuild is previewed with, when none are named.
PREVIEW_QUESTIONS = 50

#: The last real questions put to an agent, newest first.
QuestionSource = Callable[[Agent, int], Sequence[str]]

#: Passages compared for each question.
COMPARED_PASSAGES = 5
_EXCERPT = 160
_sources: Hooks[QuestionSource] = Hooks()
#: Asked for real questions.
register_question_source = _sources.register


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A passage; two are the same where title and score alone differ."""

    title: str = field(compare=False)
    question: str
    excerpt: str
    score: float = field(compare=False)
    chunk_id: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one question retrieves; `before` is `None` where the index in service cannot be searched."""

    question: str
    before: tuple[Retrieved, ...] | None
    after: tuple[Retrieved, ...]

    @property
    def is_changed(self) -> bool:
        return self.before != self.after

    @property
    def has_other_best(self) -> bool:
        """Whether another passage now comes first."""
        return (self.before or ())[:1] != self.after[:1]


@dataclass(frozen=True, slots=True)
class Preview:
    diff: IndexDiff
    comparisons: tuple[Comparison, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self.diff),
            "questions": [
                {**asdict(each), "is_changed": each.is_changed, "has_other_best": each.has_other_best}
                for each in self.comparisons
            ],
        }


def preview_rebuild(
    *, agent: Agent, method: IndexingMethod, questions: Sequence[str] = (), on_progress: OnProgress = no_progress
) -> Preview:
    """What a rebuild would change; with questions, what each retrieves before and after. Nothing is kept."""
    diff = diff_agent_index(agent=agent, method=method)
    if not questions:
        return Preview(diff)
    generation = new_generation(agent, method)
    try:
        fill_generation(agent=agent, method=method, generation=generation, on_progress=on_progress)
        comparisons = compare_questions(agent, method, generation, questions)
    finally:
        discard_generation(agent=agent, method=method, generation=generation)
    return Preview(diff, tuple(comparisons))


def compare_questions(
    agent: Agent, method: IndexingMethod, generation: str, questions: Sequence[str]
) -> list[Comparison]:
    compared = []
    for question in questions:
        after = _retrieve(agent, method, question, generation)
        if after is not None:
            before = _retrieve(agent, method, question, collection_alias(agent.slug, method))
            compared.append(Comparison(question, before, after))
    return compared


def recent_questions(agent: Agent) -> list[str]:
    """The last real questions to an agent, each once."""
    limit = PREVIEW_QUESTIONS
    found = [question for source in _sources for question in source(agent, limit)]
    return list(dict.fromkeys(found))[:limit]


def questions_from_file(path: Path) -> list[str]:
    """One question a line: plain text, or JSON objects (`{"question": …}`) or strings."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KnowledgeError(f"{path} cannot be read: {error}", public_message=f"{path} : {error}") from error
    questions = (_question(line.strip()) for line in lines if line.strip())
    return list(dict.fromkeys(question for question in questions if question))


def _question(line: str) -> str:
    try:
        value = read_json(line)
    except ValueError:
        return line
    found = value.get("question") if isinstance(value, dict) else value
    return found.strip() if isinstance(found, str) else ""


def _retrieve(agent: Agent, method: IndexingMethod, question: str, collection: str) -> tuple[Retrieved, ...] | None:
    try:
        found = search(collection, query_of(question), limit=COMPARED_PASSAGES)
    except (CollectionMissingError, EmbeddingMismatchError, EmbeddingInputError):
        return None
    passages = confirm_passages(found, agent_id=agent.pk).passages(COMPARED_PASSAGES)
    return tuple(
        Retrieved(
            title=passage.title,
            question=passage.question,
            excerpt=passage.content[:_EXCERPT],
            score=round(passage.score, 4),
            chunk_id=passage.chunk_id,
        )
        for passage in passages
    )
