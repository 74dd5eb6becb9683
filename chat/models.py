"""Conversations, turns and messages.

A *turn* is one user message to one final answer; it owns the trace and claims the `client_message_id`. Messages are
read through `Message.objects.for_conversation` only, and are written by `chat.thread` only. What must never happen
twice is a constraint here: one turn for a client message, one running turn for a conversation, one message of a role
for a turn.
"""

import uuid
from typing import ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from agents.models import Deployment


class ConversationQuerySet(models.QuerySet["Conversation"]):
    def owned_by(self, *, user_id: int | None, visitor: uuid.UUID | None) -> Self:
        """The conversations of a signed-in user, or of an anonymous visitor's browser; never both, never others'."""
        if user_id is not None:
            return self.filter(user_id=user_id)
        if visitor is not None:
            return self.filter(user=None, visitor=visitor)
        return self.none()


class Conversation(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey(
        Deployment,
        on_delete=models.CASCADE,
        related_name="conversations",
        verbose_name=_("déploiement"),
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
    title = models.CharField(_("titre"), max_length=200, blank=True, default="")
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


class AnswerSource(models.TextChoices):
    """By which exit of the path a question was answered."""

    MEMORY_GUARD = "memory_guard", _("Mémoire")
    DIRECT_QA = "direct_qa", _("Réponse directe")
    GUARD_RAIL = "guard_rail", _("Garde-fou")
    LLM = "llm", _("Modèle de langage")
    EXTRACTIVE = "extractive", _("Passages cités")


class MessageType(models.TextChoices):
    """What a message is to the orchestration of seed 000, section 2; follows from its role and its turn's exit."""

    USER_REQUEST = "user_request", _("Question")
    RESPONSE = "response", _("Réponse")
    CACHED_RESPONSE = "cached_response", _("Réponse en mémoire")


class TurnStatus(models.TextChoices):
    RUNNING = "running", _("En cours")
    DONE = "done", _("Terminé")
    INTERRUPTED = "interrupted", _("Interrompu")
    FAILED = "failed", _("En échec")


class Turn(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="turns", verbose_name=_("conversation")
    )
    client_message_id = models.CharField(max_length=100, editable=False)
    status = models.CharField(
        _("état"), max_length=20, choices=TurnStatus.choices, default=TurnStatus.RUNNING
    )
    answer_source = models.CharField(
        _("voie de réponse"), max_length=20, choices=AnswerSource.choices, blank=True, default=""
    )
    model = models.CharField(_("modèle"), max_length=200, blank=True, default="")
    score = models.FloatField(_("score de la réponse"), null=True, blank=True)
    best_score = models.FloatField(_("meilleur score"), null=True, blank=True)
    llm_calls = models.PositiveSmallIntegerField(_("appels au modèle"), default=0)
    prompt_tokens = models.PositiveIntegerField(_("tokens lus"), default=0)
    completion_tokens = models.PositiveIntegerField(_("tokens écrits"), default=0)
    trace = models.JSONField(_("trace"), default=list, blank=True)
    error_code = models.CharField(_("erreur"), max_length=50, blank=True, default="")
    #: Renewed by the process that runs the turn; past it, the process is taken for dead.
    lease_expires_at = models.DateTimeField(editable=False)
    started_at = models.DateTimeField(_("commencé le"), auto_now_add=True)
    finished_at = models.DateTimeField(_("fini le"), null=True, blank=True)

    class Meta:
        verbose_name = _("tour")
        verbose_name_plural = _("tours")
        ordering: ClassVar = ["started_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["conversation", "client_message_id"], name="one_turn_per_client_message"
            ),
            models.UniqueConstraint(
                fields=["conversation"],
                condition=Q(status="running"),
                name="one_running_turn_per_conversation",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_status_display()} · {self.id}"


class Role(models.TextChoices):
    USER = "user", _("Utilisateur")
    ASSISTANT = "assistant", _("Assistant")


class MessageQuerySet(models.QuerySet["Message"]):
    def for_conversation(self, conversation_id: uuid.UUID) -> Self:
        """The only way in: a thread is never read without saying whose it is."""
        return self.filter(conversation_id=conversation_id).order_by("id")


class Message(models.Model):
    conversation = models.ForeignKey(
        Conversation,
        on_delete=models.CASCADE,
        related_name="messages",
        verbose_name=_("conversation"),
    )
    turn = models.ForeignKey(
        Turn, on_delete=models.CASCADE, related_name="messages", verbose_name=_("tour")
    )
    role = models.CharField(_("rôle"), max_length=20, choices=Role.choices)
    content = models.TextField(_("texte"))
    sources = models.JSONField(_("sources"), default=list, blank=True)
    created_at = models.DateTimeField(_("écrit le"), auto_now_add=True)

    objects = MessageQuerySet.as_manager()

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        ordering: ClassVar = ["id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["turn", "role"], name="one_message_per_role_and_turn")
        ]

    def __str__(self) -> str:
        return f"{self.get_role_display()} · {self.content[:60]}"

    @property
    def type(self) -> MessageType:
        if self.role == Role.USER:
            return MessageType.USER_REQUEST
        if self.turn.answer_source == AnswerSource.MEMORY_GUARD:
            return MessageType.CACHED_RESPONSE
        return MessageType.RESPONSE
