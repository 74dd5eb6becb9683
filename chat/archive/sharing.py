"""Links to a conversation as it was when it was shared.

A link is read by whoever may use the deployment: without signing in where its audience is public, and by its signed-in
people otherwise. An inactive deployment closes its links. A link shows a copy, so that nothing said later is in it, and
it goes with its conversation.
"""

from datetime import timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.database import short_write
from chat.access.permissions import open_deployments
from chat.access.visitors import SomeUser
from chat.archive.export.documents import exported_exchanges
from chat.exceptions import LinkNotFoundError, SharingRefusedError
from chat.models import Conversation, SharedThread
from chat.thread.gone import hold_conversation

#: Links that one conversation may have at a time.
SHARE_MAX_LINKS = 20

#: What a reader of the link is shown of a source.
_SHOWN_OF_A_SOURCE = ("n", "title", "question", "text", "type")


def share_branch(conversation: Conversation) -> SharedThread:
    """A link to the current branch as it is now. Raises `SharingRefusedError` where there is nothing to be shared."""
    if conversation.is_temporary:
        raise SharingRefusedError("a temporary chat is not shared")
    exchanges = [
        {
            "question": exchange.question,
            "answer": exchange.answer,
            "answer_source": exchange.answer_source,
            "sources": [
                {key: source[key] for key in _SHOWN_OF_A_SOURCE if key in source} for source in exchange.sources
            ],
        }
        for exchange in exported_exchanges(conversation)
        if exchange.answer
    ]
    if not exchanges:
        raise SharingRefusedError("no answer to be shared")
    days = settings.SHARE_LINK_DAYS
    with short_write():
        # One at a time for a conversation, so that its links can be counted.
        hold_conversation(conversation.pk)
        if standing_links(conversation).count() >= SHARE_MAX_LINKS:
            message = SharingRefusedError.too_many % {"limit": SHARE_MAX_LINKS}
            raise SharingRefusedError("too many links", public_message=message)
        return SharedThread.objects.create(
            conversation=conversation,
            title=conversation.title,
            exchanges=exchanges,
            expires_at=timezone.now() + timedelta(days=days) if days else None,
        )


def standing_links(conversation: Conversation) -> QuerySet[SharedThread]:
    """The links that still open."""
    return conversation.shares.filter(_not_expired())


def _not_expired() -> Q:
    return Q(expires_at=None) | Q(expires_at__gt=timezone.now())


def revoke_link(conversation: Conversation, token: str) -> None:
    """Delete a link and its copy, for everybody and at once."""
    if not conversation.shares.filter(token=token).delete()[0]:
        raise LinkNotFoundError("no such link of this conversation")


def shared_thread(user: SomeUser, token: str) -> SharedThread:
    """What a link shows. Absent, expired, and not for this person are not told apart."""
    found = SharedThread.objects.filter(_not_expired(), token=token).filter(
        conversation__deployment__in=open_deployments(user).values("pk")
    )
    shared = found.select_related("conversation__deployment").first()
    if shared is None:
        raise LinkNotFoundError("no such link for this person")
    return shared


def expired_links() -> "QuerySet[SharedThread]":
    """The copies that no link opens any more."""
    return SharedThread.objects.filter(expires_at__lte=timezone.now())


def drop_expired_links() -> int:
    """Delete them; returns how many."""
    return expired_links().delete()[0]
