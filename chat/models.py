"""Conversations, turns and messages.

A *turn* is one user message to one final answer. Messages are written by `chat.thread` only, and read for a model
through `Message.objects.for_conversation`. What must never happen twice is a constraint here. Turns make a tree: an
edited question is another turn under the same `parent` (`chat.thread.messages`). A *round* is one recall of the model
after tools: planned (`ToolRound`) before they run, messages in one batch after.
"""

import hashlib
import secrets
import uuid
from collections.abc import Collection
from typing import Any, ClassVar, Literal, Self, cast

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _

from agents.database import short_write
from agents.llm.base import PromptMessage, RequestedCall
from agents.llm.base import Role as PromptRole
from agents.models import OPEN_JOBS, Deployment, Job, by_whom

#: The longest comment beside a verdict on an answer.
FEEDBACK_MAX_CHARACTERS = 1_000

#: The longest name of a phase or of a project.
SCOPE_CHARACTERS = 80


class Channel(models.TextChoices):
    """By which door a conversation came in."""

    PAGE = "page", _("Page de conversation")
    WIDGET = "widget", _("Widget")
    API = "api", _("API")


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete them with all that hangs on them, held first as by whoever writes to them (`chat.thread.turns`)."""
        with short_write():
            found = Conversation.objects.filter(pk__in=list(self.values_list("pk", flat=True)))
            held = list(found.order_by("pk").select_for_update().values_list("pk", flat=True))
            turns = Turn.objects.filter(conversation__in=held).order_by("pk")
            list(turns.select_for_update().values_list("pk"))
            return models.QuerySet.delete(self.filter(pk__in=held))

    # As Django's own: never a method of the manager.
    delete.queryset_only = True  # type: ignore[attr-defined]


class Conversation(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey(
        Deployment, on_delete=models.CASCADE, related_name="conversations", verbose_name=_("guichet")
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="conversations",
        verbose_name=_("utilisateur"),
    )
    visitor = models.UUIDField(null=True, blank=True, editable=False)
    channel = models.CharField(_("canal"), max_length=10, choices=Channel.choices, default=Channel.PAGE, editable=False)
    api_key = models.ForeignKey(
        "ApiKey",
        null=True,
        blank=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="conversations",
        verbose_name=_("clé d’API"),
    )
    #: What a client that keeps its own thread said came before (`chat.api.openai_forms`).
    client_thread = models.JSONField(null=True, blank=True, editable=False)
    title = models.CharField(_("titre"), max_length=200, blank=True, default="")
    #: The *phase* and the *projet* of seed 000, where a program names them: the memory keeps to them.
    phase = models.CharField(_("phase"), max_length=SCOPE_CHARACTERS, blank=True, default="", db_default="")
    project = models.CharField(_("projet"), max_length=SCOPE_CHARACTERS, blank=True, default="", db_default="")
    #: Grows with every write to the thread; writers compare it, and it is the ETag of the batch endpoint.
    version = models.PositiveIntegerField(default=0, editable=False)
    #: The last turn of the branch that is shown; absent where there is one line only. No foreign key: tables would cross.
    leaf = models.UUIDField(null=True, blank=True, editable=False)
    #: Its reader keeps it at the top of their list.
    is_pinned = models.BooleanField(default=False, db_default=False, editable=False)
    created_at = models.DateTimeField(_("créée le"), auto_now_add=True)
    updated_at = models.DateTimeField(_("dernier message"), auto_now=True)

    objects = ConversationQuerySet.as_manager()

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        ordering: ClassVar = ["-updated_at"]
        indexes: ClassVar = [
            models.Index(fields=["user", "-updated_at"]),
            models.Index(fields=["visitor", "-updated_at"]),
        ]

    def __str__(self) -> str:
        return self.title or str(_("Nouvelle conversation"))

    def delete(self, *_arguments: Any, **_options: Any) -> tuple[int, dict[str, int]]:
        return Conversation.objects.filter(pk=self.pk).delete()


class AnswerSource(models.TextChoices):
    """By which exit of the path a question was answered."""

    MEMORY_GUARD = "memory_guard", _("Mémoire")
    DIRECT_QA = "direct_qa", _("Réponse directe")
    CLARIFICATION = "clarification", _("Demande de précision")
    GUARD_RAIL = "guard_rail", _("Garde-fou")
    LLM = "llm", _("Modèle de langage")
    EXTRACTIVE = "extractive", _("Passages cités")
    ROUND_LIMIT = "round_limit", _("Limite des outils")


#: Exits whose text is no answer.
NO_ANSWER = (AnswerSource.GUARD_RAIL, AnswerSource.CLARIFICATION, AnswerSource.ROUND_LIMIT)


class MessageType(models.TextChoices):
    """What a message is to the orchestration of seed 000, section 2, by its role and its turn's exit."""

    USER_REQUEST = "user_request", _("Question")
    FOLLOW_UP = "follow_up", _("Suite")
    RESPONSE = "response", _("Réponse")
    CACHED_RESPONSE = "cached_response", _("Réponse en mémoire")


