"""Addresses of cited passages, for programs that show a citation as a link: a page with what the answer was given.

An address names a turn and the number of its source, signed. It gives no right: it is read by whoever may use the
deployment, as a shared conversation is, for as long as the conversation is kept.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.signing import BadSignature, Signer

from agents.effective import effective_config
from agents.models import Deployment
from chat.access.permissions import open_deployments
from chat.access.visitors import SomeUser
from chat.exceptions import LinkNotFoundError
from chat.models import Message
from knowledge.page_viewer import CitedPages, CitedPlace, cited_pages, cited_place

_SIGNER = Signer(salt="chat.cited_passages")


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A source as the answer was given it, with the keys of `chat.protocol.Source`."""

    deployment: Deployment
    source: Mapping[str, Any]


def pages_of(passage: CitedPassage) -> CitedPages | None:
    """The pages that it stands on, where its deployment shows them and the document still says it."""
    return cited_pages(passage.source.get("chunk_id"), agent_ids=_showing(passage.deployment))


def place_of(passage: CitedPassage) -> CitedPlace | None:
    """What stands around it in its document, where its deployment shows that and the document still says it."""
    return cited_place(passage.source.get("chunk_id"), agent_ids=_showing(passage.deployment))


def _showing(deployment: Deployment) -> list[int]:
    configs = effective_config(deployment).of_each_agent
    return [config.agent_id for config in configs if config.show_cited_pages]


def passage_token(turn_id: uuid.UUID, number: int) -> str:
    return _SIGNER.sign_object([turn_id.hex, number])


def cited_passage(user: SomeUser, token: str) -> CitedPassage:
    """Absent, forged, and not for this person are not told apart: `LinkNotFoundError`."""
    try:
        turn_id, number = _SIGNER.unsign_object(token)
    except BadSignature as error:
        raise LinkNotFoundError("no address of a passage") from error
    answers = Message.objects.filter(
        turn=turn_id, role="assistant", conversation__deployment__in=open_deployments(user).values("pk")
    ).select_related("conversation__deployment")
    for answer in answers:
        for source in answer.sources:
            if source.get("n") == number:
                return CitedPassage(answer.conversation.deployment, source)
    raise LinkNotFoundError("no such passage for this person")
