"""Answers we already have, and the questions that still wait for one.

`CachedResponse` (the memory) has the fields of seed 000, section 3; only verbs of `faqs.memory` write its rows, since a
bare `update()` would go unseen by the arrays of processes. A `LearnedResponse` row is the truth from its commit on, and
owns the points of its phrasings, under one id in every index; `index_state` says whether they have followed.
"""

import uuid
from datetime import timedelta
from typing import Any, ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents.models import Agent, Deployment
from knowledge.models import Chunk

# The memory guard (seed 000).


class EntryStatus(models.TextChoices):
    VALID = "valid", _("Valide")
    TO_REVIEW = "to_review", _("À relire")
    OBSOLETE = "obsolete", _("Obsolète")


class StatusReason(models.TextChoices):
    """Why an entry is not (or no longer) served."""

    LEARNED = "learned", _("apprise, en attente d’une relecture")
    UNSOURCED = "unsourced", _("la réponse ne cite aucune source")
    IN_CONTEXT = "in_context", _("écrite à la suite d’autres échanges")
    REPORTED = "reported", _("signalée comme fausse")
    CHUNK_CHANGED = "chunk_changed", _("un passage d’origine a changé, a été désactivé ou supprimé")
    AGENT_CHANGED = "agent_changed", _("apprise d’un autre agent")
    REVIEW_DUE = "review_due", _("la date de relecture est passée")
    SUPERSEDED = "superseded", _("une réponse validée à la même question est plus récente")
    IMPORTED = "imported", _("importée, en attente d’une relecture")
    STAFF = "staff", _("décision de l’équipe")


class DeploymentMemory(models.Model):
    """The memory of one deployment. Every write bumps `version`, which the arrays in memory follow by `uuid`; one that
    has seen less than `purged_version`, that of the last deletion, is loaded anew.
    """

    deployment = models.OneToOneField(Deployment, primary_key=True, on_delete=models.CASCADE, related_name="memory")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.PositiveBigIntegerField(default=0)
    purged_version = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = _("mémoire d’un guichet")
        verbose_name_plural = _("mémoires des guichets")

    def __str__(self) -> str:
        return f"{self.deployment} · {self.version}"


class CachedResponse(models.Model):
    """An entry of a desk's memory: a question and its answer, given without a model to who asks the same (`faqs.recall`)."""

    # The columns of seed 000, section 3.
    key_hash = models.CharField(max_length=64, editable=False)
    question = models.TextField(_("question"))
    answer = models.TextField(_("réponse"))
    metadata = models.JSONField(_("métadonnées"), default=dict, blank=True)
    embedding = models.BinaryField(editable=False)
    created_at = models.DateTimeField(_("créée le"), default=timezone.now, editable=False)
    usage_count = models.PositiveIntegerField(_("utilisations"), default=0, editable=False)

    # Whom it may answer, and with which vectors it compares.
    deployment = models.ForeignKey(
        Deployment, on_delete=models.CASCADE, related_name="cached_responses", verbose_name=_("guichet")
    )
    audience = models.CharField(_("public"), max_length=200, editable=False)
    language = models.CharField(_("langue"), max_length=10, blank=True, default="")
    embedding_model = models.CharField(_("modèle d’embedding"), max_length=200, editable=False)
    recipe_key = models.CharField(max_length=16, editable=False)

    # Whether it may answer.
    status = models.CharField(_("état"), max_length=20, choices=EntryStatus.choices, default=EntryStatus.VALID)
    status_reason = models.CharField(_("raison"), max_length=20, choices=StatusReason.choices, blank=True, default="")
    status_note = models.TextField(_("note"), blank=True, default="", max_length=2_000)
    #: When a person last vouched for it; empty where the answer is only learned. The newest human word wins.
    validated_at = models.DateTimeField(_("validée le"), null=True, blank=True, editable=False)
    #: The validated answer that took its place (`faqs.precedence`).
    superseded_by = models.ForeignKey(
        "LearnedResponse",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="superseded_entries",
        verbose_name=_("remplacée par"),
        editable=False,
    )
    #: Its age counts from here: when it was learned, or last confirmed by staff.
    confirmed_at = models.DateTimeField(_("confirmée le"), default=timezone.now, editable=False)
    review_on = models.DateField(
        _("à relire le"),
        null=True,
        blank=True,
        help_text=_("Passé ce jour, la réponse n’est plus donnée et revient à la relecture."),
    )

    #: Learned in a conversation with a phase or a project (in the metadata): it answers in the same only.
    is_scoped = models.BooleanField(default=False, db_default=False, editable=False)

    # Where it comes from.
    sources = models.JSONField(_("sources"), default=list, blank=True, editable=False)
    source_turn = models.UUIDField(null=True, blank=True, editable=False)

    version = models.PositiveBigIntegerField(default=0, editable=False)

    class Meta:
        db_table = "responses"
        verbose_name = _("réponse en mémoire")
        verbose_name_plural = _("réponses en mémoire")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["deployment", "audience", "key_hash"], name="response_once_per_scope")
        ]
        indexes: ClassVar = [
            models.Index(fields=["key_hash"], name="idx_responses_key_hash"),
            models.Index(fields=["created_at"], name="idx_responses_created_at"),
            models.Index(fields=["deployment", "version"], name="idx_responses_version"),
            models.Index(fields=["deployment", "confirmed_at"], name="idx_responses_confirmed_at"),
            models.Index(fields=["created_at"], condition=Q(status="to_review"), name="idx_responses_to_review"),
        ]

    def __str__(self) -> str:
        return self.question[:80]