class TurnStatus(models.TextChoices):
    RUNNING = "running", _("En cours")
    DONE = "done", _("Terminé")
    INTERRUPTED = "interrupted", _("Interrompu")
    FAILED = "failed", _("En échec")
    AWAITING_APPROVAL = "awaiting_approval", _("Attend un accord")


#: A turn that still may write its rounds itself.
OPEN_STATUSES = (TurnStatus.RUNNING, TurnStatus.AWAITING_APPROVAL)


class StopReason(models.TextChoices):
    """Why the tool loop ended (seed 002, section I)."""

    ANSWERED = "answered", _("Réponse donnée")
    ROUND_LIMIT = "round_limit", _("Limite de relances atteinte")
    SATURATED = "saturated", _("Plus de progrès")
    CANCELLED = "cancelled", _("Arrêtée")
    AWAITING_APPROVAL = "awaiting_approval", _("Attend un accord")


class Turn(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="turns", verbose_name=_("conversation")
    )
    #: The turn that this one follows, in a conversation with branches; turns of one parent are versions of one another.
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="children", editable=False
    )
    client_message_id = models.CharField(max_length=100, editable=False)
    status = models.CharField(_("état"), max_length=20, choices=TurnStatus.choices, default=TurnStatus.RUNNING)
    answer_source = models.CharField(
        _("voie de réponse"), max_length=20, choices=AnswerSource.choices, blank=True, default=""
    )
    model = models.CharField(_("modèle"), max_length=200, blank=True, default="")
    score = models.FloatField(_("score de la réponse"), null=True, blank=True)
    best_score = models.FloatField(_("meilleur score"), null=True, blank=True)
    llm_calls = models.PositiveSmallIntegerField(_("appels au modèle"), default=0)
    prompt_tokens = models.PositiveIntegerField(_("tokens lus"), default=0)
    completion_tokens = models.PositiveIntegerField(_("tokens écrits"), default=0)
    rounds = models.PositiveSmallIntegerField(_("relances après outils"), default=0)
    efficiency = models.FloatField(_("efficacité"), default=100.0)
    stop_reason = models.CharField(
        _("fin de la boucle d’outils"), max_length=20, choices=StopReason.choices, blank=True, default=""
    )
    #: A tool whose result depends on who asks was used: the answer is nobody else's.
    is_personal = models.BooleanField(_("réponse personnelle"), default=False)
    #: The same question came again within minutes (`chat.runs.afterwards`).
    asked_again = models.BooleanField(default=False, db_default=False, editable=False)
    #: The agent's name then; empty where the deployment had one agent.
    answered_by = models.CharField(_("agent"), max_length=200, blank=True, default="")
    trace = models.JSONField(_("trace"), default=list, blank=True)
    #: What was said up to its end, on its branch, in short (`chat.runs.afterwards`); empty where none was written.
    summary = models.TextField(blank=True, default="", db_default="", editable=False)
    error_code = models.CharField(_("erreur"), max_length=50, blank=True, default="")
    #: Renewed by the process that runs the turn; past it, the process is taken for dead.
    lease_expires_at = models.DateTimeField(editable=False)
    #: How often it was begun again, after an interruption or a pause; event ids and writes belong to one run.
    run = models.PositiveSmallIntegerField(default=0, db_default=0, editable=False)
    #: Set where its owner asks another process to stop it.
    stop_requested_at = models.DateTimeField(null=True, blank=True, editable=False)
    started_at = models.DateTimeField(_("commencé le"), auto_now_add=True)
    finished_at = models.DateTimeField(_("fini le"), null=True, blank=True)

    class Meta:
        verbose_name = _("question posée")
        verbose_name_plural = _("questions posées")
        ordering: ClassVar = ["started_at"]
        indexes: ClassVar = [
            # Lists of the admin and what looks at the latest: without it each sorts every turn there is.
            models.Index(fields=["-started_at"], name="turns_by_time"),
            models.Index(fields=["started_at"], condition=Q(status="failed"), name="failed_turns"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["conversation", "client_message_id"], name="one_turn_per_client_message"),
            models.UniqueConstraint(
                fields=["conversation"],
                condition=Q(status__in=["running", "awaiting_approval"]),
                name="one_open_turn_per_conversation",
            ),
        ]

    def __str__(self) -> str:
        asked_at = date_format(timezone.localtime(self.started_at), "DATETIME_FORMAT")
        return f"{self.get_status_display()} · {asked_at}"

    @property
    def is_follow_up(self) -> bool:
        """Whether its question leans on the one before; known once the turn has ended."""
        steps = {line.get("step"): line.get("outcome") for line in self.trace if isinstance(line, dict)}
        return steps.get("standalone") == "follow_up"


