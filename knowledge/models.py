"""Categories, documents, chunks, index builds, and the rows of the table vector store.

The database is the truth: everything in a vector store can be rebuilt from here. A chunk keeps its identity, points and
vectors as long as its text stays (`content_hash`). What staff change is kept beside what the document says (`source`).
"""

import uuid
from pathlib import PurePath
from typing import ClassVar, Self
from urllib.parse import quote

from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from agents.models import JOB_FAILURES, Agent, Job, JobKind, JobQuerySet, by_whom

#: A passage longer than this is cut in a prompt.
MAX_PASSAGE_CHARACTERS = 6_000
#: A longer question or answer is not taken for one, whether found in a document or written by the model.
QA_MAX_ANSWER_CHARACTERS = 6_000
QA_MAX_QUESTION_CHARACTERS = 300


class Category(models.Model):
    name = models.CharField(_("nom"), max_length=200, unique=True)

    class Meta:
        verbose_name = _("catégorie")
        verbose_name_plural = _("catégories")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name


class SourceType(models.TextChoices):
    MARKDOWN = "markdown", "Markdown"
    TEXT = "text", _("Texte")
    HTML = "html", "HTML"
    PDF = "pdf", "PDF"
    DOCX = "docx", "DOCX"
    PPTX = "pptx", "PPTX"
    XLSX = "xlsx", "XLSX"
    CSV = "csv", "CSV"
    ODT = "odt", "ODT"
    ODS = "ods", "ODS"


class DocumentStatus(models.TextChoices):
    PENDING = "pending", _("En attente")
    INDEXED = "indexed", _("Indexé")
    FAILED = "failed", _("En échec")


def _document_path(document: "Document", filename: str) -> str:
    """Uploaded files are kept under the document's own identifier, never under a name that a user chose."""
    suffix = filename.rsplit(".", 1)[-1].lower() if "." in filename else "bin"
    return f"{document.uuid.hex[:2]}/{document.uuid.hex}.{suffix[:10]}"


class SourceKind(models.TextChoices):
    PAGE = "page", _("Une page")
    SITEMAP = "sitemap", _("Un plan de site (sitemap)")


class WebSource(models.Model):
    """An address that staff gave, a page or a sitemap with its pages; read again when it is due (empty: never)."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="web_sources", verbose_name=_("agent"))
    url = models.CharField(_("adresse"), max_length=500)
    kind = models.CharField(_("nature"), max_length=20, choices=SourceKind.choices, default=SourceKind.PAGE)
    category = models.ForeignKey(
        Category, null=True, blank=True, on_delete=models.SET_NULL, verbose_name=_("catégorie")
    )
    refresh_hours = models.PositiveIntegerField(
        _("relire toutes les (heures)"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(8_760)],
        help_text=_("Vide : le réglage de l’agent ou du site. 0 : jamais."),
    )
    is_active = models.BooleanField(_("suivie"), default=True)
    error = models.TextField(_("raison de l’échec"), blank=True, default="", editable=False)
    checked_at = models.DateTimeField(_("lue le"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("ajoutée le"), auto_now_add=True)

    class Meta:
        verbose_name = _("adresse du web")
        verbose_name_plural = _("adresses du web")
        ordering: ClassVar = ["url"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["agent", "url"], name="web_source_once_per_agent")]

    def __str__(self) -> str:
        return self.url


class Document(models.Model):
    """One file given by staff, or one page of the web; `name` is its path or address, once in an agent."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="documents", verbose_name=_("agent"))
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name = models.CharField(_("fichier"), max_length=500)
    title = models.CharField(_("titre"), max_length=500, blank=True, default="")
    given_title = models.CharField(
        _("titre donné"),
        max_length=500,
        blank=True,
        default="",
        db_default="",
        help_text=_("Prend la place de celui que la lecture trouve. Vide : celui de la lecture."),
    )
    category = models.ForeignKey(
        Category, null=True, blank=True, on_delete=models.SET_NULL, verbose_name=_("catégorie")
    )
    source_type = models.CharField(_("format"), max_length=20, choices=SourceType.choices, blank=True, default="")
    #: A code (ISO 639), found when the file is read; empty where its text is too short to tell.
    language = models.CharField(_("langue"), max_length=8, blank=True, default="", editable=False)
    file = models.FileField(_("contenu"), upload_to=_document_path, max_length=200)
    file_hash = models.CharField(max_length=64, blank=True, default="", editable=False)
    #: Its passages are those of the file before this one: they answer no more.
    is_replaced = models.BooleanField(default=False, db_default=False, editable=False)
    status = models.CharField(_("état"), max_length=20, choices=DocumentStatus.choices, default=DocumentStatus.PENDING)
    error = models.TextField(_("raison de l’échec"), blank=True, default="")
    #: What its last reading left out or cut, a line each.
    notices = models.TextField(_("remarques de lecture"), blank=True, default="", db_default="", editable=False)
    enabled = models.BooleanField(
        _("actif"), default=True, help_text=_("Les passages d’un document désactivé ne servent plus à répondre.")
    )
    created_at = models.DateTimeField(_("ajouté le"), auto_now_add=True)
    indexed_at = models.DateTimeField(_("indexé le"), null=True, blank=True)
    #: By indexing method, the fingerprint of the rows that the points were made of.
    indexed_state = models.JSONField(default=dict, blank=True, editable=False)

    class Meta:
        verbose_name = _("document")
        verbose_name_plural = _("documents")
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["agent", "name"], name="document_once_per_agent")]
        indexes: ClassVar = [models.Index(fields=["created_at"], condition=Q(status="failed"), name="failed_documents")]

    def __str__(self) -> str:
        return self.title or self.name

    @property
    def url(self) -> str:
        """Where its page is, else an empty string."""
        return page_address(self.name)

    @property
    def file_name(self) -> str:
        """The name its file is read under, with the suffix as stored: an address may say nothing of its format."""
        suffix = PurePath(self.file.name or "").suffix
        if not self.url or self.name.lower().endswith(suffix):
            return self.name
        return f"{self.name.rstrip('/')}{suffix}"


