"""What an operator chooses, read from the environment, each with a safe default.

Development and production differ by environment variables only; `.env.example` lists them. What nobody has had a reason
to change is a constant of the module that uses it; what staff may change at run time is in `agents.settings`.
"""

import os
import secrets
import warnings
from pathlib import Path

import django_stubs_ext
import environ
from django.core.exceptions import ImproperlyConfigured
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy

from config.version import VERSION

# Lets generic classes of Django (`ModelForm[Agent]`) be written as the type checker wants them.
django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()
environ.Env.read_env(BASE_DIR / ".env")
# An empty value is not set, but for these: no program, no key, no port.
env.ENVIRON = {n: v for n, v in os.environ.items() if v or n in ("OCR_COMMAND", "EMBEDDING_API_KEY", "URL_PORTS")}

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
#: The folder of its host below which the site is (`/bureau`); empty: the whole host.
BASE_PATH = f"/{env.str('BASE_PATH', default='').strip('/')}".rstrip("/")
FORCE_SCRIPT_NAME = BASE_PATH or None
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = LANGUAGE_COOKIE_PATH = f"{BASE_PATH}/"

# --- Applications ----------------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin.apps.SimpleAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "channels",
    "auditlog",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "agents",
    "knowledge",
    "faqs",
    "tools_registry",
    "chat",
    "config.SiteConfig",
]

MIDDLEWARE = [
    "config.middleware.security_headers",
    "django.middleware.security.SecurityMiddleware",
    "config.health.answer_probes",
    "config.middleware.static_files",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "chat.api.errors.utf8_forms_only",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "agents.history.remember_who_asks",
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
    # Else each connection that a restart of the server ended fails somebody's question.
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"].setdefault("OPTIONS", {})
#: The connections of a web process to PostgreSQL; every other process has one, which it closes after its work.
DATABASE_POOL = {
    "min_size": 1,
    "max_size": env.int("DATABASE_POOL_SIZE", default=20),
    # With the default of 300 a server that was gone for a minute stayed gone for another: pauses double.
    "reconnect_timeout": 3,
}

# --- Redis: cache and running answers --------------------------------------------------------------------------------

REDIS_URL = env.str("REDIS_URL", default="")

#: Tries to sign in are counted by each process: who signs in does not wait for Redis.
CACHES: dict[str, dict[str, object]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}}
}
CACHES["shared"] = CACHES["default"]
if REDIS_URL:
    CACHES["shared"] = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
    EVENT_LOGS: dict[str, dict[str, object]] = {
        "default": {"BACKEND": "chat.runs.redis_log.RedisEventLogs", "OPTIONS": {"url": REDIS_URL}}
    }
else:
    EVENT_LOGS = {"default": {"BACKEND": "chat.runs.runner.EventLogs"}}

# --- Backends: language model, embedder, vector store ----------------------------------------------------------------

OPENAI_API_KEY = env.str("OPENAI_API_KEY", default="")
OPENAI_BASE_URL = env.str("OPENAI_BASE_URL", default="")
LLM_MODEL = env.str("LLM_MODEL", default="gpt-4o-mini")
#: The longest silence of the model's server; the bounds of all calls follow it (docs/operations.md).
LLM_READ_TIMEOUT_SECONDS = env.float("LLM_READ_TIMEOUT_SECONDS", default=60.0)
#: A follow-up waits so long for its rewriting; then it is searched as it stands.
REWRITE_TIMEOUT_SECONDS = LLM_READ_TIMEOUT_SECONDS * 8 / 60
TITLE_TIMEOUT_SECONDS = SUMMARY_TIMEOUT_SECONDS = LLM_READ_TIMEOUT_SECONDS / 3
#: Later than this, a stored answer that the verifier is asked about is not served.
VERIFIER_TIMEOUT_SECONDS = LLM_READ_TIMEOUT_SECONDS / 15
#: A reader waits so long for the model's first word; then the passages are quoted in its place.
LLM_FIRST_TOKEN_SECONDS = LLM_READ_TIMEOUT_SECONDS * 0.75

LLMS: dict[str, dict[str, object]] = {}
if OPENAI_API_KEY or OPENAI_BASE_URL:
    LLMS["default"] = {
        "BACKEND": "agents.llm.openai.OpenAILanguageModel",
        "OPTIONS": {
            "api_key": OPENAI_API_KEY,
            "base_url": OPENAI_BASE_URL,
            "model": LLM_MODEL,
            "read_timeout": LLM_READ_TIMEOUT_SECONDS,
            # Between two reads of one reply once its text has begun: people see 60 ms at the earliest (`benchmarks/load`).
            "read_pause": 0.045,
        },
    }