class Role(models.TextChoices):
    USER = "user", _("Utilisateur")
    ASSISTANT = "assistant", _("Assistant")
    TOOL = "tool", _("Outil")


class MessageQuerySet(models.QuerySet["Message"]):
    def for_conversation(self, conversation_id: uuid.UUID) -> Self:
        """The only way in: a thread is never read without saying whose it is."""
        return self.filter(conversation_id=conversation_id).order_by("id")

    def exchanges(self) -> Self:
        """Questions and answers, without what the tools said in between."""
        return self.filter(operation_id=None)

    def with_persons(self) -> Self:
        """With what a person answered to the same question."""
        return self.annotate(person=F("turn__help_request__answer"))

    def on_branch(self, turn_ids: Collection[uuid.UUID] | None) -> Self:
        """What stands on a branch, given its turns; `None` is the one line of a conversation that never branched."""
        if turn_ids is None:
            return self
        without_turn = Q(turn=None) & (Q(after=None) | Q(after__in=turn_ids))
        return self.filter(Q(turn__in=turn_ids) | without_turn)


def told(answer: str, person: str | None) -> str:
    """An answer, and what a person of the staff answered beside it, as models read them."""
    said = _("Réponse de l’équipe")
    return f"{answer}\n\n{said} : {person}" if person else answer


