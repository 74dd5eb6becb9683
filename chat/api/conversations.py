"""Conversations over HTTP: listed, searched, renamed, deleted, exported, and what readers say of answers."""

import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote

from django.db.models import Exists, F, Func, OuterRef, Q, QuerySet, TextField, Value
from django.http import HttpResponse
from django.utils import formats, timezone
from django.utils.cache import patch_cache_control
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.decorators import action
from rest_framework.permissions import SAFE_METHODS, AllowAny
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from chat.access.permissions import (
    Reader,
    WidgetVisitor,
    kept_conversation,
    kept_conversations,
    named,
    open_deployment,
    owned_answer,
    owned_conversations,
    start_conversation,
)
from chat.access.rate_limits import address_of, limit_asking, limit_reading
from chat.api.serializers import (
    ConversationListSerializer,
    ConversationSerializer,
    ErrorSerializer,
    GivenFeedbackSerializer,
    HelpRequestSerializer,
    MessageSerializer,
    NewConversationSerializer,
    NewHelpSerializer,
    ShownVersionSerializer,
    ThreadSerializer,
    VerdictSerializer,
)
from chat.errors import InvalidMessageError
from chat.models import OPEN_STATUSES, Conversation, HelpRequest, Message, Role, Verdict
from chat.rendering import plain_markdown
from chat.runs.runner import runner
from chat.thread.help_requests import ask_a_person
from chat.thread.messages import branch_turns, read_branch, show_version
from chat.thread.turns import interrupt_stale_turns
from chat.thread.verdicts import give_feedback, withdraw_feedback
from knowledge.language.words import ACCENTED, PLAIN, fold_letters

#: Of a person's conversations, so many of the latest are searched; so many words of the search count.
SEARCH_MAX_CONVERSATIONS = 2_000
SEARCH_MAX_WORDS = 8

_LONGEST_WORD = 60


class Folded(Func):
    """`fold_letters` in the database: SQLite is given the function itself (`chat.signals`), PostgreSQL its letters."""

    output_field = TextField()
    function = "repondant_folded"

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return Func(
            Func(*self.source_expressions, function="LOWER"),
            Value(ACCENTED),
            Value(PLAIN),
            function="TRANSLATE",
            output_field=TextField(),
        ).as_sql(compiler, connection, **context)


def search_conversations(own: QuerySet[Conversation], text: str) -> QuerySet[Conversation]:
    """Those of a person's conversations that hold every word of `text`; all of them where it has none."""
    words = fold_letters(text).replace("\0", " ").split()[:SEARCH_MAX_WORDS]
    if not words:
        return own
    latest = own.order_by("-is_pinned", "-updated_at").values("pk")
    latest = latest[:SEARCH_MAX_CONVERSATIONS]
    said = Message.objects.exchanges().alias(plain=Folded(F("content")))
    in_title = Q()
    for word in words:
        in_title &= Q(plain_title__contains=word[:_LONGEST_WORD])
        said = said.filter(plain__contains=word[:_LONGEST_WORD])
    found = Conversation.objects.filter(pk__in=latest).alias(plain_title=Folded(F("title")))
    return found.filter(in_title | Q(Exists(said.filter(conversation=OuterRef("pk")))))


class CountedReading(APIView):
    """A view whose reading is counted for its caller; beyond the limit it answers 429 (`rate_limited`)."""

    #: What is counted: exports cost a hundred times a list, and have a limit of their own.
    reads_what = "read"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in SAFE_METHODS:
            limit_reading(self.reads_what, Reader.of(request).person, address_of(request))


#: Conversations that one request lists.
LIST_LIMIT = 200
#: What anybody may do with what they said, also where its deployment is closed to them by now.
_OF_THEIR_OWN = ("list", "retrieve", "destroy", "messages")