class Origin(models.Model):
    """A passage or a validated answer (`learned`) that an answer of either table was made from, as it was then.

    `fingerprint`: MD5 of a passage's text (`with_units`: and of its answers), or of a question and its answer. Neither
    source is a constraint: the row outlives it, and finds the answers made from it.
    """

    entry = models.ForeignKey(CachedResponse, null=True, on_delete=models.CASCADE, related_name="origins")
    answer = models.ForeignKey("LearnedResponse", null=True, on_delete=models.CASCADE, related_name="origins")
    chunk = models.ForeignKey(Chunk, null=True, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    learned = models.ForeignKey(
        "LearnedResponse", null=True, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+"
    )
    with_units = models.BooleanField(default=False, db_default=False)
    fingerprint = models.CharField(max_length=32)

    class Meta:
        verbose_name = _("origine d’une réponse")
        verbose_name_plural = _("origines des réponses")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["entry", "chunk", "with_units"], name="entry_passage_once"),
            models.UniqueConstraint(fields=["entry", "learned"], name="entry_answer_once"),
            models.UniqueConstraint(fields=["answer", "chunk", "with_units"], name="answer_passage_once"),
        ]

    def __str__(self) -> str:
        return f"{self.pk} · {self.chunk_id or self.learned_id}"


class WrongPair(models.Model):
    """A question to which an entry was wrongly given, and is never given again.

    `answer_digest` is empty where the question differs from the entry's. Where it is the same, the answer itself was
    wrong: the digest tells it from the answer that staff write in its place.
    """

    response = models.ForeignKey(CachedResponse, on_delete=models.CASCADE, related_name="wrong_pairs")
    question_hash = models.CharField(max_length=64, editable=False)
    answer_digest = models.CharField(max_length=32, blank=True, default="", editable=False)
    question = models.TextField(_("question"))
    reason = models.TextField(_("raison"), blank=True, default="")
    source_turn = models.UUIDField(null=True, blank=True, editable=False)
    reported_at = models.DateTimeField(_("signalée le"), default=timezone.now, editable=False)

    class Meta:
        db_table = "responses_wrong_pairs"
        verbose_name = _("réponse signalée")
        verbose_name_plural = _("réponses signalées")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["response", "question_hash", "answer_digest"], name="wrong_pair_once")
        ]

    def __str__(self) -> str:
        return self.question[:80]


class LearnedKind(models.TextChoices):
    FAQ = "faq", _("Question fréquente")
    COURTESY = "courtesy", _("Formule de politesse")


class LearnedStatus(models.TextChoices):
    VALID = "valid", _("Valide")
    TO_REVIEW = "to_review", _("À revoir")
    OBSOLETE = "obsolete", _("Obsolète")


class IndexState(models.TextChoices):
    PENDING = "pending", _("En attente d’indexation")
    INDEXED = "indexed", _("Indexée")
    FAILED = "failed", _("Indexation en échec")
    WITHDRAWN = "withdrawn", _("Retirée de l’index")


def validity_condition(prefix: str = "") -> Q:
    """Valid (or given while it is reviewed), and its review date not passed; `prefix` leads from another model."""
    today = timezone.localdate()
    undated, ahead = Q(**{f"{prefix}review_date": None}), Q(**{f"{prefix}review_date__gte": today})
    valid = Q(**{f"{prefix}status": LearnedStatus.VALID})
    in_review = Q(**{f"{prefix}status": LearnedStatus.TO_REVIEW, f"{prefix}is_given_in_review": True})
    return (valid | in_review) & (undated | ahead)