#: What an identifier may hold that a fragment of an address holds as well (RFC 3986, section 3.5).
_IN_FRAGMENTS = "!$&'()*+,;=:@/?"


def page_address(name: str, anchor: str = "") -> str:
    """A name or a path that is an address of the web (at a place of the page, with its identifier), else empty."""
    if not name.lower().startswith(("http://", "https://")):
        return ""
    return f"{name}#{quote(anchor, safe=_IN_FRAGMENTS)}" if anchor and "#" not in name else name


class PageState(models.TextChoices):
    """How a page was found when it was last looked for."""

    WAITING = "waiting", _("Pas encore lue")
    PRESENT = "present", _("En ligne")
    FAILED = "failed", _("Non lue la dernière fois")
    GONE = "gone", _("Disparue")
    LEFT = "left", _("Sortie du plan du site")


class WebPage(models.Model):
    """What is known of a document's page: whose it is, how it was last found, and its marks for a conditional GET."""

    document = models.OneToOneField(Document, on_delete=models.CASCADE, primary_key=True, related_name="page")
    source = models.ForeignKey(WebSource, null=True, on_delete=models.SET_NULL, related_name="pages")
    state = models.CharField(_("page"), max_length=20, choices=PageState.choices, default=PageState.WAITING)
    error = models.TextField(blank=True, default="")
    etag = models.CharField(max_length=200, blank=True, default="")
    last_modified = models.CharField(max_length=100, blank=True, default="")
    checked_at = models.DateTimeField(_("lue le"), null=True, blank=True)
    #: Whether the refresh disabled the document, and so enables it when the page is back.
    switched_off = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("page du web")
        verbose_name_plural = _("pages du web")

    def __str__(self) -> str:
        return str(self.document)


class UnitsOrigin(models.TextChoices):
    """Where a chunk's questions and answers come from."""

    WAITING = "waiting", _("En attente de questions")
    FOUND = "found", _("Trouvées dans le document")
    GENERATED = "generated", _("Écrites par le modèle")
    STAFF = "staff", _("Écrites ou relues par l’équipe")


class ChunkQuerySet(models.QuerySet["Chunk"]):
    def waiting(self) -> Self:
        """Chunks without questions: they are found by their content only."""
        return self.filter(units_origin=UnitsOrigin.WAITING)

    def served(self) -> Self:
        """Chunks that have points and may answer."""
        return self.filter(enabled=True, document__enabled=True)

    def current(self) -> Self:
        """Served chunks of documents whose file has not been replaced since."""
        return self.served().filter(document__is_replaced=False)