EMBEDDER = env.str("EMBEDDER", default="local")
EMBEDDING_MODEL = env.str("EMBEDDING_MODEL", default="")
EMBEDDING_DIMENSIONS = env.int("EMBEDDING_DIMENSIONS", default=0)
#: What was measured of it, for the pages of settings (`agents.effective`).
EMBEDDING_PROFILE = "knowledge.admin.search.profile_in_use"

if EMBEDDER == "local":
    EMBEDDING_MODEL = EMBEDDING_MODEL or "universal-sentence-encoder-multilingual-3"
    if EMBEDDING_MODEL != "universal-sentence-encoder-multilingual-3":
        raise ImproperlyConfigured(
            f"EMBEDDING_MODEL={EMBEDDING_MODEL!r} is not the local model: leave it empty, or set EMBEDDER=openai."
        )
    EMBEDDERS: dict[str, dict[str, object]] = {
        "default": {"BACKEND": "knowledge.embeddings.local.UniversalSentenceEncoder"}
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
            },
        }
    }
else:
    raise ImproperlyConfigured(f"EMBEDDER={EMBEDDER!r} is unknown; choose local or openai.")

QDRANT_URL = env.str("QDRANT_URL", default="")
QDRANT_API_KEY = env.str("QDRANT_API_KEY", default="")

VECTOR_STORES: dict[str, dict[str, object]] = {"table": {"BACKEND": "knowledge.vectors.table.TableVectorStore"}}
if QDRANT_URL:
    VECTOR_STORES["qdrant"] = {
        "BACKEND": "knowledge.vectors.qdrant.QdrantVectorStore",
        "OPTIONS": {"url": QDRANT_URL, "api_key": QDRANT_API_KEY},
    }
VECTOR_STORES["default"] = VECTOR_STORES["qdrant" if QDRANT_URL else "table"]

# --- Memory guard ----------------------------------------------------------------------------------------------------

#: A similarity for the whole site, below what staff set and above the embedding model's profile. Empty: the profile's.
MEMORY_SIMILARITY_THRESHOLD = env.float("MEMORY_SIMILARITY_THRESHOLD", default=None)
#: The SQLite file that `import_memory` reads and `export_memory` writes where none is named.
MEMORY_DB_PATH = env.str("MEMORY_DB_PATH", default="") or str(DATA_DIR / "agents_memory.db")

# --- Documents -------------------------------------------------------------------------------------------------------

MAX_DOCUMENT_BYTES = env.int("MAX_DOCUMENT_BYTES", default=50 * 1024 * 1024)
#: A file is read in a process of its own, which may take this long and this much memory (address space).
PARSE_TIMEOUT_SECONDS = 300.0
PARSE_MEMORY_BYTES = 2 * 1024**3
#: Pages without text are recognised by this program where it is found; empty switches that off.
OCR_COMMAND = env.str("OCR_COMMAND", default="tesseract")
#: By Tesseract's codes; those that are not installed are passed over.
OCR_LANGUAGES = env.list("OCR_LANGUAGES", default=["fra", "eng"])
#: Sooner than the reading itself ends, so that a long scan gives the pages that were read in time.
OCR_DOCUMENT_SECONDS = 0.8 * PARSE_TIMEOUT_SECONDS

# --- Pages of the web ------------------------------------------------------------------------------------------------

#: Hosts (`host`, or `host:port`) of an intranet that may be fetched although their address is internal.
URL_INTERNAL_HOSTS = env.list("URL_INTERNAL_HOSTS", default=[])
URL_PORTS = env.list("URL_PORTS", cast=int, default=[80, 443])
#: Certificates to trust beside the usual ones, for an intranet with an authority of its own.
URL_CA_FILE = env.str("URL_CA_FILE", default="")
#: Pages that one sitemap, with those it names, may add.
SITEMAP_MAX_PAGES = env.int("SITEMAP_MAX_PAGES", default=500)

# --- Tools -----------------------------------------------------------------------------------------------------------

#: The local MCP servers that staff may choose, with their command lines: {"files": ["/usr/bin/x", "-a"]}.
MCP_STDIO_SERVERS: dict[str, list[str]] = env.json("MCP_STDIO_SERVERS", default={})
#: Hosts that tools may reach although their address is internal.
TOOL_INTERNAL_HOSTS = env.list("TOOL_INTERNAL_HOSTS", default=[])

# --- Mail ------------------------------------------------------------------------------------------------------------