class LearnedResponseQuerySet(models.QuerySet["LearnedResponse"]):
    def valid(self) -> Self:
        """Rows that should have points: valid, and their review date not passed."""
        return self.filter(validity_condition())

    def unsettled(self) -> Self:
        """Rows whose last change is not applied everywhere yet: points written, older answers withdrawn."""
        return self.filter(settled_revision__lt=F("revision"))

    def mark_pending(self, **changes: Any) -> int:
        """Apply changes and mark the rows as not indexed; returns how many."""
        # A worker is nudged at once; the recovery waits a little, so as not to do the same work beside it.
        grace = timezone.now() + timedelta(seconds=settings.JOB_REAP_SECONDS)
        return self.update(
            index_state=IndexState.PENDING,
            index_error="",
            attempts=0,
            next_attempt_at=grace,
            revision=F("revision") + 1,
            **changes,
        )

    def review_overdue(self) -> Self:
        return self.filter(status=LearnedStatus.VALID, review_date__lt=timezone.localdate())

    def due_for_indexing(self) -> Self:
        """Rows whose points have not followed them and whose next try has come."""
        return self.filter(
            Q(next_attempt_at=None) | Q(next_attempt_at__lte=timezone.now()),
            Q(index_state__in=[IndexState.PENDING, IndexState.FAILED]) | Q(settled_revision__lt=F("revision")),
        )


class LearnedResponse(models.Model):
    """A validated answer with its question; other ways to ask it are its `phrasings`."""

    agent = models.ForeignKey(
        Agent, on_delete=models.CASCADE, related_name="learned_responses", verbose_name=_("agent")
    )
    kind = models.CharField(_("nature"), max_length=20, choices=LearnedKind.choices, default=LearnedKind.FAQ)
    question = models.CharField(_("question"), max_length=1_000)
    #: The question without case and closing punctuation: finds the row again at an import.
    question_key = models.CharField(max_length=1_000, editable=False)
    point_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    answer = models.TextField(_("réponse"), blank=True)
    category = models.CharField(_("catégorie"), max_length=200, blank=True, default="FAQ")
    status = models.CharField(_("validité"), max_length=20, choices=LearnedStatus.choices, default=LearnedStatus.VALID)
    status_reason = models.CharField(_("raison"), max_length=500, blank=True, default="")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="learned_responses",
        verbose_name=_("responsable"),
    )
    review_date = models.DateField(
        _("à revoir le"),
        null=True,
        blank=True,
        help_text=_("Passé ce jour, la réponse n’est plus servie jusqu’à sa relecture."),
    )
    #: The message that was validated, by the identifier of its turn; no foreign key points upwards.
    source_message = models.UUIDField(null=True, blank=True, editable=False)
    index_state = models.CharField(_("index"), max_length=20, choices=IndexState.choices, default=IndexState.PENDING)
    index_error = models.TextField(_("dernière erreur d’indexation"), blank=True, default="")
    attempts = models.PositiveIntegerField(_("essais"), default=0)
    next_attempt_at = models.DateTimeField(_("prochain essai"), null=True, blank=True)
    indexed_at = models.DateTimeField(_("indexée le"), null=True, blank=True)
    #: Raised by every change of what is indexed, so that an indexing of an older text cannot count as done.
    revision = models.PositiveIntegerField(default=1, editable=False)
    #: The revision that has taken effect everywhere: points written, and what it supersedes withdrawn.
    settled_revision = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    #: When a person last wrote, validated or restored it. The newest human word wins (`faqs.precedence`).
    validated_at = models.DateTimeField(_("validée le"), null=True, blank=True, editable=False)
    #: What took its place: a newer validated answer, or an entry of the memory that staff validated since.
    superseded_by = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="superseded_answers",
        verbose_name=_("remplacée par"),
        editable=False,
    )
    superseded_by_entry = models.ForeignKey(
        CachedResponse,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="superseded_answers",
        verbose_name=_("remplacée par l’entrée"),
        editable=False,
    )
    #: To review because a passage changed, and given meanwhile (`withhold_stale_answers` was off).
    is_given_in_review = models.BooleanField(default=False, db_default=False, editable=False)
    times_served = models.PositiveIntegerField(_("réponses données"), default=0)
    last_served_at = models.DateTimeField(_("dernière réponse"), null=True, blank=True)
    created_at = models.DateTimeField(_("créée le"), auto_now_add=True)
    updated_at = models.DateTimeField(_("modifiée le"), auto_now=True)

    objects = LearnedResponseQuerySet.as_manager()

    class Meta:
        verbose_name = _("réponse validée")
        verbose_name_plural = _("réponses validées (FAQ)")
        ordering: ClassVar = ["-updated_at"]
        indexes: ClassVar = [
            models.Index(fields=["agent", "question_key"]),
            models.Index(fields=["index_state", "next_attempt_at"]),
            models.Index(fields=["status", "review_date"]),
            models.Index(
                fields=["agent"], condition=Q(settled_revision__lt=F("revision")), name="idx_answers_unsettled"
            ),
            models.Index(fields=["updated_at"], condition=Q(status="to_review"), name="idx_answers_to_review"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["agent", "source_message"],
                condition=Q(source_message__isnull=False),
                name="message_learned_once_per_agent",
            )
        ]

    def __str__(self) -> str:
        return self.question

    def points(self) -> list[tuple[str, str]]:
        """The point and the text of every way to ask it, the question first."""
        others = [(str(phrasing.point_id), phrasing.text) for phrasing in self.phrasings.all()]
        return [(str(self.point_id), self.question), *others]

    @property
    def is_valid(self) -> bool:
        """Whether this row should have points; the same rule as the queryset's."""
        overdue = self.review_date is not None and self.review_date < timezone.localdate()
        in_review = self.status == LearnedStatus.TO_REVIEW and self.is_given_in_review
        return (self.status == LearnedStatus.VALID or in_review) and not overdue


