"""First questions to ask of a desk: those that staff wrote, else some that its own content answers.

A question is offered only where it has its answer, in a valid validated answer or in a document that is searched. Those
in the reader's language come first, and alone where there are any.
"""

from collections.abc import Collection, Iterable, Iterator

from django.utils.translation import get_language

from agents.cache import TtlCache
from agents.models import Deployment
from faqs.models import IndexState, LearnedKind, LearnedResponse
from knowledge.language.detection import language_of
from knowledge.models import Chunk, Document, DocumentStatus

#: Two lines of a button on a phone.
MOST_CHARACTERS = 100
#: So many validated answers are looked at, so many documents, and of each the first passages.
_ANSWERS, _DOCUMENTS, _PASSAGES = 60, 30, 10


def starter_questions(deployment: Deployment, most: int) -> list[str]:
    """At most so many, in the language of the reader where there are any; staff's own in its place of all others."""
    language = get_language() or ""
    lines = [line.strip() for line in deployment.suggestions.splitlines() if line.strip()]
    if lines:
        return sorted(lines, key=lambda line: language_of(line) not in ("", language))[:most]
    key = (deployment.pk, language)
    return _cached.get(lambda: _of_content(deployment, language), key)[:most]


#: A burst of visitors reads them once.
_cached: TtlCache[list[str]] = TtlCache("CONFIG_CACHE_SECONDS")


def _of_content(deployment: Deployment, language: str) -> list[str]:
    agents = {deployment.agent_id, *deployment.specialists.values_list("agent", flat=True)}
    found = _short([*_validated(agents), *_asked_in(_documents(agents))])
    return [each for each in found if language_of(each) in ("", language)] or found


def _validated(agents: Collection[int]) -> Iterable[str]:
    rows = LearnedResponse.objects.standing().filter(
        agent__in=agents, kind=LearnedKind.FAQ, index_state=IndexState.INDEXED
    )
    return rows.order_by("-validated_at", "-pk").values_list("question", flat=True)[:_ANSWERS]


def _documents(agents: Collection[int]) -> list[int]:
    indexed = Document.objects.filter(agent__in=agents, enabled=True, status=DocumentStatus.INDEXED)
    return list(indexed.order_by("-indexed_at", "pk").values_list("pk", flat=True)[:_DOCUMENTS])


def _asked_in(documents: Collection[int]) -> Iterator[str]:
    """The first question of each document, then the next of each."""
    first = Chunk.objects.served().filter(document__in=documents, index__lt=_PASSAGES).exclude(knowledge_units=[])
    for units in first.order_by("index", "document").values_list("knowledge_units", flat=True):
        yield units[0]["question"]


def _short(questions: Iterable[str]) -> list[str]:
    return [each for each in dict.fromkeys(questions) if len(each) <= MOST_CHARACTERS]
