"""Loops close: once a validated answer has taken effect, what it answers is ended by itself, with a link to it.

Open work near an answer is asked again through the production path, without a model (`given_answers`), and ended only
where it is given this very answer. What an answer had ended is asked again when it is withdrawn, expires, is deleted,
or no longer asks the same; it is opened where no validated answer is given to it any more.

Near: one product of the open questions' vectors with those of the answers' phrasings; then the second key; then at most
`LOOP_REPLAYS` questions asked for one answer. Whoever is killed begins again: what was ended is not open any more, and
an answer is marked as tried (`loops_revision`) at the end.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from django.conf import settings
from django.db.models import F
from django.utils import timezone

from agents.effective import effective_config
from agents.models import Agent, Deployment
from chat.staff.quality.open_work import Kind, Work, deployments_of, end, ended_work, open_work, orphaned_work
from chat.staff.quality.replay import Asked, given_answers
from faqs.loops import PhrasingVector, close_groups, phrasing_vectors, reopen_groups
from faqs.models import LearnedResponse
from faqs.second_key.agreement import ask_the_same, compare_questions
from faqs.unanswered import group_questions, same_meaning_threshold
from knowledge.acronyms.stored import forms_of
from knowledge.embeddings.base import Purpose, embedder
from knowledge.search import thresholds_for
from knowledge.vectors.base import batches

logger = logging.getLogger(__name__)

#: Questions asked again before what came of them is written.
_REPLAY_BATCH = 50
#: Open questions of one product, and how many of the nearest phrasings the second key looks at for each.
_PRODUCT_ROWS = 512
_NEIGHBOURS = 10


@dataclass(slots=True)
class ClosedLoops:
    """What was ended and opened again; `replays` is how many questions were asked for it."""

    groups: int = 0
    verdicts: int = 0
    choices: int = 0
    reopened: int = 0
    replays: int = 0

    def count(self, work: Work) -> None:
        self.verdicts += work.kind is Kind.VERDICT
        self.choices += work.kind is Kind.CHOICE


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """Open work near one answer or several, the nearest first."""

    work: Work
    claimants: tuple[int, ...]
    agrees: bool
    score: float


@dataclass(slots=True)
class Replays:
    """What questions were given, each asked once; how many were asked for each answer is bounded."""

    given: dict[Asked, int | None] = field(default_factory=dict)
    spent: Counter[int] = field(default_factory=Counter)

    def ask(self, wanted: Sequence[tuple[Asked, Sequence[int]]]) -> None:
        """Ask what is not known yet, for the first answer near it that may still ask."""
        planned: dict[Asked, None] = {}
        for asked, claimants in wanted:
            if asked in self.given or asked in planned:
                continue
            payer = next((each for each in claimants if self.spent[each] < settings.LOOP_REPLAYS), None)
            if payer is not None:
                self.spent[payer] += 1
                planned[asked] = None
        if planned:
            # In one batch: a text by itself takes ten times as long.
            embedder().remember((asked.text for asked in planned), purpose=Purpose.QUERY)
            self.given |= given_answers(list(planned))


def close_loops(learned_ids: Collection[int]) -> ClosedLoops:
    """Try these answers on the open work of their agents; rows whose last change has not taken effect wait for it.

    Raises the errors of the vector store and the embedder; what was done stands, and the rest is done the next time.
    """
    report, replays = ClosedLoops(), Replays()
    if learned_ids:
        group_questions()  # a question that waits for its group is no open work yet
    _ask_again(orphaned_work(), {}, replays, report)
    report.reopened += reopen_groups()
    for agent, keys in _by_agent(learned_ids):
        for batch in batches(keys, settings.LOOP_BATCH):
            _try_answers(agent, batch, replays, report)
    report.replays = len(replays.given)
    if any((report.groups, report.verdicts, report.choices, report.reopened)):
        logger.info("loops of %d learned responses: %s", len(learned_ids), report)
    return report


def _by_agent(learned_ids: Collection[int]) -> Iterator[tuple[Agent, list[int]]]:
    settled = LearnedResponse.objects.filter(pk__in=list(learned_ids), settled_revision=F("revision"))
    pairs = list(settled.order_by("agent", "pk").values_list("agent", "pk"))
    for agent_id, group in groupby(pairs, key=lambda pair: pair[0]):
        yield Agent.objects.get(pk=agent_id), [key for _agent, key in group]


def _try_answers(agent: Agent, keys: Sequence[int], replays: Replays, report: ClosedLoops) -> None:
    started = timezone.now()
    rows = LearnedResponse.objects.filter(pk__in=keys, settled_revision=F("revision"))
    by_id = {row.pk: row for row in rows.prefetch_related("phrasings")}
    _ask_again(ended_work(list(by_id)), by_id, replays, report)
    report.reopened += reopen_groups()
    unfinished = _ask_open(agent, by_id, replays, report)
    report.groups += close_groups(agent.pk)
    # One that was settled again meanwhile is tried again.
    tried = LearnedResponse.objects.filter(pk__in=by_id.keys() - unfinished, indexed_at__lte=started)
    tried.update(loops_revision=F("settled_revision"))


# --- What was ended --------------------------------------------------------------------------------------------------


def _ask_again(ended: Sequence[Work], rows: dict[int, LearnedResponse], replays: Replays, report: ClosedLoops) -> None:
    """Open what is given no validated answer any more; what is given another one leads to that one."""
    doubtful = [work for work in ended if not _still_asks(rows.get(work.ended_by or 0), work)]
    for batch in batches(doubtful, _REPLAY_BATCH):
        replays.ask([(work.asked, (work.ended_by or 0,)) for work in batch])
        for work in batch:
            given = replays.given.get(work.asked)
            if given is not None and given == work.ended_by:
                continue
            row = LearnedResponse.objects.standing().filter(pk=given or 0).first()
            heir = row.pk if row is not None and _may_end(work, row) else None
            if end(work, heir) and heir is None and work.kind is not Kind.QUESTION:
                report.reopened += 1


def _still_asks(row: LearnedResponse | None, work: Work) -> bool:
    """Whether the answer is given, and one of its phrasings still asks what was asked: then nothing has changed."""
    if row is None or not row.is_standing:
        return False
    forms = forms_of([row.agent_id])
    return any(ask_the_same(text, work.asked.text, forms) for _point, text in row.points())


# --- What is open ----------------------------------------------------------------------------------------------------


def _ask_open(agent: Agent, rows: dict[int, LearnedResponse], replays: Replays, report: ClosedLoops) -> set[int]:
    """End what is given one of these answers; returns those that have more to ask, and whose asking got on."""
    given_rows = [row for row in rows.values() if row.is_standing]
    deployments = deployments_of(agent)
    waiting = open_work(agent, deployments) if given_rows else []
    if not waiting:
        return set()
    candidates = _candidates(waiting, given_rows, _least_scores(deployments))
    left: set[int] = set()
    useful: set[int] = set()
    for batch in batches(candidates, _REPLAY_BATCH):
        replays.ask([(each.work.asked, each.claimants) for each in batch])
        for each in batch:
            if each.work.asked not in replays.given:
                left.update(each.claimants)
                continue
            row = rows.get(replays.given[each.work.asked] or 0)
            if row is not None and _may_end(each.work, row) and end(each.work, row.pk):
                report.count(each.work)
                useful.add(row.pk)
    return left & useful


def _may_end(work: Work, row: LearnedResponse) -> bool:
    """What was complained of is not settled by the answer that it complains of."""
    return work.since is None or (row.validated_at or row.updated_at) > work.since


def _least_scores(deployments: Sequence[Deployment]) -> Callable[[int], float | None]:
    """From which similarity a deployment gives a validated answer; `None`: it gives none."""
    model = embedder().recipe.model
    least: dict[int, float | None] = {}
    for deployment in deployments:
        configs = effective_config(deployment).of_each_agent
        found = (thresholds_for(config, model=model).direct_answer for config in configs)
        least[deployment.pk] = min((each for each in found if each is not None), default=None)
    return least.get


def _candidates(
    waiting: Sequence[Work], rows: Sequence[LearnedResponse], least_score: Callable[[int], float | None]
) -> list[Candidate]:
    """Open work that one of these answers may be given to, the likeliest first."""
    phrasings = list(phrasing_vectors(rows))
    asked = [(work, least) for work in waiting if (least := least_score(work.asked.deployment_id)) is not None]
    if not phrasings or not asked:
        return []
    fresh = (work.asked.text for work, _least in asked if work.stored_vector is None)
    embedder().remember(fresh, purpose=Purpose.QUERY)
    stored = np.stack([each.vector for each in phrasings])
    same_meaning = same_meaning_threshold()
    found = []
    for part in batches(asked, _PRODUCT_ROWS):
        products = np.stack([work.vector() for work, _least in part]) @ stored.T
        for (work, least), scores in zip(part, products, strict=True):
            above = np.flatnonzero(scores >= least)
            nearest = above[np.argsort(-scores[above])][:_NEIGHBOURS]
            near = [(phrasings[at], float(scores[at])) for at in nearest]
            if (candidate := _candidate(work, near, same_meaning)) is not None:
                found.append(candidate)
    return sorted(found, key=lambda each: (not each.agrees, -each.score))


def _candidate(work: Work, near: Sequence[tuple[PhrasingVector, float]], same_meaning: float) -> Candidate | None:
    """Work whose question agrees with a phrasing, or means the same and differs by plain words only.

    No reading of a question takes away another number, date or name: asking again would be in vain.
    """
    compared = [(each, score, compare_questions(each.text, work.asked.text)) for each, score in near]
    agreeing = [(each, score) for each, score, found in compared if found.agrees]
    alike = [
        (each, score) for each, score, found in compared if found.is_open_to_verification and score >= same_meaning
    ]
    claims = [*agreeing, *alike]
    if not claims:
        return None
    claimants = dict.fromkeys(each.learned_id for each, _score in claims)
    return Candidate(work, tuple(claimants), bool(agreeing), claims[0][1])
