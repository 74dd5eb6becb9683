"""Questions of this site's readers as plain HTTP: asked, followed, run again and stopped (`chat.doors.questions`)."""

import uuid
from typing import Any, ClassVar, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.middleware.csrf import get_token
from django.utils import translation
from django.views.decorators.http import require_GET, require_POST
from rest_framework.authentication import CSRFCheck

from agents.database import in_database
from agents.errors import ApplicationError
from chat.access.permissions import open_deployment, owned_conversation, owned_turn, start_conversation
from chat.access.rate_limits import address_of, limit_asking
from chat.access.visitors import Reader
from chat.doors import questions
from chat.doors.errors import answering_errors
from chat.exceptions import InvalidMessageError
from chat.models import Conversation, Turn, TurnStatus
from chat.protocol import valid_scope, valid_uuid
from chat.runs.runner import runner


class ForgedRequestError(ApplicationError):
    """A session came along with a request that no page of this site made."""

    code = "csrf"
    status = 403


class SessionCaller:
    """Whoever the session of this site belongs to."""

    has_versions: ClassVar[bool] = True

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def language(self, body: dict[str, Any] | None = None) -> str:
        return translation.get_language() or settings.LANGUAGE_CODE

    def conversation(self, body: dict[str, Any], client_message_id: str) -> Conversation:
        self._limit()
        reader = Reader.of(self._request)
        scope = {name: valid_scope(name, body.get(name)) for name in ("phase", "project")}
        if body.get("conversationId"):
            conversation_id = valid_uuid("conversationId", body["conversationId"])
            found = owned_conversation(reader, conversation_id)
            if any(said and said != getattr(found, name) for name, said in scope.items()):
                raise InvalidMessageError("the conversation has another phase or project")
            return found
        deployment = open_deployment(reader.user, str(body.get("deployment") or ""))
        # The same message sent again finds the conversation that it opened the first time.
        return start_conversation(
            reader, deployment, client_message_id=client_message_id, phase=scope["phase"], project=scope["project"]
        )

    def turn(self, turn_id: uuid.UUID) -> Turn:
        return owned_turn(Reader.now(self._request.session), turn_id)

    def limited_turn(self, turn_id: uuid.UUID) -> Turn:
        """A turn to be run again, which costs as much as a question."""
        self._limit()
        return self.turn(turn_id)

    def _limit(self) -> None:
        limit_asking(Reader.of(self._request).person, address_of(self._request))


def _check_forgery(request: HttpRequest) -> None:
    """Cross-site protection for callers that carry a session.

    The cookie of the token is handed out with the first answer, as the session's is: a program that keeps both can send
    its message again.
    """
    if settings.CSRF_COOKIE_NAME not in request.COOKIES:
        get_token(request)
    if settings.SESSION_COOKIE_NAME not in request.COOKIES:
        return
    check = CSRFCheck(_protected_view)
    check.process_request(request)
    # Rest framework's check returns its reason where Django's returns a response.
    reason = cast("str | None", check.process_view(request, _protected_view, (), {}))
    if reason:
        raise ForgedRequestError(public_message=reason)


def _protected_view(_request: HttpRequest) -> HttpResponse:
    """Stands for the view, which is exempt from Django's own check."""
    return HttpResponse()


_edge = answering_errors(_check_forgery)


@require_POST
@_edge
async def rag_chat(request: HttpRequest) -> HttpResponseBase:
    """One question, its answer as server-sent events; opens a conversation where none is named."""
    return await questions.ask(request, SessionCaller(request))


@require_GET
@_edge
async def turn_events(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Continue a turn after `Last-Event-ID`."""
    return await questions.continue_turn(request, turn_id, SessionCaller(request))


@require_POST
@_edge
async def retry_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Run an interrupted or failed turn again; its events from the first."""
    caller = SessionCaller(request)
    turn = await in_database(caller.limited_turn, turn_id)
    await runner.retry(turn, language=caller.language())
    return questions.stream_turn(turn_id, caller)


@require_POST
@_edge
async def stop_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponseBase:
    """Stop a running turn, whichever process runs it; its readers get the end. `stopped` is false where it had ended."""
    turn = await in_database(SessionCaller(request).turn, turn_id)
    is_running = turn.status == TurnStatus.RUNNING
    stopped = is_running and await runner.stop_anywhere(turn.conversation_id)
    return JsonResponse({"stopped": stopped}, status=202)