class Message(models.Model):
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="messages", verbose_name=_("conversation")
    )
    #: Absent from what a service added to a conversation without a turn.
    turn = models.ForeignKey(
        Turn, null=True, blank=True, on_delete=models.CASCADE, related_name="messages", verbose_name=_("tour")
    )
    #: The turn at whose end a message without a turn was added: it stands in the branches that hold that turn.
    after = models.UUIDField(null=True, blank=True, editable=False)
    role = models.CharField(_("rôle"), max_length=20, choices=Role.choices)
    content = models.TextField(_("texte"))
    sources = models.JSONField(_("sources"), default=list, blank=True)
    #: The calls of an assistant message, as model APIs write them.
    tool_calls = models.JSONField(_("appels d’outils"), default=list, blank=True)
    tool_call_id = models.CharField(max_length=100, blank=True, default="", editable=False)
    name = models.CharField(_("outil"), max_length=64, blank=True, default="")
    #: Of the batch that brought it; a batch whose messages are there was applied, and a replay changes nothing.
    operation_id = models.UUIDField(null=True, blank=True, editable=False)
    #: Of the first message of a batch of the batch endpoint.
    idempotency_key = models.CharField(max_length=100, blank=True, default="", db_default="", editable=False)
    relance_index = models.PositiveSmallIntegerField(null=True, blank=True, editable=False)
    success = models.BooleanField(_("réussi"), null=True, blank=True)
    error = models.TextField(_("erreur"), blank=True, default="")
    duration_ms = models.PositiveIntegerField(_("durée (ms)"), null=True, blank=True)
    #: When the writer says that it was said; absent, when it was written.
    timestamp = models.DateTimeField(_("horodatage"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("écrit le"), auto_now_add=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["turn", "role"], condition=Q(operation_id=None), name="one_question_and_one_answer_per_turn"
            ),
            models.UniqueConstraint(
                fields=["conversation", "operation_id", "tool_call_id"],
                condition=Q(role="tool"),
                name="one_tool_message_per_call",
            ),
            models.UniqueConstraint(
                fields=["conversation", "operation_id"],
                condition=Q(role="assistant", operation_id__isnull=False),
                name="one_request_per_operation",
            ),
            models.UniqueConstraint(
                fields=["conversation", "idempotency_key"],
                condition=~Q(idempotency_key=""),
                name="one_batch_per_idempotency_key",
            ),
            models.CheckConstraint(
                condition=~Q(role="tool") | Q(operation_id__isnull=False) & ~Q(tool_call_id="") & ~Q(name=""),
                name="tool_message_names_its_call",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_role_display()} · {self.content[:60]}"

    @property
    def calls(self) -> tuple[RequestedCall, ...]:
        functions = ((call["id"], call["function"]) for call in self.tool_calls)
        return tuple(RequestedCall(call_id, called["name"], called["arguments"]) for call_id, called in functions)

    @property
    def told(self) -> str:
        """What the model reads of it: of an answer, also that of a person who was asked about it."""
        is_answer = self.role == Role.ASSISTANT and not self.tool_calls
        return told(self.content, getattr(self, "person", None) if is_answer else None)

    def as_prompt(self) -> PromptMessage:
        return PromptMessage(
            role=cast("PromptRole", str(self.role)),
            content=self.told,
            tool_calls=self.calls,
            tool_call_id=self.tool_call_id,
            conversation_id=self.conversation_id,
        )

    @property
    def type(self) -> MessageType:
        if self.role == Role.USER:
            is_follow_up = self.turn is not None and self.turn.is_follow_up
            return MessageType.FOLLOW_UP if is_follow_up else MessageType.USER_REQUEST
        if self.turn is not None and self.turn.answer_source == AnswerSource.MEMORY_GUARD:
            return MessageType.CACHED_RESPONSE
        return MessageType.RESPONSE


class ToolRound(models.Model):
    """One round as it was planned, before any of its tools ran: a crash and a replay are the same operation."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="tool_rounds")
    turn = models.ForeignKey(Turn, on_delete=models.CASCADE, related_name="tool_rounds")
    operation_id = models.UUIDField(editable=False)
    round_index = models.PositiveSmallIntegerField()
    #: What the model wrote beside its calls.
    content = models.TextField(blank=True, default="")
    tool_calls = models.JSONField(default=list)
    #: The names offered in this turn, so that a turn that goes on later offers the same.
    tool_names = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["round_index"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["conversation", "operation_id"], name="one_plan_per_operation"),
            models.UniqueConstraint(fields=["turn", "round_index"], name="one_plan_per_round"),
        ]

    def __str__(self) -> str:
        return f"{self.turn_id} · {self.round_index}"


class ExecutionState(models.TextChoices):
    PLANNED = "planned"
    STARTED = "started"
    FINISHED = "finished"


class Approval(models.TextChoices):
    """What a person said of a call whose tool asks for it; empty where none is needed."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


class ToolExecution(models.Model):
    """One call of a planned round, from planned to finished. It starts once; its result is kept as soon as it is known."""

    round = models.ForeignKey(ToolRound, on_delete=models.CASCADE, related_name="executions")
    position = models.PositiveSmallIntegerField()
    tool_call_id = models.CharField(max_length=100)
    name = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=ExecutionState.choices, default=ExecutionState.PLANNED)
    approval = models.CharField(max_length=10, choices=Approval.choices, blank=True, default="")
    content = models.TextField(blank=True, default="")
    success = models.BooleanField(null=True)
    error = models.TextField(blank=True, default="")
    duration_ms = models.PositiveIntegerField(null=True)
    is_personal = models.BooleanField(default=False)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["round", "tool_call_id"], name="one_execution_per_call")
        ]

    def __str__(self) -> str:
        return f"{self.name} · {self.state}"

    def fail(self, error: str, content: str) -> None:
        """End this unsaved call before it began."""
        self.state, self.success, self.error, self.content = ExecutionState.FINISHED, False, error, content
        self.finished_at = timezone.now()

    @property
    def call(self) -> RequestedCall:
        """As its round asks for it."""
        asked = self.round.tool_calls[self.position]
        return RequestedCall(self.tool_call_id, self.name, asked["function"]["arguments"])


