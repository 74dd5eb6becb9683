"""Every setting of the project, read from the environment, each with a safe default.

Development and production differ by environment variables only; `.env.example` lists them. What staff may change at
run time is not here: see `agents.models.RuntimeSettings`.
"""

import os
import secrets
import warnings
from pathlib import Path

import django_stubs_ext
import environ
from django.core.exceptions import ImproperlyConfigured

# Lets generic classes of Django (`ModelForm[Agent]`) be written as the type checker wants them.
django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
environ.Env.read_env(BASE_DIR / ".env")

# --- Where things are kept -------------------------------------------------------------------------------------------

DATA_DIR = Path(env.str("DATA_DIR", default=str(BASE_DIR / "data"))).resolve()
DATA_DIR.mkdir(parents=True, exist_ok=True)


def _kept_secret(path: Path) -> str:
    """The secret key of this installation, drawn once and readable by its owner only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(key := secrets.token_urlsafe(50))
    return key


SECRET_KEY = env.str("SECRET_KEY", default="") or _kept_secret(DATA_DIR / "secret_key")
DEBUG = env.bool("DEBUG", default=False)
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

# --- Applications ----------------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "agents",
    "knowledge",
    "faqs",
    "tools_registry",
    "chat",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# --- Database --------------------------------------------------------------------------------------------------------

DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'repondant.db'}")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A thread keeps its connection: opening one costs as much as ten queries.
    DATABASES["default"]["CONN_MAX_AGE"] = 600
    # Without WAL and immediate transactions a quarter of concurrent writes fail (docs/operations.md).
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
elif "postgresql" in DATABASES["default"]["ENGINE"]:
    DATABASES["default"].setdefault("OPTIONS", {})
    DATABASES["default"]["OPTIONS"]["pool"] = {
        "min_size": 1,
        "max_size": env.int("DATABASE_POOL_SIZE", default=20),
        "timeout": 20,
    }

#: A burst of questions reads the settings of its deployment once; what staff save applies within this time.
CONFIG_CACHE_SECONDS = 1.0
#: Database steps of a turn run in threads of their own; tests share one, to see their own transaction.
DATABASE_THREAD_SENSITIVE = False

# --- Redis: cache and running answers --------------------------------------------------------------------------------

REDIS_URL = env.str("REDIS_URL", default="")

if REDIS_URL:
    CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
    }
    EVENT_LOGS: dict[str, dict[str, object]] = {
        "default": {
            "BACKEND": "chat.runs.event_log.redis.RedisEventLogs",
            "OPTIONS": {"url": REDIS_URL},
        }
    }
else:
    EVENT_LOGS = {"default": {"BACKEND": "chat.runs.event_log.memory.MemoryEventLogs"}}
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# --- Backends: language model, embedder, vector store ----------------------------------------------------------------

OPENAI_API_KEY = env.str("OPENAI_API_KEY", default="")
OPENAI_BASE_URL = env.str("OPENAI_BASE_URL", default="")
LLM_MODEL = env.str("LLM_MODEL", default="gpt-4o-mini")
LLM_CONNECT_TIMEOUT_SECONDS = env.float("LLM_CONNECT_TIMEOUT_SECONDS", default=5.0)
LLM_READ_TIMEOUT_SECONDS = env.float("LLM_READ_TIMEOUT_SECONDS", default=60.0)
LLM_MAX_RETRIES = env.int("LLM_MAX_RETRIES", default=2)
LLM_MAX_CONNECTIONS = env.int("LLM_MAX_CONNECTIONS", default=600)
#: Between two reads of one reply, for each reply that streams: none below 20, 30 ms at 100, never above 60 ms.
LLM_PAUSE_PER_STREAM_SECONDS = env.float("LLM_PAUSE_PER_STREAM_SECONDS", default=0.0003)

LLMS: dict[str, dict[str, object]] = (
    {
        "default": {
            "BACKEND": "agents.llm.openai.OpenAILanguageModel",
            "OPTIONS": {
                "api_key": OPENAI_API_KEY,
                "base_url": OPENAI_BASE_URL,
                "model": LLM_MODEL,
                "connect_timeout": LLM_CONNECT_TIMEOUT_SECONDS,
                "read_timeout": LLM_READ_TIMEOUT_SECONDS,
                "max_retries": LLM_MAX_RETRIES,
                "max_connections": LLM_MAX_CONNECTIONS,
                "pause_per_stream": LLM_PAUSE_PER_STREAM_SECONDS,
            },
        }
    }
    if OPENAI_API_KEY or OPENAI_BASE_URL
    else {}
)

EMBEDDER = env.str("EMBEDDER", default="local")
EMBEDDING_MODEL = env.str("EMBEDDING_MODEL", default="")
EMBEDDING_DIMENSIONS = env.int("EMBEDDING_DIMENSIONS", default=0)

if EMBEDDER == "local":
    _local_models = {
        "universal-sentence-encoder-multilingual-3": "knowledge.embeddings.local.UniversalSentenceEncoder",
        "multilingual-e5-small": "knowledge.embeddings.local.MultilingualE5Small",
    }
    EMBEDDING_MODEL = EMBEDDING_MODEL or "universal-sentence-encoder-multilingual-3"
    if EMBEDDING_MODEL not in _local_models:
        raise ImproperlyConfigured(
            f"EMBEDDING_MODEL={EMBEDDING_MODEL!r} is not a local model; choose one of "
            f"{', '.join(_local_models)}, or set EMBEDDER=openai."
        )
    EMBEDDERS: dict[str, dict[str, object]] = {
        "default": {"BACKEND": _local_models[EMBEDDING_MODEL]}
    }
elif EMBEDDER == "openai":
    EMBEDDING_MODEL = EMBEDDING_MODEL or "text-embedding-3-small"
    EMBEDDERS = {
        "default": {
            "BACKEND": "knowledge.embeddings.openai.OpenAIEmbedder",
            "OPTIONS": {
                "api_key": env.str("EMBEDDING_API_KEY", default=OPENAI_API_KEY),
                "base_url": env.str("EMBEDDING_BASE_URL", default=OPENAI_BASE_URL),
                "model": EMBEDDING_MODEL,
                "dimensions": EMBEDDING_DIMENSIONS,
                "timeout": env.float("EMBEDDING_TIMEOUT_SECONDS", default=30.0),
                "max_retries": env.int("EMBEDDING_MAX_RETRIES", default=2),
            },
        }
    }
else:
    raise ImproperlyConfigured(f"EMBEDDER={EMBEDDER!r} is unknown; choose local or openai.")

QDRANT_URL = env.str("QDRANT_URL", default="")
QDRANT_API_KEY = env.str("QDRANT_API_KEY", default="")
QDRANT_TIMEOUT_SECONDS = env.int("QDRANT_TIMEOUT_SECONDS", default=10)

VECTOR_STORES: dict[str, dict[str, object]] = {
    "table": {"BACKEND": "knowledge.vectors.table.TableVectorStore"}
}
if QDRANT_URL:
    VECTOR_STORES["qdrant"] = {
        "BACKEND": "knowledge.vectors.qdrant.QdrantVectorStore",
        "OPTIONS": {
            "url": QDRANT_URL,
            "api_key": QDRANT_API_KEY,
            "timeout": QDRANT_TIMEOUT_SECONDS,
        },
    }
VECTOR_STORES["default"] = VECTOR_STORES["qdrant" if QDRANT_URL else "table"]
#: Above this many points in one collection the table store says that Qdrant is the store for growth.
TABLE_STORE_COMFORTABLE_POINTS = env.int("TABLE_STORE_COMFORTABLE_POINTS", default=100_000)
#: What one process keeps of the table's vectors in memory; the collections used least recently go first.
TABLE_STORE_CACHE_BYTES = env.int("TABLE_STORE_CACHE_BYTES", default=1024**3)
#: Deletions are purged this many versions later; a process that missed more loads the collection anew.
TABLE_STORE_PURGE_VERSIONS = env.int("TABLE_STORE_PURGE_VERSIONS", default=1_000)

# --- Memory guard ----------------------------------------------------------------------------------------------------

#: A similarity for the whole site, below what staff set and above the embedding model's profile. Empty: the profile's.
_memory_threshold = env.str("MEMORY_SIMILARITY_THRESHOLD", default="")
MEMORY_SIMILARITY_THRESHOLD = float(_memory_threshold) if _memory_threshold else None
#: The SQLite file that `import_memory` reads and `export_memory` writes where none is named.
MEMORY_DB_PATH = env.str("MEMORY_DB_PATH", default="") or str(DATA_DIR / "agents_memory.db")
#: From this similarity on, a hit counts twice (seed 000, section 4).
MEMORY_STRONG_SIMILARITY = env.float("MEMORY_STRONG_SIMILARITY", default=0.95)
#: How many different anonymous visitors must find an answer of the memory wrong before it is withdrawn. One, since a wrong
#: answer costs more than a right one that waits for staff; more for a public page where somebody switches answers off.
ANONYMOUS_REPORTS_TO_WITHDRAW = env.int("ANONYMOUS_REPORTS_TO_WITHDRAW", default=1)
#: How many of the nearest entries the second key looks at for one question.
MEMORY_MAX_CANDIDATES = env.int("MEMORY_MAX_CANDIDATES", default=20)
#: What one process keeps of the memory's vectors; the deployments asked least recently go first.
MEMORY_CACHE_BYTES = env.int("MEMORY_CACHE_BYTES", default=512 * 1024**2)
#: Above this many entries a deployment's memory gets a Qdrant collection; without QDRANT_URL, log and admin say so.
MEMORY_COMFORTABLE_ENTRIES = env.int("MEMORY_COMFORTABLE_ENTRIES", default=100_000)
#: Deletions are forgotten this many versions later; a process that missed more loads its array anew.
MEMORY_PURGE_VERSIONS = env.int("MEMORY_PURGE_VERSIONS", default=1_000)
#: Longer, a question or an answer is not kept.
MEMORY_MAX_QUESTION_CHARACTERS = env.int("MEMORY_MAX_QUESTION_CHARACTERS", default=500)
MEMORY_MAX_ANSWER_CHARACTERS = env.int("MEMORY_MAX_ANSWER_CHARACTERS", default=20_000)

# --- Documents: bounds -----------------------------------------------------------------------------------------------

MAX_DOCUMENT_BYTES = env.int("MAX_DOCUMENT_BYTES", default=50 * 1024 * 1024)
#: What an archive (DOCX, XLSX, PPTX) may unpack to, and its highest ratio of unpacked to packed bytes.
MAX_UNPACKED_BYTES = env.int("MAX_UNPACKED_BYTES", default=200 * 1024 * 1024)
MAX_UNPACK_RATIO = env.int("MAX_UNPACK_RATIO", default=200)
#: Cells of a spreadsheet, over all its sheets.
MAX_WORKBOOK_CELLS = env.int("MAX_WORKBOOK_CELLS", default=2_000_000)
#: Pages of a PDF, slides of a presentation.
MAX_DOCUMENT_PAGES = env.int("MAX_DOCUMENT_PAGES", default=2_000)
MAX_DOCUMENT_CHARACTERS = env.int("MAX_DOCUMENT_CHARACTERS", default=10_000_000)
#: A chunk's aim and ceiling, in characters (about 180 and 300 French words).
CHUNK_TARGET_CHARACTERS = env.int("CHUNK_TARGET_CHARACTERS", default=1_100)
CHUNK_MAX_CHARACTERS = env.int("CHUNK_MAX_CHARACTERS", default=1_800)
#: Longer, a question or an answer is not taken for one, whether found in a document or written by the model.
QA_MAX_ANSWER_CHARACTERS = env.int("QA_MAX_ANSWER_CHARACTERS", default=6_000)
QA_MAX_QUESTION_CHARACTERS = env.int("QA_MAX_QUESTION_CHARACTERS", default=300)
#: The share of the words of an answer written by the model that its chunk must hold.
QA_MIN_GROUNDING = env.float("QA_MIN_GROUNDING", default=0.6)
#: Questions that a model may write for one chunk, and the length of its reply in tokens.
MAX_UNITS_PER_CHUNK = env.int("MAX_UNITS_PER_CHUNK", default=8)
UNIT_GENERATION_TOKENS = env.int("UNIT_GENERATION_TOKENS", default=2_048)
#: Chunks that the model is asked about at the same time.
UNIT_GENERATION_PARALLEL = env.int("UNIT_GENERATION_PARALLEL", default=4)
#: Above this product of questions compared, close questions are looked for only where documents change; pairs kept.
OVERLAP_MAX_COMPARISONS = env.int("OVERLAP_MAX_COMPARISONS", default=400_000_000)
OVERLAP_MAX_PAIRS = env.int("OVERLAP_MAX_PAIRS", default=1_000)
#: Real questions that a rebuild is previewed with, when none are named.
PREVIEW_QUESTIONS = env.int("PREVIEW_QUESTIONS", default=50)
#: A file is read in a process of its own, which may take this long and this much memory (address space).
PARSE_ISOLATED = env.bool("PARSE_ISOLATED", default=True)
PARSE_TIMEOUT_SECONDS = env.float("PARSE_TIMEOUT_SECONDS", default=300.0)
PARSE_MEMORY_BYTES = env.int("PARSE_MEMORY_BYTES", default=2 * 1024**3)

#: Pages without text are recognised by this program where it is found; empty switches that off.
OCR_COMMAND = env.str("OCR_COMMAND", default="tesseract")
#: By Tesseract's codes; those that are not installed are passed over.
OCR_LANGUAGES = env.list("OCR_LANGUAGES", default=["fra", "eng"])
OCR_PAGE_PIXELS = env.int("OCR_PAGE_PIXELS", default=20_000_000)
OCR_PAGE_SECONDS = env.float("OCR_PAGE_SECONDS", default=60.0)
#: Less than `PARSE_TIMEOUT_SECONDS`, so that a long scan gives the pages that were read in time.
OCR_DOCUMENT_SECONDS = env.float("OCR_DOCUMENT_SECONDS", default=240.0)

# --- Pages of the web ------------------------------------------------------------------------------------------------

#: Hosts (with their port if it is not the usual one) that may be fetched although their address is internal: an intranet.
URL_INTERNAL_HOSTS = env.list("URL_INTERNAL_HOSTS", default=[])
URL_PORTS = env.list("URL_PORTS", cast=int, default=[80, 443])
#: Certificates to trust beside the usual ones, for an intranet with an authority of its own.
URL_CA_FILE = env.str("URL_CA_FILE", default="")
#: Each wait for a site, and one page with all its redirects.
URL_TIMEOUT_SECONDS = env.float("URL_TIMEOUT_SECONDS", default=15.0)
URL_TOTAL_SECONDS = env.float("URL_TOTAL_SECONDS", default=120.0)
URL_MAX_REDIRECTS = env.int("URL_MAX_REDIRECTS", default=5)
#: Between two requests of one process to one host.
URL_HOST_PAUSE_SECONDS = env.float("URL_HOST_PAUSE_SECONDS", default=1.0)
#: Its first word, up to the slash, is the name that robots.txt knows us by.
URL_USER_AGENT = env.str("URL_USER_AGENT", default="Repondant/1.0")
#: Whether pages that only a sitemap names are left out where robots.txt says so.
URL_OBEY_ROBOTS = env.bool("URL_OBEY_ROBOTS", default=True)
SITEMAP_MAX_PAGES = env.int("SITEMAP_MAX_PAGES", default=500)
#: Sitemaps that an index of sitemaps may name.
SITEMAP_MAX_FILES = env.int("SITEMAP_MAX_FILES", default=50)

# --- Validated answers: bounds ---------------------------------------------------------------------------------------

#: A validated answer whose points could not be written is tried again, at the latest after this time.
FAQ_RETRY_MAX_SECONDS = env.float("FAQ_RETRY_MAX_SECONDS", default=300.0)
FAQ_MAX_PHRASINGS = env.int("FAQ_MAX_PHRASINGS", default=30)
FAQ_MAX_IMPORT_BYTES = env.int("FAQ_MAX_IMPORT_BYTES", default=5 * 1024 * 1024)
FAQ_MAX_IMPORT_ROWS = env.int("FAQ_MAX_IMPORT_ROWS", default=10_000)
#: Entries of the memory that one action makes validated answers of; each is compared and indexed within the request.
FAQ_MAX_PROMOTED = env.int("FAQ_MAX_PROMOTED", default=100)
#: Unanswered questions are forgotten after this many days; an agent keeps the newest of them only.
UNANSWERED_RETENTION_DAYS = env.int("UNANSWERED_RETENTION_DAYS", default=90)
#: Of the latest turns, how many the page of refused answers reads.
REFUSALS_MAX_TURNS = env.int("REFUSALS_MAX_TURNS", default=1_000)
UNANSWERED_MAX_QUESTIONS = env.int("UNANSWERED_MAX_QUESTIONS", default=5_000)
#: Questions this close mean the same, where the embedding model has no measured profile.
UNANSWERED_GROUP_THRESHOLD = env.float("UNANSWERED_GROUP_THRESHOLD", default=0.75)
#: Questions of a group that one replay asks again.
UNANSWERED_REPLAY_QUESTIONS = env.int("UNANSWERED_REPLAY_QUESTIONS", default=20)
#: Choices between close questions that a deployment keeps for staff, those made last.
CLARIFICATION_MAX_CHOICES = env.int("CLARIFICATION_MAX_CHOICES", default=1_000)
# --- Tools: backends and bounds --------------------------------------------------------------------------------------

TOOL_SELECTORS: dict[str, dict[str, object]] = {
    "direct": {"BACKEND": "tools_registry.selection.direct.DirectToolSelector"},
    "local": {"BACKEND": "tools_registry.selection.local.LocalToolSelector"},
    "external": {"BACKEND": "tools_registry.selection.external.ExternalToolSelector"},
}
#: Tools of one round that run at the same time, and how long one may take unless it says so itself.
TOOL_PARALLEL_CALLS = env.int("TOOL_PARALLEL_CALLS", default=4)
TOOL_TIMEOUT_SECONDS = env.float("TOOL_TIMEOUT_SECONDS", default=20.0)
TOOL_MAX_ARGUMENT_CHARACTERS = env.int("TOOL_MAX_ARGUMENT_CHARACTERS", default=20_000)
TOOL_MAX_RESULT_CHARACTERS = env.int("TOOL_MAX_RESULT_CHARACTERS", default=20_000)
#: So many failures in a row suspend a tool for so long, in each process.
TOOL_BREAKER_FAILURES = env.int("TOOL_BREAKER_FAILURES", default=5)
TOOL_BREAKER_SECONDS = env.float("TOOL_BREAKER_SECONDS", default=30.0)
#: The local MCP servers that staff may choose, by name, each with its whole command line: {"files": ["/usr/bin/x", "-a"]}.
MCP_STDIO_SERVERS: dict[str, list[str]] = env.json("MCP_STDIO_SERVERS", default={})
#: Hosts (with their port if it is not the usual one) that tools may reach although their address is internal.
TOOL_INTERNAL_HOSTS = env.list("TOOL_INTERNAL_HOSTS", default=[])
#: The longest answer of a remote tool or document that is read, in bytes.
TOOL_MAX_RESPONSE_BYTES = env.int("TOOL_MAX_RESPONSE_BYTES", default=2_000_000)
#: Where a conversation is handed over to a person; empty, that tool is not offered.
HANDOVER_EMAILS = env.list("HANDOVER_EMAILS", default=[])
HANDOVERS_PER_DAY = env.int("HANDOVERS_PER_DAY", default=3)

# --- Mail ------------------------------------------------------------------------------------------------------------

vars().update(env.email("EMAIL_URL", default="consolemail://"))
EMAIL_TIMEOUT = env.int("EMAIL_TIMEOUT_SECONDS", default=10)
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="repondant@localhost")

# --- Chat: bounds ----------------------------------------------------------------------------------------------------

MAX_MESSAGE_CHARACTERS = env.int("MAX_MESSAGE_CHARACTERS", default=8_000)
MAX_FRAME_BYTES = env.int("MAX_FRAME_BYTES", default=64 * 1024)
#: Limits on how often somebody asks or signs in are staff's; this switches all of them off (tests of load, another limiter).
RATE_LIMITS = env.bool("RATE_LIMITS", default=True)
#: How many proxies of ours write `X-Forwarded-For`; none: the header is not believed.
TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", default=0)
#: How long a process may go on with limits that staff have changed.
RATE_LIMITS_CACHE_SECONDS = 10.0
#: How long a visitor of the widget finds their conversation again.
WIDGET_VISITOR_DAYS = env.int("WIDGET_VISITOR_DAYS", default=90)
#: What `/v1` reads of a request, and how much of the thread that its client sends reaches the prompt, in characters.
API_MAX_BODY_BYTES = env.int("API_MAX_BODY_BYTES", default=1024 * 1024)
API_MAX_HISTORY_CHARACTERS = env.int("API_MAX_HISTORY_CHARACTERS", default=40_000)
TURN_TIMEOUT_SECONDS = env.float("TURN_TIMEOUT_SECONDS", default=180.0)
#: How long after its process died a turn still counts as running; renewed three times in that time.
TURN_LEASE_SECONDS = env.float("TURN_LEASE_SECONDS", default=30.0)
#: Within this time a process sees that an answer of its own is to be stopped, when that was asked of another one.
TURN_STOP_SECONDS = env.float("TURN_STOP_SECONDS", default=1.0)
#: How long a stopping server lets answers end; after that they are stopped and keep their text.
TURN_DRAIN_SECONDS = env.float("TURN_DRAIN_SECONDS", default=5.0)
#: With Redis: how often what was answered meanwhile is copied there for the other web processes, ...
EVENT_LOG_FLUSH_SECONDS = env.float("EVENT_LOG_FLUSH_SECONDS", default=0.05)
#: ... how long an answer that was never finished is kept there, and about how many pieces of one, ...
EVENT_LOG_TTL_SECONDS = env.int("EVENT_LOG_TTL_SECONDS", default=3600)
EVENT_LOG_MAX_ENTRIES = env.int("EVENT_LOG_MAX_ENTRIES", default=10_000)
#: ... how long Redis may take, and the longest pause before it is tried again.
EVENT_LOG_TIMEOUT_SECONDS = env.float("EVENT_LOG_TIMEOUT_SECONDS", default=2.0)
EVENT_LOG_RETRY_CEILING_SECONDS = env.float("EVENT_LOG_RETRY_CEILING_SECONDS", default=5.0)
#: What the batch endpoint reads of a request, and the longest result of one tool in a thread.
MAX_BATCH_BYTES = env.int("MAX_BATCH_BYTES", default=1024 * 1024)
TOOL_MESSAGE_MAX_CHARACTERS = env.int("TOOL_MESSAGE_MAX_CHARACTERS", default=50_000)
#: A batch that met another writer is replayed so often, first after so long, then after twice that, and so on.
BATCH_TRIES = env.int("BATCH_TRIES", default=3)
BATCH_RETRY_SECONDS = env.float("BATCH_RETRY_SECONDS", default=0.05)
#: How often a reader of a turn that another process runs looks whether it has ended.
TURN_POLL_SECONDS = 0.5
#: Pauses between the tries to save an answer while the database is in trouble.
SAVE_RETRY_SECONDS: tuple[float, ...] = (0.2, 1.0, 3.0)
#: How long after an answer its counters, its lesson for the memory and its title are kept: answers come first.
AFTERWARDS_DELAY_SECONDS = 1.0
#: How long a model may take to name a conversation, after its answer.
TITLE_TIMEOUT_SECONDS = 20.0
#: A follow-up waits this long for its rewriting; then it is searched as it stands.
REWRITE_TIMEOUT_SECONDS = env.float("REWRITE_TIMEOUT_SECONDS", default=8.0)
#: How long a model may take to summarise a conversation, after an answer; the next prompt gets raw exchanges else.
SUMMARY_TIMEOUT_SECONDS = env.float("SUMMARY_TIMEOUT_SECONDS", default=20.0)
#: How long an open socket or stream may go on asking, stopping and listening before its rights are looked at again.
RIGHTS_CHECK_SECONDS = 5.0
#: A passage longer than this is cut in a prompt, and a quoted one in an answer without a model.
MAX_PASSAGE_CHARACTERS = env.int("MAX_PASSAGE_CHARACTERS", default=6_000)
MAX_QUOTE_CHARACTERS = env.int("MAX_QUOTE_CHARACTERS", default=700)
#: How long the optional model behind the second key may take; later, the answer is not served.
VERIFIER_TIMEOUT_SECONDS = env.float("VERIFIER_TIMEOUT_SECONDS", default=4.0)
#: How long a process may go on with thresholds that another one has calibrated anew.
CALIBRATION_CACHE_SECONDS = env.float("CALIBRATION_CACHE_SECONDS", default=60.0)
#: Fewer labelled pairs than this are measured, but thresholds drawn from them are not stored.
CALIBRATION_MIN_SAME = env.int("CALIBRATION_MIN_SAME", default=20)
CALIBRATION_MIN_DIFFERENT = env.int("CALIBRATION_MIN_DIFFERENT", default=50)
MAX_PAIRS = env.int("MAX_PAIRS", default=100_000)
#: The longest comment beside a verdict on an answer.
FEEDBACK_MAX_CHARACTERS = env.int("FEEDBACK_MAX_CHARACTERS", default=1_000)
#: Of a person's conversations, so many of the latest are searched; so many words of the search count.
SEARCH_MAX_CONVERSATIONS = env.int("SEARCH_MAX_CONVERSATIONS", default=2_000)
SEARCH_MAX_WORDS = env.int("SEARCH_MAX_WORDS", default=8)
#: An export or a shared link holds the last exchanges only, where there are more.
EXPORT_MAX_EXCHANGES = env.int("EXPORT_MAX_EXCHANGES", default=200)
#: A TrueType or OpenType file to be embedded in PDFs. Empty: the core fonts of PDF, which have the characters of cp1252.
EXPORT_FONT = env.str("EXPORT_FONT", default="")
if EXPORT_FONT and not Path(EXPORT_FONT).is_file():
    raise ImproperlyConfigured(f"EXPORT_FONT={EXPORT_FONT!r} is not a file.")
#: Shared links expire after this many days; 0: never. A conversation has so many at most.
SHARE_LINK_DAYS = env.int("SHARE_LINK_DAYS", default=90)
SHARE_MAX_LINKS = env.int("SHARE_MAX_LINKS", default=20)
#: A temporary chat is deleted so long after its last message.
TEMPORARY_CHAT_HOURS = env.float("TEMPORARY_CHAT_HOURS", default=24.0)
#: How long a finished turn's event log stays in memory for a late re-attach.
TURN_LOG_RETENTION_SECONDS = env.float("TURN_LOG_RETENTION_SECONDS", default=60.0)

# --- Jobs ------------------------------------------------------------------------------------------------------------

CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default="filesystem://")
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "repondant"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {}
if CELERY_BROKER_URL == "filesystem://":
    # With a host, which means nothing here: without one the library warns at each start.
    CELERY_BROKER_URL = "filesystem://localhost"
    _broker_folder = DATA_DIR / "broker"
    for _name in ("queue", "processed", "control"):
        (_broker_folder / _name).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_broker_folder / "queue"),
        "data_folder_out": str(_broker_folder / "queue"),
        "control_folder": str(_broker_folder / "control"),
        "store_processed": False,
    }
#: The pool of the worker that `serve` starts. One process, which ends after each indexing job and is started anew; workers
#: of your own choose theirs on their command line, `prefork` being the one that enforces the limits below.
EMBEDDED_WORKER_POOL = env.str("EMBEDDED_WORKER_POOL", default="solo")
#: A job's lease is renewed at each heartbeat; a job whose lease ran out is taken by the reaper.
JOB_LEASE_SECONDS = env.float("JOB_LEASE_SECONDS", default=60.0)
JOB_HEARTBEAT_SECONDS = env.float("JOB_HEARTBEAT_SECONDS", default=10.0)
JOB_REAP_SECONDS = env.float("JOB_REAP_SECONDS", default=15.0)
JOB_MAX_ATTEMPTS = env.int("JOB_MAX_ATTEMPTS", default=5)
#: The pause before a job that failed for a reason that may pass is tried again, doubled each time up to the ceiling.
JOB_RETRY_SECONDS = env.float("JOB_RETRY_SECONDS", default=15.0)
JOB_RETRY_CEILING_SECONDS = env.float("JOB_RETRY_CEILING_SECONDS", default=900.0)
#: How often documents whose rows were changed without a signal are looked for; 0: never.
RECONCILE_SECONDS = env.float("RECONCILE_SECONDS", default=300.0)
JOB_SOFT_LIMIT_SECONDS = env.int("JOB_SOFT_LIMIT_SECONDS", default=6 * 3600)
JOB_HARD_LIMIT_SECONDS = env.int("JOB_HARD_LIMIT_SECONDS", default=6 * 3600 + 300)

# --- Language and time -----------------------------------------------------------------------------------------------

LANGUAGE_CODE = "fr"
LANGUAGES = [("fr", "Français"), ("en", "English")]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["config.formats"]
TIME_ZONE = env.str("TIME_ZONE", default="Europe/Paris")
USE_TZ = True

# --- Static and uploaded files ---------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
# Files are served from the apps; the folder is there where somebody ran `collectstatic` for a server of their own.
WHITENOISE_USE_FINDERS = True
warnings.filterwarnings("ignore", message="No directory at", category=UserWarning)
# They are small and read at once; what streams here is asynchronous.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous")
MEDIA_ROOT = DATA_DIR / "documents"
DATA_UPLOAD_MAX_MEMORY_SIZE = env.int("DATA_UPLOAD_MAX_MEMORY_SIZE", default=2 * 1024 * 1024)

# --- Security --------------------------------------------------------------------------------------------------------

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
#: Set behind TLS: secure cookies, and the proxy's header is believed.
BEHIND_TLS = env.bool("BEHIND_TLS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
if BEHIND_TLS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
#: Threads of a web process for steps that wait: database, vector store, embedding.
WEB_THREADS = env.int("WEB_THREADS", default=4)
#: Web processes of `serve`. With several, each takes 250 MB with the fast embedding model, and their parent 130 MB.
WEB_PROCESSES = env.int("WEB_PROCESSES", default=1)
#: How long a stopping server waits for its connections.
GRACEFUL_SHUTDOWN_SECONDS = env.int("GRACEFUL_SHUTDOWN_SECONDS", default=5)
#: `/metrics` answers staff sessions, and requests that bear this token; without one, staff only.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")
#: Rows that one action of the admin deletes for good; a form names at most a thousand.
ADMIN_MAX_DELETED = env.int("ADMIN_MAX_DELETED", default=500)
LOGIN_URL = "login"
#: Of the admin's own form; `login` leads back to the chat page.
LOGIN_REDIRECT_URL = "admin:index"
LOGOUT_REDIRECT_URL = "chat-home"

# --- Admin -----------------------------------------------------------------------------------------------------------

UNFOLD: dict[str, object] = {
    "SITE_TITLE": "Répondant",
    "SITE_HEADER": "Répondant",
    "SITE_SUBHEADER": "Administration",
    "SITE_SYMBOL": "contact_support",
    "SITE_URL": "/",
    "SHOW_LANGUAGES": True,
    "DASHBOARD_CALLBACK": "config.admin_dashboard.dashboard",
    "STYLES": ["config.admin_theme.stylesheet"],
    "SIDEBAR": {"navigation": "config.admin_theme.navigation"},
    "COLORS": {
        "primary": {
            "50": "oklch(97% .014 254.604)",
            "100": "oklch(93.2% .032 255.585)",
            "200": "oklch(88.2% .059 254.128)",
            "300": "oklch(80.9% .105 251.813)",
            "400": "oklch(70.7% .165 254.624)",
            "500": "oklch(62.3% .214 259.815)",
            "600": "oklch(54.6% .245 262.881)",
            "700": "oklch(48.8% .243 264.376)",
            "800": "oklch(42.4% .199 265.638)",
            "900": "oklch(37.9% .146 265.522)",
            "950": "oklch(28.2% .091 267.935)",
        }
    },
}

# --- API -------------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["chat.doors.http.sessions.CarriedSession"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["chat.doors.http.bodies.BoundedJSONParser"],
    "EXCEPTION_HANDLER": "chat.doors.http.api.framework_error",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Répondant",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "chat.doors.openai.schema.add_v1",
    ],
}

# --- Logging ---------------------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {
        # These log whole requests, headers included, at INFO and DEBUG.
        name: {"level": "WARNING"}
        for name in ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "pypdf", "fontTools")
    },
}