_mail = env.str("EMAIL_URL", default="consolemail://") or "consolemail://"
vars().update(env.email_url_config(_mail))
#: Whether mail reaches anybody: what needs it is offered there alone.
HAS_MAIL = not _mail.startswith(("consolemail", "dummymail"))
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="repondant@localhost")

# --- Conversations ---------------------------------------------------------------------------------------------------

#: Limits on how often somebody asks or signs in are staff's; this switches all of them off.
RATE_LIMITS = env.bool("RATE_LIMITS", default=True)
#: How many proxies of ours write `X-Forwarded-For`; none: the header is not believed.
TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", default=0)
#: One answer; its text so far is kept.
TURN_TIMEOUT_SECONDS = env.float("TURN_TIMEOUT_SECONDS", default=3 * LLM_READ_TIMEOUT_SECONDS)

# --- How long things are kept ----------------------------------------------------------------------------------------

#: A conversation in which nothing was asked is deleted so long after it was opened, at night.
EMPTY_CONVERSATION_HOURS = 24.0
#: Unanswered questions are forgotten after this many days.
UNANSWERED_RETENTION_DAYS = env.int("UNANSWERED_RETENTION_DAYS", default=90)
#: Conversations are deleted so long after their last message; 0: never.
CONVERSATION_DAYS = env.int("CONVERSATION_DAYS", default=0)
#: A browser unseen for so long has to sign in again, or no longer finds its conversations.
SESSION_DAYS = env.int("SESSION_DAYS", default=14)
SESSION_COOKIE_AGE = SESSION_DAYS * 24 * 3600
#: Finished jobs, and workers that are not seen any more.
FINISHED_JOB_DAYS = 90
#: Who changed what (`agents.history`); 0: for ever.
AUDIT_LOG_DAYS = env.int("AUDIT_LOG_DAYS", default=730)
AUDITLOG_STORE_JSON_CHANGES = True

# --- Jobs ------------------------------------------------------------------------------------------------------------

CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default="")
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {}
#: Without one, each worker looks for jobs itself, every second. `filesystem://` was the name of that in 0.2.0.
HAS_BROKER = CELERY_BROKER_URL not in ("", "filesystem://")
if not HAS_BROKER:
    # Celery prefers this variable to its own configuration, and `filesystem://` was the default up to 0.2.0.
    os.environ.pop("CELERY_BROKER_URL", None)
    CELERY_BROKER_URL = "memory://localhost"
    CELERY_BROKER_TRANSPORT_OPTIONS = {"polling_interval": 0.2}
CELERY_TASK_IGNORE_RESULT = True
# RabbitMQ takes a message that is not acknowledged within half an hour for lost; a large job is longer.
CELERY_TASK_ACKS_LATE = not CELERY_BROKER_URL.startswith(("amqp://", "amqps://"))
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A worker waits for its broker as long as it is away: by default it would give up after an hour.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "repondant"

#: What carries out a job, by its kind (`agents.jobs`).
JOBS = {
    **dict.fromkeys(("documents", "rebuild", "sync", "refresh", "questions"), "knowledge.indexing.jobs.carry_out"),
    "reconcile": "knowledge.indexing.jobs.reconcile",
    "remove_points": "knowledge.indexing.jobs.remove_points",
    "drop_indexes": "knowledge.indexing.jobs.drop_indexes",
    "answers": "faqs.answer_points.settle_answers",
    "remove_answers": "faqs.answer_points.remove_answers",
    "tools": "tools_registry.index.index_tools",
    "tool_source": "tools_registry.sources.remote.read_tool_source",
    "recover": "agents.jobs.recover_all",
    "retention": "agents.retention.retain",
    "figures": "chat.staff.figures.merge_counts",
    "work_mail": "config.home.mail_work",
    "golden": "chat.staff.golden.ask_golden_questions",
    "model_check": "chat.staff.model_check.check_model",
    "help_mail": "chat.thread.help_requests.mail_answer",
}
#: What workers look for every few seconds, beside jobs of their own kind; each returns how many it found.
RECOVERY = {
    "jobs": "agents.jobs.recover",
    "turns": "chat.thread.turns.interrupt_stale_turns",
    "answers": "faqs.answer_points.reap_learned",
    "unanswered": "faqs.unanswered.tidy_unanswered",
    "help_mail": "chat.thread.help_requests.enqueue_due_mails",
}

# --- Delays and bounds that several modules share -----------------------------------------------------------------------