def secret_hash(secret: str) -> str:
    """Plain SHA-256 is right here: a secret is 256 random bits, which no dictionary holds."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Verdict(models.TextChoices):
    UP = "up", _("Utile")
    DOWN = "down", _("À revoir")


class FeedbackReason(models.TextChoices):
    """What the reader finds wrong with an answer."""

    INCORRECT = "incorrect", _("Inexacte")
    INCOMPLETE = "incomplete", _("Incomplète")
    OFF_TOPIC = "off_topic", _("À côté de la question")
    BAD_SOURCE = "bad_source", _("Mauvaise source")
    OUTDATED = "outdated", _("Périmée")
    UNCLEAR = "unclear", _("Pas claire")
    OTHER = "other", _("Autre")


class FollowUp(models.TextChoices):
    """What has become of a thumb down; follows from the columns of its `Feedback`."""

    TODO = "todo", _("À traiter")
    SETTLED = "settled", _("Réglé")
    DISMISSED = "dismissed", _("Classé sans suite")


class FeedbackQuerySet(models.QuerySet["Feedback"]):
    def standing(self) -> Self:
        """Thumbs down that were not taken back. Each is open, settled or dismissed."""
        return self.filter(verdict=Verdict.DOWN, withdrawn_at=None)

    def open(self) -> Self:
        """Those that nothing and nobody has ended."""
        return self.standing().filter(settled_at=None, dismissed_at=None)

    def settled(self) -> Self:
        return self.standing().filter(settled_at__isnull=False)

    def dismissed(self) -> Self:
        return self.standing().filter(settled_at=None, dismissed_at__isnull=False)


class Feedback(models.Model):
    """What the reader says of an answer: one verdict a turn, changeable. Taken back, it stays for staff, marked."""

    turn = models.OneToOneField(Turn, on_delete=models.CASCADE, related_name="feedback", verbose_name=_("tour"))
    verdict = models.CharField(_("avis"), max_length=10, choices=Verdict.choices)
    reason = models.CharField(_("motif"), max_length=20, choices=FeedbackReason.choices, blank=True, default="")
    comment = models.TextField(_("commentaire"), blank=True, default="")
    created_at = models.DateTimeField(_("donné le"), auto_now_add=True)
    updated_at = models.DateTimeField(_("modifié le"), auto_now=True)
    withdrawn_at = models.DateTimeField(_("retiré le"), null=True, blank=True)
    #: When the stored answer was barred and the question kept; neither is done twice.
    reported_at = models.DateTimeField(_("signalé le"), null=True, blank=True)
    #: When a replay showed that a validated answer answers the question since, and which one.
    settled_at = models.DateTimeField(_("réglé le"), null=True, blank=True, editable=False)
    settled_by = models.ForeignKey(
        "faqs.LearnedResponse",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        verbose_name=_("réglé par"),
        editable=False,
    )
    #: Who of the staff ended it.
    owner = by_whom(_("suivi par"), editable=False)
    #: When staff decided that nothing is to be corrected.
    dismissed_at = models.DateTimeField(_("classé le"), null=True, blank=True, editable=False)

    objects = FeedbackQuerySet.as_manager()

    class Meta:
        verbose_name = _("avis")
        verbose_name_plural = _("avis")
        ordering: ClassVar = ["-updated_at"]
        indexes: ClassVar = [
            models.Index(fields=["verdict", "-updated_at"]),
            models.Index(
                fields=["updated_at"],
                condition=Q(verdict="down", withdrawn_at=None, settled_at=None, dismissed_at=None),
                name="open_verdicts",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_verdict_display()} · {self.turn_id}"

    @property
    def follow_up(self) -> FollowUp | None:
        """Whether staff have dealt with a thumb down; `None` for a thumb up, or a verdict that was taken back."""
        if self.verdict != Verdict.DOWN or self.withdrawn_at is not None:
            return None
        if self.settled_at is not None:
            return FollowUp.SETTLED
        return FollowUp.TODO if self.dismissed_at is None else FollowUp.DISMISSED


class RequestStatus(models.TextChoices):
    WAITING = "waiting", _("En attente")
    TAKEN = "taken", _("Prise")
    ANSWERED = "answered", _("Traitée")
    CLOSED = "closed", _("Fermée")


class MailState(models.TextChoices):
    DUE = "due", _("Courriel à envoyer")
    SENT = "sent", _("Courriel envoyé")
    FAILED = "failed", _("Courriel non remis")


class HelpRequest(models.Model):
    """A reader asks a person about an answer, once; with the person's answer (`chat.thread.help_requests`)."""

    turn = models.OneToOneField(Turn, on_delete=models.CASCADE, related_name="help_request", verbose_name=_("tour"))
    status = models.CharField(_("état"), max_length=10, choices=RequestStatus.choices, default=RequestStatus.WAITING)
    #: What a visitor left, until it is mailed; people with an account are mailed at its address.
    address = models.EmailField(blank=True, default="", editable=False)
    #: Of the mail: in which it was asked.
    language = models.CharField(max_length=10, editable=False)
    answer = models.TextField(_("réponse"), blank=True, default="")
    #: Empty where none is to be sent.
    mail = models.CharField(_("courriel"), max_length=10, choices=MailState.choices, blank=True, default="")
    #: Where the mail says that the conversation is.
    link = models.CharField(max_length=500, blank=True, default="", editable=False)
    #: Who of the staff has taken, answered or closed it.
    owner = by_whom(_("suivie par"), editable=False)
    created_at = models.DateTimeField(_("envoyée le"), auto_now_add=True, db_index=True)
    answered_at = models.DateTimeField(_("traitée le"), null=True, blank=True)

    class Meta:
        verbose_name = _("demande")
        verbose_name_plural = _("demandes à une personne")
        # What waits, then what is taken, the oldest first.
        ordering: ClassVar = ["-status", "created_at"]

    def __str__(self) -> str:
        return f"{self.get_status_display()} · {self.turn_id}"

    @property
    def recipient(self) -> str:
        """Whom the answer is mailed to; empty where it is read in the conversation alone."""
        user = self.turn.conversation.user
        return self.address if user is None else user.email