class Chunk(models.Model):
    """A useful piece of a document, with its heading path and its knowledge units (`[{question, answer}]`)."""

    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="chunks", verbose_name=_("document"))
    index = models.PositiveIntegerField(_("rang"))
    parent_context = models.TextField(_("chemin de titres"), blank=True, default="")
    content = models.TextField(_("texte"))
    summary = models.TextField(_("résumé"), blank=True, default="")
    keywords = models.JSONField(_("mots-clés"), default=list, blank=True)
    category = models.ForeignKey(
        Category, null=True, blank=True, on_delete=models.SET_NULL, verbose_name=_("catégorie")
    )
    knowledge_units = models.JSONField(_("questions et réponses"), default=list, blank=True)
    units_origin = models.CharField(
        _("questions"), max_length=20, choices=UnitsOrigin.choices, default=UnitsOrigin.WAITING
    )
    enabled = models.BooleanField(
        _("actif"), default=True, help_text=_("Un passage désactivé n’est ni indexé ni utilisé pour répondre.")
    )
    #: What the document says, as a hash of the draft that this chunk stands for.
    content_hash = models.CharField(max_length=64, editable=False)
    #: Where staff changed the chunk: what the document said then (`{content, parent_context, units}`).
    source = models.JSONField(null=True, blank=True, editable=False)
    #: Where the document has changed in the same place: what it says now, with `kind` (changed, removed).
    conflict = models.JSONField(null=True, blank=True, editable=False)
    #: The page that it begins on, from 1; null where that is not known, or its format has none.
    page = models.PositiveIntegerField(_("page"), null=True, blank=True, editable=False)
    #: Where it stands on its pages: `[page, left, top, right, bottom]`, boxes as shares of the page.
    places = models.JSONField(null=True, blank=True, editable=False)
    #: The identifier by which its page of the web opens at it; empty where the page has none there.
    anchor = models.CharField(max_length=200, blank=True, default="", db_default="", editable=False)
    #: The model that was asked and the text it was given, so that the same question is not paid twice.
    asked_with = models.CharField(max_length=300, blank=True, default="", editable=False)

    objects = ChunkQuerySet.as_manager()

    class Meta:
        verbose_name = _("passage")
        verbose_name_plural = _("passages")
        ordering: ClassVar = ["document", "index"]
        indexes: ClassVar = [models.Index(fields=["document", "index"])]

    def __str__(self) -> str:
        return f"{self.document} · {self.index + 1}"

    @property
    def is_edited(self) -> bool:
        return self.source is not None


class SynonymState(models.TextChoices):
    FOUND = "found", _("Trouvé")
    CONFIRMED = "confirmed", _("Confirmé")
    REFUSED = "refused", _("Refusé")