#: A burst of questions reads the settings of its deployment once; what staff save applies within this time.
CONFIG_CACHE_SECONDS = 1.0
#: How long a process may go on with limits on asking that staff have changed.
RATE_LIMITS_CACHE_SECONDS = 10.0
#: How long a process may go on with thresholds that another one has calibrated anew.
CALIBRATION_CACHE_SECONDS = 60.0
#: Database steps of a turn run in threads of their own; tests share one, to see their own transaction.
DATABASE_THREAD_SENSITIVE = False
#: How long a process may go on with the words of an index that has changed.
VOCABULARY_CACHE_SECONDS = 300.0
#: A file is read in a process of its own; tests read it in theirs, where their settings and patches are.
PARSE_ISOLATED = True
#: A frame of a page holds one question, in UTF-8 and JSON.
MAX_FRAME_BYTES = 64 * 1024
#: Pauses between the tries to save an answer, which exists nowhere else, while the database is in trouble.
SAVE_RETRY_SECONDS: tuple[float, ...] = (0.2, 1.0, 3.0, 5.0, 10.0, 12.0)
#: How long after an answer its counters, its lesson for the memory and its title are kept: answers come first.
AFTERWARDS_DELAY_SECONDS = 1.0
#: How long an open socket or stream may go on asking, stopping and listening before its rights are looked at again.
RIGHTS_CHECK_SECONDS = 5.0
#: A job's lease is renewed at each heartbeat; a job whose lease ran out is taken up by the recovery.
JOB_LEASE_SECONDS = 60.0
JOB_HEARTBEAT_SECONDS = 10.0
JOB_REAP_SECONDS = 15.0
JOB_MAX_ATTEMPTS = 5
#: A worker without a sign of life is missing after this time: six beats, more than the embedded one takes to start anew.
WORKER_SILENT_SECONDS = 60.0
#: A job is asked to stop, then killed: longer than indexing the largest document with the slowest model.
JOB_SOFT_LIMIT_SECONDS = 6 * 3600
JOB_HARD_LIMIT_SECONDS = 6 * 3600 + 300
#: Rows that the nightly deletion takes in one transaction: others write between two.
RETAIN_BATCH = 200
#: A file of a document that no row names: one that is being stored has no row yet.
ORPHAN_FILE_HOURS = 24
#: A request that is not a file upload.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
#: Rows of a list that are chosen at once, a field each.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000
#: A mail server that is slower than this counts as down.
EMAIL_TIMEOUT = 10
#: Runs that are kept of each set, and of « what if » for each deployment.
GOLDEN_RUNS_KEPT = 30
#: What one process keeps of the table's vectors in memory; the collections used least recently go first.
TABLE_STORE_CACHE_BYTES = 1024**3
#: What one process keeps of the memory's vectors; the deployments asked least recently go first.
MEMORY_CACHE_BYTES = 512 * 1024**2

# --- Language and time -----------------------------------------------------------------------------------------------

LANGUAGE_CODE = "fr"
LANGUAGES = [("fr", "Français"), ("en", "English")]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["config.formats"]
TIME_ZONE = env.str("TIME_ZONE", default="Europe/Paris")

# --- Static and uploaded files ---------------------------------------------------------------------------------------