#: The name under which the migrations of 0.1.0, which never change, know the default of a column that is gone.
share_token = str


class ApiKey(models.Model):
    """A program's right to ask through `/v1`, or (*service token*) to write batches. Of its secret a hash is kept."""

    #: What staff recognise a key by: its first characters, far too few to guess the rest.
    PREFIX_CHARACTERS: ClassVar = 10

    name = models.CharField(_("nom"), max_length=100, unique=True)
    is_service = models.BooleanField(_("jeton de service"), default=False, db_default=False, editable=False)
    prefix = models.CharField(_("début de la clé"), max_length=20, editable=False)
    key_hash = models.CharField(max_length=64, unique=True, editable=False)
    deployments = models.ManyToManyField(
        Deployment,
        blank=True,
        related_name="api_keys",
        verbose_name=_("guichets"),
        help_text=_("La clé les ouvre, quel que soit leur public. Aucun : elle n’ouvre rien."),
    )
    #: Of a service token. Said, never deduced from an empty list: a list also empties when its deployments are deleted.
    all_deployments = models.BooleanField(
        _("toutes les conversations"),
        default=False,
        db_default=False,
        help_text=_("Ce jeton écrit dans les conversations de tous les guichets."),
    )
    is_revoked = models.BooleanField(_("révoquée"), default=False)
    expires_at = models.DateTimeField(_("expire le"), null=True, blank=True, help_text=_("Vide : jamais."))
    created_at = models.DateTimeField(_("créée le"), auto_now_add=True)
    last_used_at = models.DateTimeField(_("dernier usage"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("clé d’API")
        verbose_name_plural = _("clés d’API")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @classmethod
    def issue_service(cls, name: str, *deployments: Deployment) -> "tuple[ApiKey, str]":
        """A new service token and its secret; for these deployments, or for all where none is given."""
        token = cls(name=name, is_service=True, all_deployments=not deployments)
        secret = token.draw_secret()
        token.save()
        token.deployments.set(deployments)
        return token, secret

    def draw_secret(self) -> str:
        """Give this unsaved key its secret, which is returned and not kept."""
        secret = f"{'rsv' if self.is_service else 'rsk'}_{secrets.token_urlsafe(32)}"
        self.prefix, self.key_hash = secret[: self.PREFIX_CHARACTERS], secret_hash(secret)
        return secret


class DailyCount(models.Model):
    """Sums of the turns of a day with one exit, of deleted conversations; rows are added, and merged at night."""

    day = models.DateField()
    #: May have been deleted since.
    deployment = models.ForeignKey(
        Deployment, null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    #: The exit of an answered question, else `failed`, `interrupted` or `running`.
    ending = models.CharField(max_length=20, blank=True, default="")
    turns = models.PositiveIntegerField(default=0)
    llm_calls = models.PositiveBigIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    #: How many ended in one run, which took so long together.
    timed = models.PositiveIntegerField(default=0)
    milliseconds = models.PositiveBigIntegerField(default=0)
    up = models.PositiveIntegerField(default=0)
    down = models.PositiveIntegerField(default=0)
    resolved = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        default_permissions = ()
        verbose_name = _("chiffres d’un jour")
        verbose_name_plural = _("chiffres par jour")
        permissions: ClassVar = [("view_figures", _("Voir comment va le service, en chiffres"))]
        indexes: ClassVar = [models.Index(fields=["day"], name="counts_of_days")]

    def __str__(self) -> str:
        return f"{self.day} · {self.deployment_id}"


class GoldenSet(models.Model):
    """Questions with what is expected of their answers, asked of one deployment."""

    name = models.CharField(_("nom"), max_length=120, unique=True)
    deployment = models.ForeignKey(
        Deployment, on_delete=models.CASCADE, related_name="golden_sets", verbose_name=_("guichet")
    )
    language = models.CharField(
        _("langue"), max_length=2, choices=[("fr", _("Français")), ("en", _("Anglais"))], default="fr"
    )
    created_at = models.DateTimeField(_("créé le"), auto_now_add=True)

    class Meta:
        verbose_name = _("jeu de questions de référence")
        verbose_name_plural = _("jeux de questions de référence")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class GoldenQuestion(models.Model):
    """A question of a set; `expected` has the keys of a line of `evaluate`'s file (`chat.staff.golden`)."""

    golden_set = models.ForeignKey(GoldenSet, on_delete=models.CASCADE, related_name="questions", verbose_name=_("jeu"))
    question = models.TextField(_("question"), max_length=2_000)
    #: SHA-256 of the question as it is written: it stands in a set once.
    key = models.CharField(max_length=64, editable=False)
    expected = models.JSONField(_("attendu"), default=dict, blank=True)
    note = models.CharField(_("note"), max_length=500, blank=True, default="")
    created_at = models.DateTimeField(_("ajoutée le"), auto_now_add=True)

    class Meta:
        verbose_name = _("question de référence")
        verbose_name_plural = _("questions de référence")
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["golden_set", "key"], name="one_question_once_in_a_set")
        ]

    def __str__(self) -> str:
        return self.question[:80]


class GoldenRun(models.Model):
    """Questions asked without writing: of a set, or the last real ones; with `changes` twice. An empty result is due."""

    golden_set = models.ForeignKey(
        GoldenSet, null=True, on_delete=models.CASCADE, related_name="runs", verbose_name=_("jeu")
    )
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="+", verbose_name=_("guichet"))
    language = models.CharField(max_length=2, default="fr")
    changes = models.JSONField(default=dict)
    #: Asks the questions; none is left of a run that is long over.
    job = models.ForeignKey(
        Job, null=True, on_delete=models.SET_NULL, related_name="golden_runs", verbose_name=_("travail")
    )
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", verbose_name=_("par")
    )
    created_at = models.DateTimeField(_("demandé le"), auto_now_add=True)

    class Meta:
        verbose_name = _("essai de questions de référence")
        verbose_name_plural = _("essais de questions de référence")
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"{self.golden_set or self.deployment} · n°\u00a0{self.pk}"

    @property
    def is_over(self) -> bool:
        return self.job is None or self.job.status not in OPEN_JOBS