class ConversationViewSet(
    CountedReading, mixins.RetrieveModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[Conversation]
):
    """The caller's own conversations."""

    permission_classes = [AllowAny]
    serializer_class = ConversationSerializer
    queryset = Conversation.objects.none()

    def get_queryset(self) -> Any:
        if getattr(self, "swagger_fake_view", False):
            return Conversation.objects.none()
        own = kept_conversations if self.action in _OF_THEIR_OWN else owned_conversations
        return own(Reader.of(self.request)).select_related("deployment")

    @extend_schema(
        parameters=[OpenApiParameter("deployment"), OpenApiParameter("q")], responses=ConversationListSerializer
    )
    def list(self, request: Request) -> Response:
        found = self.get_queryset().exclude(title="")
        if deployment := request.query_params.get("deployment"):
            found = found.filter(deployment__slug=named(deployment))
        found = search_conversations(found, request.query_params.get("q", "")).select_related("deployment")
        rows = found.order_by("-is_pinned", "-updated_at")[:LIST_LIMIT]
        return Response({"results": self.get_serializer(rows, many=True).data})

    @extend_schema(request=NewConversationSerializer, responses={201: ConversationSerializer})
    def create(self, request: Request) -> Response:
        form = NewConversationSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        reader = Reader.of(request)
        limit_asking(reader.person, address_of(request), what="open")
        deployment = open_deployment(reader.user, form.validated_data["deployment"])
        conversation = start_conversation(
            reader, deployment, phase=form.validated_data["phase"], project=form.validated_data["project"]
        )
        return Response(self.get_serializer(conversation).data, status=status.HTTP_201_CREATED)

    def partial_update(self, request: Request, pk: str | None = None) -> Response:
        conversation = self.get_object()
        form = self.get_serializer(conversation, data=request.data, partial=True)
        form.is_valid(raise_exception=True)
        Conversation.objects.filter(pk=conversation.pk).update(**form.validated_data)
        conversation.refresh_from_db()
        return Response(self.get_serializer(conversation).data)

    def perform_destroy(self, instance: Conversation) -> None:
        runner.stop(instance.pk)
        instance.delete()

    @extend_schema(responses=ThreadSerializer)
    @action(detail=True, url_path="messages")
    def messages(self, request: Request, pk: str | None = None) -> Response:
        return Response(shown_thread(self.get_object()))

    @extend_schema(request=ShownVersionSerializer, responses=ThreadSerializer)
    @action(detail=True, methods=["post"], url_path="branch")
    def branch(self, request: Request, pk: str | None = None) -> Response:
        """Show the branch of another version of a question, and go on there; the thread as it stands then."""
        conversation = self.get_object()
        form = ShownVersionSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        interrupt_stale_turns(conversation.pk)
        show_version(conversation.pk, form.validated_data["turnId"])
        conversation.refresh_from_db()
        return Response(shown_thread(conversation))


def shown_thread(conversation: Conversation) -> dict[str, Any]:
    """The current branch for its reader, and the turn that still runs or waits for an approval."""
    interrupt_stale_turns(conversation.pk)
    thread = read_branch(conversation)
    running = runner.running_turn(conversation.pk) or _open_turn(thread.messages)
    context = {"thread": thread}
    return {
        "title": conversation.title,
        "messages": MessageSerializer(thread.messages, many=True, context=context).data,
        "runningTurn": {"id": str(running)} if running else None,
        "requests": stored_requests(conversation),
    }


def stored_requests(conversation: Conversation) -> Any:
    """What a person was asked in the conversation, on whatever branch."""
    found = HelpRequest.objects.filter(turn__conversation=conversation).select_related("turn").order_by("pk")
    return HelpRequestSerializer(found, many=True).data


def _open_turn(messages: Iterable[Message]) -> uuid.UUID | None:
    """The turn that another process runs, or that waits for an approval: to a page it runs, and is followed."""
    return next((m.turn_id for m in messages if m.turn and m.turn.status in OPEN_STATUSES), None)


#: An export holds the last exchanges only, where there are more.
EXPORT_MAX_EXCHANGES = 200