class Synonym(models.Model):
    """Two forms of one thing in an agent: an acronym that documents spell out, or a synonym of its staff. What only
    documents taught goes with them; what staff decided stays. A refused pair is kept, so that no document teaches it
    again. The keys are the forms folded (`knowledge.synonyms`)."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="synonyms", verbose_name=_("agent"))
    short = models.CharField(_("forme courte"), max_length=60)
    long = models.CharField(_("forme longue"), max_length=300)
    short_key = models.CharField(max_length=60, editable=False)
    long_key = models.CharField(max_length=300, editable=False)
    state = models.CharField(_("état"), max_length=20, choices=SynonymState.choices, default=SynonymState.FOUND)
    documents: "models.ManyToManyField[Document, models.Model]" = models.ManyToManyField(
        Document, blank=True, related_name="synonyms", verbose_name=_("documents"), editable=False
    )
    created_at = models.DateTimeField(_("ajouté le"), auto_now_add=True)

    class Meta:
        verbose_name = _("sigle ou synonyme")
        verbose_name_plural = _("sigles et synonymes")
        ordering: ClassVar = ["short", "long"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["agent", "short_key", "long_key"], name="synonym_once_per_agent")
        ]

    def __str__(self) -> str:
        return f"{self.short} = {self.long}"


class BuildPhase(models.TextChoices):
    """What a build is doing, and what its progress counts."""

    FETCHING = "fetching", _("Pages du web")
    READING = "reading", _("Lecture des documents")
    QUESTIONS = "questions", _("Questions écrites par le modèle")
    VECTORS = "vectors", _("Points")


#: Jobs that make an index.
BUILD_KINDS = (JobKind.DOCUMENTS, JobKind.REBUILD, JobKind.SYNC, JobKind.REFRESH, JobKind.QUESTIONS)


class _Builds(models.Manager["IndexBuild"]):
    def get_queryset(self) -> "JobQuerySet[IndexBuild]":
        shown = models.Q(kind__in=BUILD_KINDS) | models.Q(status__in=JOB_FAILURES)
        return JobQuerySet(self.model, using=self._db).filter(shown)


class IndexBuild(Job):
    """A job that makes an index; any other kind once it has failed, so that staff see it and try it again."""

    objects = _Builds.from_queryset(JobQuerySet)()  # type: ignore[misc, assignment]  # of fewer rows

    class Meta:
        proxy = True
        verbose_name = _("indexation")
        verbose_name_plural = _("indexations")

    @property
    def indexed_agent(self) -> Agent:
        if self.agent is None:
            raise TypeError(f"The build {self.pk} has no agent.")
        return self.agent

    @property
    def method(self) -> str:
        return str(self.payload.get("method", ""))

    @property
    def generation(self) -> str:
        return str(self.payload.get("generation", ""))

    @property
    def document_ids(self) -> list[int]:
        return list(self.payload.get("document_ids", ()))

    @property
    def address(self) -> str:
        """Of the pages that are read again."""
        return str(self.payload.get("address", ""))

    def get_phase_display(self) -> str:
        return str(BuildPhase(self.phase).label) if self.phase in BuildPhase.values else self.phase


class VectorCollection(models.Model):
    """A collection of the table store, or an alias (with a `target`); matrices follow its `version` by its `uuid`.
    Deletions up to `purged_version` have been purged: a matrix that has seen less is loaded anew."""

    name = models.CharField(max_length=250, unique=True)
    target = models.ForeignKey("self", on_delete=models.CASCADE, null=True, related_name="aliases")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    recipe = models.JSONField(default=dict)
    version = models.PositiveBigIntegerField(default=0)
    purged_version = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("collection de vecteurs")
        verbose_name_plural = _("collections de vecteurs")

    def __str__(self) -> str:
        return self.name


class VectorPoint(models.Model):
    """A point of the table store; a deletion leaves a row with `deleted` set until every reader can have seen it."""

    collection = models.ForeignKey(VectorCollection, on_delete=models.CASCADE, related_name="points")
    point_id = models.UUIDField()
    version = models.PositiveBigIntegerField()
    deleted = models.BooleanField(default=False)
    payload = models.JSONField()
    # The payload's words as the lexical index holds them; null in rows written before there was one.
    terms = models.BinaryField(null=True)
    # Last, so that reading payloads alone does not walk through the pages of the vectors.
    vector = models.BinaryField()

    class Meta:
        verbose_name = _("point")
        verbose_name_plural = _("points")
        constraints: ClassVar = [models.UniqueConstraint(fields=["collection", "point_id"], name="vector_point_once")]
        indexes: ClassVar = [models.Index(fields=["collection", "version"])]

    def __str__(self) -> str:
        return str(self.point_id)


class ThresholdCalibration(models.Model):
    """Thresholds measured on labelled pairs for one embedding model, over its shipped profile. `index` is an agent's
    identifier, or empty for every agent. An empty threshold: none kept within the budget, that exit stays off. The
    figures are those at the direct threshold, second key included."""

    model = models.CharField(_("modèle d’embedding"), max_length=200)
    index = models.CharField(_("index"), max_length=80, blank=True, default="")
    direct_answer = models.FloatField(_("seuil de réponse directe"), null=True, blank=True)
    memory = models.FloatField(_("seuil de la mémoire"), null=True, blank=True)
    budget = models.FloatField(_("part d’erreurs admise"))
    hits = models.PositiveIntegerField(_("bonnes réponses données"))
    same_pairs = models.PositiveIntegerField(_("paires de même réponse"))
    false_hits = models.PositiveIntegerField(_("mauvaises réponses données"))
    different_pairs = models.PositiveIntegerField(_("paires de réponse différente"))
    source = models.CharField(_("source"), max_length=250)
    created_at = models.DateTimeField(_("calibré le"), auto_now=True)

    class Meta:
        verbose_name = _("calibrage")
        verbose_name_plural = _("calibrages")
        ordering: ClassVar = ["model", "index"]
        constraints: ClassVar = [models.UniqueConstraint(fields=["model", "index"], name="one_calibration_per_index")]

    def __str__(self) -> str:
        return f"{self.model} {self.index}".strip()


class PairVerdict(models.Model):
    """Staff's word on two questions: does one answer do for both? What `calibrate_thresholds --verdicts` learns from."""

    stored = models.TextField(_("question enregistrée"), max_length=2_000)
    asked = models.TextField(_("question posée"), max_length=2_000)
    same_answer = models.BooleanField(_("même réponse"))
    index = models.CharField(_("index"), max_length=80, blank=True, default="")
    decided_by = by_whom(_("décidé par"))
    created_at = models.DateTimeField(_("décidé le"), auto_now_add=True)

    class Meta:
        verbose_name = _("verdict sur une paire")
        verbose_name_plural = _("verdicts sur des paires")
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.stored[:60]} · {self.asked[:60]}"