STATIC_URL = f"{BASE_PATH}/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
# Files are served from the apps; the folder is there where somebody ran `collectstatic` for a server of their own.
WHITENOISE_USE_FINDERS = True
warnings.filterwarnings("ignore", message="No directory at", category=UserWarning)
# They are small and read at once; what streams here is asynchronous.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous")
#: Where the documents' files are: a folder, shared between machines, or a bucket (`s3://bucket/prefix`).
DOCUMENT_STORAGE = env.str("DOCUMENT_STORAGE", default="") or str(DATA_DIR / "documents")
_bucket, _, _prefix = DOCUMENT_STORAGE.removeprefix("s3://").partition("/")
MEDIA_ROOT = "" if DOCUMENT_STORAGE.startswith("s3://") else str(Path(DOCUMENT_STORAGE).resolve())
STORAGES: dict[str, dict[str, object]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"}
    if MEDIA_ROOT
    # Its keys, region and address are those of the usual AWS variables.
    else {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {"bucket_name": _bucket, "location": _prefix, "file_overwrite": False},
    },
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

# --- Sign-in ---------------------------------------------------------------------------------------------------------

LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = LOGOUT_REDIRECT_URL = "chat-home"
ACCOUNT_ADAPTER = "chat.access.sign_in.Accounts"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_FORMS = {"reset_password": "chat.access.sign_in.ResetForm"}
#: Only failures count, by address and by name: a name has more, so that a stranger at one address locks nobody out.
_limits = {"login": None, "login_failed": "10/m/ip,50/m/key,200/d/key", "second_factor": "10/5m/key"}
_limits |= {"reauthenticate": "10/5m/user", "provider": "60/m/ip", "reset_password": "10/m/ip,3/m/key,10/d/key"}
ACCOUNT_RATE_LIMITS = _limits if RATE_LIMITS else False
#: The organisation's OpenID provider, by its issuer, and its directory (`ldaps://host/base?uid?sub?(filter)`).
OIDC_SERVER_URL, OIDC_CLIENT_ID = env.str("OIDC_SERVER_URL", default=""), env.str("OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.str("OIDC_CLIENT_SECRET", default="")
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
AUTHENTICATION_BACKENDS += ["chat.access.provider.ProviderBackend"] if OIDC_SERVER_URL else []
LDAP_URL, LDAP_BIND_DN = env.str("LDAP_URL", default=""), env.str("LDAP_BIND_DN", default="")
LDAP_BIND_PASSWORD = env.str("LDAP_BIND_PASSWORD", default="")
AUTHENTICATION_BACKENDS += ["chat.access.directory.DirectoryBackend"] if LDAP_URL else []
MFA_TOTP_ISSUER = "Répondant"
#: A clock may be half a minute off.
MFA_TOTP_TOLERANCE = 1
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_FORMS = {"authenticate": "chat.access.sign_in.CodeForm"}
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}Validator"}
    for name in ("UserAttributeSimilarity", "MinimumLength", "CommonPassword")
]

# --- Security --------------------------------------------------------------------------------------------------------

#: Set behind TLS: secure cookies, and the proxy's header is believed.
BEHIND_TLS = env.bool("BEHIND_TLS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
#: How long browsers are told to come over TLS only; it cannot be taken back before that.
SECURE_HSTS_SECONDS = env.int("HSTS_SECONDS", default=0) if BEHIND_TLS else 0
#: Sending people from HTTP to TLS is the proxy's; subdomains and lists of browsers are for the domain's owner.
SILENCED_SYSTEM_CHECKS = ["security.W008", "security.W005", "security.W021"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None
#: Web processes of `serve`. With several, each takes 250 MB with the fast embedding model, and their parent 130 MB.
WEB_PROCESSES = env.int("WEB_PROCESSES", default=1)
#: `/metrics` answers staff sessions, and requests that bear this token; without one, staff only.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="")

# --- Admin -----------------------------------------------------------------------------------------------------------

UNFOLD: dict[str, object] = {
    "SITE_TITLE": "Répondant",
    "SITE_HEADER": "Répondant",
    "SITE_SUBHEADER": f"Administration · {VERSION}",
    "SITE_SYMBOL": "contact_support",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": f"{STATIC_URL}chat/favicon.svg"}],
    "SITE_URL": f"{BASE_PATH}/",
    "SHOW_LANGUAGES": True,
    "DASHBOARD_CALLBACK": "config.home.dashboard",
    "STYLES": [f"{STATIC_URL}agents/admin.css"],
    "SCRIPTS": [f"{STATIC_URL}agents/admin.js"],
    "SIDEBAR": {"navigation": "config.home.navigation"},
    "TABS": "config.home.tabs",
    "ACCOUNT": {
        "navigation": [
            {"title": gettext_lazy("Mot de passe"), "link": reverse_lazy("account_change_password")},
            {"title": gettext_lazy("Second facteur"), "link": reverse_lazy("mfa_index")},
        ]
    },
}

# --- API -------------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["chat.api.framework.CarriedSession"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["chat.api.framework.StrictJSONParser"],
    "EXCEPTION_HANDLER": "chat.api.errors.rest_error",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Répondant",
    "VERSION": VERSION,
    "SERVE_INCLUDE_SCHEMA": False,
    # No part of an operation's name.
    "SCHEMA_PATH_PREFIX": "/api",
    "ENUM_NAME_OVERRIDES": {"MessageRoleEnum": "chat.models.Role.choices"},
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "chat.api.framework.add_questions"],
}

# --- Logging ---------------------------------------------------------------------------------------------------------

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "filters": {"refusals": {"()": "agents.errors.RefusalsInOneLine"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["refusals"]}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {
        # These log whole requests, headers included, at INFO and DEBUG.
        name: {"level": "WARNING"}
        for name in ("httpx", "httpx2", "httpcore", "httpcore2", "openai", "fontTools")
    },
}