class GoldenResult(models.Model):
    """A question of a run, and what came of it: `after` of what is tried; `before` of what serves, where settings change."""

    run = models.ForeignKey(GoldenRun, on_delete=models.CASCADE, related_name="results")
    position = models.PositiveIntegerField()
    question = models.TextField()
    expected = models.JSONField(default=dict)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    #: Of a real question: it goes with its conversation.
    source_turn = models.UUIDField(null=True, db_index=True)

    class Meta:
        ordering: ClassVar = ["position"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["run", "position"], name="one_result_a_place")]

    def __str__(self) -> str:
        return self.question[:80]

    @property
    def has_passed(self) -> bool:
        return self.after is not None and not self.after["unmet"]

    @property
    def changes(self) -> list[str]:
        """What differs between the two: `answer_source`, `answer`, `sources`."""
        if not self.before or not self.after:
            return []
        names = ("answer_source", "answer", "sources")
        return [name for name in names if self.before.get(name) != self.after.get(name)]

    @property
    def verdict(self) -> Literal["worse", "better", "changed", "same", "failed"]:
        """What is tried beside things as they are: `worse` passed and fails, `better` failed and passes."""
        if self.before and self.after and bool(self.before["unmet"]) != bool(self.after["unmet"]):
            return "worse" if self.after["unmet"] else "better"
        if self.changes:
            return "changed"
        return "same" if self.has_passed else "failed"
