"""Asking without JavaScript: a form asks, and its answer comes as a page to be read.

The form waits for the answer, as long as what stands between lets it; the page of one that takes longer loads itself
again.
"""

import asyncio
import uuid
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents.database import in_database
from agents.errors import ApplicationError
from chat.access.permissions import owned_conversation
from chat.access.visitors import Reader
from chat.archive.export.documents import exported_exchanges
from chat.doors import questions
from chat.doors.http.conversations import shown_thread
from chat.doors.http.turns import SessionCaller
from chat.doors.page.rendered import rendered_exchanges
from chat.doors.page.views import not_kept
from chat.exceptions import ConversationNotFoundError
from chat.models import Conversation, Turn
from chat.protocol import MAX_MESSAGE_CHARACTERS
from chat.runs.runner import runner

#: Servers in front of this one end a request that is silent for longer.
WAIT_SECONDS = 25
#: A page whose answer has not come loads itself again after so many.
RELOAD_SECONDS = 5


@require_POST
async def ask(request: HttpRequest, slug: str) -> HttpResponse:
    """One question of a form, which says who asks by the session and its token, as every form here."""
    # A question to choose is a button, which comes after the field.
    texts = [text for text in request.POST.getlist("question") if text.strip()]
    body = {
        "message": texts[-1] if texts else "",
        "clientMessageId": request.POST.get("message", ""),
        "conversationId": request.POST.get("conversation", ""),
        "deployment": slug,
    }
    try:
        turn_id = await questions.begin(request, body, SessionCaller(request))
        conversation_id = (await in_database(Turn.objects.get, pk=turn_id)).conversation_id
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                async for _event in runner.follow(turn_id):
                    """Its events are for those who follow; this page reads what is stored at its end."""
    except ApplicationError as error:
        return await in_database(_refused, request, body, error)
    return redirect(f"{reverse('chat-read', args=[slug, conversation_id])}#last")


@never_cache
@require_safe
def read(request: HttpRequest, slug: str, conversation_id: uuid.UUID) -> HttpResponse:
    """A reader's own conversation, and the form for the next question."""
    try:
        conversation = owned_conversation(Reader.of(request), conversation_id)
    except ConversationNotFoundError:
        context = {"login_url": reverse(settings.LOGIN_URL)}
        return not_kept(request, render(request, "chat/plain.html", context, status=404))
    return _page(request, conversation.deployment.slug, conversation)


def _page(
    request: HttpRequest, slug: str, conversation: Conversation | None, status: int = 200, **more: Any
) -> HttpResponse:
    exchanges = exported_exchanges(conversation) if conversation else []
    face = conversation.deployment if conversation else None
    context = {
        "slug": slug,
        "conversation": conversation,
        "face": face,
        "exchanges": rendered_exchanges(
            [{"question": e.question, "answer": e.answer, "sources": e.sources} for e in exchanges]
        ),
        "is_running": bool(conversation and shown_thread(conversation)["runningTurn"]),
        "reload_seconds": RELOAD_SECONDS,
        "client_message_id": uuid.uuid4(),
        "max_characters": MAX_MESSAGE_CHARACTERS,
        **more,
    }
    page = not_kept(request, render(request, "chat/plain.html", context, status=status), face)
    # A form of a page that tells nobody its address says that it comes from nowhere, and is refused as forged.
    page["Referrer-Policy"] = "same-origin"
    return page


def _refused(request: HttpRequest, body: dict[str, Any], error: ApplicationError) -> HttpResponse:
    """The question comes back, with the reason."""
    conversation = None
    with suppress(ConversationNotFoundError, ValueError):
        wanted = uuid.UUID(body["conversationId"])
        conversation = owned_conversation(Reader.of(request), wanted)
    said = {"refusal": error.public_message, "question": body["message"]}
    response = _page(request, body["deployment"], conversation, error.status, **said)
    if error.retry_after is not None:
        response["Retry-After"] = str(round(error.retry_after) or 1)
    return response