_ADDRESS = re.compile(r"https?://[^\s<>\[\]`\\]+")


def exported_exchanges(conversation: Conversation) -> list[dict[str, Any]]:
    """The last `EXPORT_MAX_EXCHANGES` exchanges of the current branch, oldest first."""
    turns = branch_turns(conversation.pk, conversation.leaf)
    stored = Message.objects.for_conversation(conversation.pk).exchanges().on_branch(turns)
    newest = stored.exclude(turn=None).select_related("turn").order_by("-id")
    messages = list(reversed(newest[: 2 * EXPORT_MAX_EXCHANGES]))
    answers = {m.turn_id: m for m in messages if m.role == Role.ASSISTANT}
    return [_exchange(message, answers.get(message.turn_id)) for message in messages if message.role == Role.USER]


def _exchange(asked: Message, answered: Message | None) -> dict[str, Any]:
    """A question and its answer: Markdown, empty where there is none; sources as they were given."""
    turn = asked.turn
    return {
        "question": asked.content,
        "answer": answered.content if answered else "",
        "answer_source": turn.answer_source if turn else "",
        "model": turn.model if turn else "",
        "complete": answered is not None and turn is not None and turn.status == "done",
        "asked_at": asked.created_at.isoformat(),
        "sources": [s for s in answered.sources if isinstance(s, dict)] if answered else [],
    }


def file_name(title: str, extension: str) -> str:
    """A file name made from the title that every file system accepts."""
    stem = re.sub(r"[^\w\- ]+", " ", title).strip()
    return f"{' '.join(stem.split())[:80].rstrip() or 'conversation'}.{extension}"


def as_json(conversation: Conversation) -> bytes:
    body = {
        "title": conversation.title,
        "deployment": conversation.deployment.slug,
        "created_at": conversation.created_at.isoformat(),
        "exported_at": timezone.now().isoformat(),
        "exchanges": exported_exchanges(conversation),
        "requests": stored_requests(conversation),
    }
    return json.dumps(body, ensure_ascii=False, indent=2, default=str).encode()


def as_markdown(conversation: Conversation) -> bytes:
    day = formats.date_format(timezone.localtime(conversation.created_at), "DATE_FORMAT")
    dated = _("%(desk)s, conversation du %(day)s.") % {"desk": conversation.deployment.name, "day": day}
    parts = [f"# {plain_markdown(_one_line(conversation.title))}", dated]
    # No text to translate within an f-string: gettext does not find it there.
    asked, to_a_person, unanswered, unfinished, given = (
        _("Question"),
        _("Demande à une personne"),
        _("Cette question est restée sans réponse."),
        _("Réponse incomplète."),
        _("Sources"),
    )
    for exchange in exported_exchanges(conversation):
        quoted = "\n".join(f"> {line}".rstrip() for line in exchange["question"].splitlines())
        answer = exchange["answer"] or f"*{unanswered}*"
        parts += [f"## {asked}", quoted, answer]
        if exchange["answer"] and not exchange["complete"]:
            parts.append(f"*{unfinished}*")
        if exchange["sources"]:
            listed = "\n".join(f"- {line}" for line in source_lines(exchange["sources"]))
            parts += [f"**{given}**", listed]
    for each in stored_requests(conversation):
        parts += [f"## {to_a_person} ({each['statusText']})", each["question"], each["address"], each["answer"]]
    return ("\n\n".join(filter(None, parts)) + "\n").encode()


def source_lines(sources: Sequence[dict[str, Any]]) -> list[str]:
    """« [1] Title, p. 3 – the question that the passage answers – its address », as Markdown."""
    lines = []
    for source in sources:
        is_learned = bool(source.get("learned_id") and source.get("question"))
        title = _("Réponse validée") if is_learned else source.get("title")
        title = plain_markdown(_one_line(str(title or _("Document sans titre"))))
        if isinstance(source.get("page"), int):
            title += ", " + _("p. {page}").format(page=source["page"])
        question = plain_markdown(_one_line(str(source.get("question") or "")))
        address = str(source.get("url") or "")
        named = (title, question, address if _ADDRESS.fullmatch(address) else "")
        lines.append(f"[{source.get('n', '')}] {' – '.join(part for part in named if part)}")
    return lines


