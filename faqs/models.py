"""Answers we already have: the memory (`responses`).

`CachedResponse` keeps exactly the fields of seed 000, section 3, and what is needed to answer safely: its scope, its
vector's recipe, its status, and the passages it was made from. Entries are written by the verbs of
`faqs.memory.entries` only: each write gives its rows the next version of their shelf, which the arrays in memory
follow. A bare `update()` or `bulk_create()` would go unseen.
"""

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents.models import Deployment
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
    CHUNK_CHANGED = "chunk_changed", _("un passage d’origine a changé ou a été supprimé")
    AGENT_CHANGED = "agent_changed", _("apprise d’un autre agent")
    REVIEW_DUE = "review_due", _("la date de relecture est passée")
    IMPORTED = "imported", _("importée, en attente d’une relecture")
    STAFF = "staff", _("décision de l’équipe")


class MemoryShelf(models.Model):
    """The memory of one deployment. Every write bumps `version`, which the arrays in memory follow.

    `uuid` identifies it to those arrays (a database may give a primary key twice, after a flush). Deletions up to
    `purged_version` have been forgotten: an array that has seen less is loaded anew.
    """

    deployment = models.OneToOneField(
        Deployment, primary_key=True, on_delete=models.CASCADE, related_name="memory"
    )
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.PositiveBigIntegerField(default=0)
    purged_version = models.PositiveBigIntegerField(default=0)

    class Meta:
        verbose_name = _("mémoire d’un déploiement")
        verbose_name_plural = _("mémoires des déploiements")

    def __str__(self) -> str:
        return f"{self.deployment} · {self.version}"


class CachedResponse(models.Model):
    """A question with the answer that was given to it, kept to answer it again without a model."""

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
        Deployment,
        on_delete=models.CASCADE,
        related_name="cached_responses",
        verbose_name=_("déploiement"),
    )
    audience = models.CharField(_("public"), max_length=200, editable=False)
    language = models.CharField(_("langue"), max_length=10, blank=True, default="")
    embedding_model = models.CharField(_("modèle d’embedding"), max_length=200, editable=False)
    recipe_key = models.CharField(max_length=16, editable=False)

    # Whether it may answer.
    status = models.CharField(
        _("état"), max_length=20, choices=EntryStatus.choices, default=EntryStatus.VALID
    )
    status_reason = models.CharField(
        _("raison"), max_length=20, choices=StatusReason.choices, blank=True, default=""
    )
    status_note = models.TextField(_("note"), blank=True, default="", max_length=2_000)
    #: Its age counts from here: when it was learned, or last confirmed by staff.
    confirmed_at = models.DateTimeField(_("confirmée le"), default=timezone.now, editable=False)
    review_on = models.DateField(
        _("à relire le"),
        null=True,
        blank=True,
        help_text=_("Passé ce jour, la réponse n’est plus donnée et revient à la relecture."),
    )

    # Where it comes from.
    sources = models.JSONField(_("sources"), default=list, blank=True, editable=False)
    source_turn = models.UUIDField(null=True, blank=True, editable=False)

    version = models.PositiveBigIntegerField(default=0, editable=False)

    class Meta:
        db_table = "responses"
        verbose_name = _("réponse en mémoire")
        verbose_name_plural = _("mémoire")
        ordering: ClassVar = ["-created_at", "-id"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["deployment", "audience", "key_hash"], name="response_once_per_scope"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["key_hash"], name="idx_responses_key_hash"),
            models.Index(fields=["created_at"], name="idx_responses_created_at"),
            models.Index(fields=["deployment", "version"], name="idx_responses_version"),
            models.Index(fields=["deployment", "confirmed_at"], name="idx_responses_confirmed_at"),
        ]

    def __str__(self) -> str:
        return self.question[:80]


class ResponseChunk(models.Model):
    """A passage that an entry was made from, as it was then: MD5 of its text, and of its answers where one was used.

    The chunk is no constraint and no cascade: what remains of the row once the chunk has gone is how its entries are
    found.
    """

    response = models.ForeignKey(CachedResponse, on_delete=models.CASCADE, related_name="chunks")
    chunk = models.ForeignKey(
        Chunk, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+"
    )
    with_units = models.BooleanField(default=False)
    fingerprint = models.CharField(max_length=32)

    class Meta:
        db_table = "responses_chunks"
        verbose_name = _("passage d’une réponse en mémoire")
        verbose_name_plural = _("passages des réponses en mémoire")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["response", "chunk", "with_units"], name="response_chunk_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.response_id} · {self.chunk_id}"


class WrongPair(models.Model):
    """A question to which an entry was wrongly given; it never is again.

    `answer_digest` is empty where the question is another than the entry's. Where it is the same, the answer itself
    was wrong: the digest tells it from the answer that staff write in its place.
    """

    response = models.ForeignKey(
        CachedResponse, on_delete=models.CASCADE, related_name="wrong_pairs"
    )
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
            models.UniqueConstraint(
                fields=["response", "question_hash", "answer_digest"], name="wrong_pair_once"
            )
        ]

    def __str__(self) -> str:
        return self.question[:80]


class DeletedResponse(models.Model):
    """That an entry is gone, until every array in memory can have seen it."""

    shelf = models.ForeignKey(MemoryShelf, on_delete=models.CASCADE, related_name="deleted")
    response_id = models.BigIntegerField()
    version = models.PositiveBigIntegerField()

    class Meta:
        db_table = "responses_deleted"
        verbose_name = _("réponse supprimée")
        verbose_name_plural = _("réponses supprimées")
        indexes: ClassVar = [models.Index(fields=["shelf", "version"])]

    def __str__(self) -> str:
        return str(self.response_id)