class Phrasing(models.Model):
    """Another way to ask a learned response's question. It owns its point for as long as it exists."""

    response = models.ForeignKey(
        LearnedResponse, on_delete=models.CASCADE, related_name="phrasings", verbose_name=_("réponse validée")
    )
    text = models.CharField(_("formulation"), max_length=1_000)
    point_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)

    class Meta:
        verbose_name = _("autre formulation")
        verbose_name_plural = _("autres formulations")
        ordering: ClassVar = ["pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["response", "text"], name="phrasing_once_per_response")
        ]

    def __str__(self) -> str:
        return self.text


class UnansweredReason(models.TextChoices):
    REFUSED = "refused", _("Refusée par le garde-fou")
    REPORTED = "reported", _("Réponse signalée")


class GroupStatus(models.TextChoices):
    OPEN = "open", _("À traiter")
    DRAFTED = "drafted", _("Réponse en préparation")
    ANSWERED = "answered", _("Répondue")
    DISMISSED = "dismissed", _("Écartée")


class QuestionGroup(models.Model):
    """Unanswered questions that mean the same; named after its first question, whose vector the others are compared to."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="question_groups", verbose_name=_("agent"))
    question = models.CharField(_("question"), max_length=500)
    status = models.CharField(_("état"), max_length=20, choices=GroupStatus.choices, default=GroupStatus.OPEN)
    response = models.ForeignKey(
        LearnedResponse,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="question_groups",
        verbose_name=_("réponse validée"),
    )
    #: When a correction answered its last question.
    answered_at = models.DateTimeField(_("répondu le"), null=True, blank=True, editable=False)
    recipe = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(_("créé le"), auto_now_add=True)
    vector = models.BinaryField(editable=False)

    class Meta:
        verbose_name = _("groupe de questions sans réponse")
        verbose_name_plural = _("questions sans réponse")
        ordering: ClassVar = ["-pk"]
        indexes: ClassVar = [models.Index(fields=["agent", "recipe"])]

    def __str__(self) -> str:
        return self.question


class UnansweredQuestion(models.Model):
    """One question that was refused, poorly answered or reported; forgotten after the retention time."""

    agent = models.ForeignKey(
        Agent, on_delete=models.CASCADE, related_name="unanswered_questions", verbose_name=_("agent")
    )
    group = models.ForeignKey(
        QuestionGroup,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="questions",
        verbose_name=_("groupe"),
    )
    question = models.CharField(_("question"), max_length=500)
    reason = models.CharField(_("raison"), max_length=20, choices=UnansweredReason.choices)
    score = models.FloatField(_("meilleur score"), null=True, blank=True)
    source_turn = models.UUIDField(unique=True, editable=False)
    asked_at = models.DateTimeField(_("posée le"), default=timezone.now)
    #: The correction that answers it.
    answered_by = models.ForeignKey(
        LearnedResponse,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        verbose_name=_("répondue par"),
        editable=False,
    )
    recipe = models.CharField(max_length=64, editable=False)
    vector = models.BinaryField(editable=False)

    class Meta:
        verbose_name = _("question sans réponse")
        verbose_name_plural = _("questions sans réponse")
        ordering: ClassVar = ["-asked_at"]
        indexes: ClassVar = [models.Index(fields=["agent", "asked_at"]), models.Index(fields=["asked_at"])]

    def __str__(self) -> str:
        return self.question