def _one_line(text: str) -> str:
    return " ".join(text.split())


#: By the name in `?format=`: the media type, and what writes it.
FORMATS: dict[str, tuple[str, Callable[[Conversation], bytes]]] = {
    "md": ("text/markdown; charset=utf-8", as_markdown),
    "json": ("application/json", as_json),
}


class ExportView(CountedReading):
    reads_what = "export"
    permission_classes = [AllowAny]

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Our own `?format=` names a document, not a renderer of the framework."""
        return JSONRenderer(), JSONRenderer.media_type

    @extend_schema(
        operation_id="conversation_export",
        parameters=[OpenApiParameter("format", enum=sorted(FORMATS))],
        responses={
            (200, "application/json"): OpenApiTypes.OBJECT,
            (200, "text/markdown"): OpenApiTypes.STR,
            404: ErrorSerializer,
            422: ErrorSerializer,
        },
    )
    def get(self, request: Request, conversation_id: uuid.UUID) -> HttpResponse:
        """The current branch as a file, with its sources."""
        conversation = kept_conversation(Reader.of(request), conversation_id)
        name = request.query_params.get("format", "md")
        if name not in FORMATS:
            message = _("« format » doit être « md » ou « json ».")
            raise InvalidMessageError("unknown export format", public_message=message)
        media_type, write = FORMATS[name]
        response = HttpResponse(write(conversation), content_type=media_type)
        shown = quote(file_name(conversation.title, name))
        response["Content-Disposition"] = f"attachment; filename*=UTF-8''{shown}"
        patch_cache_control(response, private=True, no_store=True)
        return response


class FeedbackView(APIView):
    permission_classes = [AllowAny]

    def reader(self, request: Request) -> Reader | WidgetVisitor:
        return Reader.of(request)

    @extend_schema(
        operation_id="message_feedback",
        request=VerdictSerializer,
        responses={200: GivenFeedbackSerializer, 404: ErrorSerializer},
    )
    def post(self, request: Request, message_id: int) -> Response:
        """Say what an answer is worth; a second verdict replaces the first."""
        turn = owned_answer(self.reader(request), message_id)
        form = VerdictSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        feedback = give_feedback(
            turn,
            Verdict(form.validated_data["verdict"]),
            reason=form.validated_data["reason"],
            comment=form.validated_data["comment"],
        )
        return Response(GivenFeedbackSerializer(feedback).data)

    @extend_schema(operation_id="message_feedback_withdraw", responses={204: None, 404: ErrorSerializer})
    def delete(self, request: Request, message_id: int) -> Response:
        """Take a verdict back."""
        withdraw_feedback(owned_answer(self.reader(request), message_id))
        return Response(status=status.HTTP_204_NO_CONTENT)


class HelpView(FeedbackView):
    http_method_names = ["post", "options"]

    @extend_schema(
        operation_id="message_help",
        request=NewHelpSerializer,
        responses={200: HelpRequestSerializer, 403: ErrorSerializer, 404: ErrorSerializer},
    )
    def post(self, request: Request, message_id: int) -> Response:
        """Ask a person about an answer; asked again, it is the same request."""
        reader = self.reader(request)
        limit_asking(reader.user_id or reader.visitor, address_of(request), what="help")
        turn = owned_answer(reader, message_id)
        form = NewHelpSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        if not form.validated_data["consent"]:
            raise InvalidMessageError("no consent", public_message=_("Cochez l’accord pour envoyer la demande."))
        return Response(HelpRequestSerializer(ask_a_person(turn, address=form.validated_data["address"])).data)
