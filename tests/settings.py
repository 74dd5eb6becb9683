"""Settings of the tests: the fakes instead of real backends, no key, no service.

`TEST_VECTOR_STORE` chooses the store that the suite runs on: `table` (default), `qdrant-memory`, or `qdrant` (needs
`QDRANT_URL`). `DATABASE_URL` chooses the database as in production.
"""

import os
import tempfile

os.environ["DATA_DIR"] = os.environ.get("TEST_DATA_DIR") or tempfile.mkdtemp(prefix="repondant-test-")
os.environ.setdefault("SECRET_KEY", "only-for-tests")
for _name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "EMBEDDER", "EMBEDDING_MODEL", "REDIS_URL"):
    os.environ.pop(_name, None)

from config.settings import *  # noqa: E402, F403
from config.settings import DATA_DIR, DATABASES, QDRANT_API_KEY, QDRANT_URL, VECTOR_STORES, env  # noqa: E402

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file, as in production: an in-memory database shares one lock among threads and does not wait for it.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.db")}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMBEDDERS = {"default": {"BACKEND": "tests.hashing.HashingEmbedder"}}
LLMS = {}
CELERY_BROKER_URL = "memory://"
HAS_BROKER = True
CELERY_BROKER_TRANSPORT_OPTIONS = {}
CELERY_TASK_ALWAYS_EAGER = True
DATABASE_THREAD_SENSITIVE = True
CONFIG_CACHE_SECONDS = 0.0
# Hundreds of tests ask from one address in a minute; those about limits switch them on.
RATE_LIMITS = ACCOUNT_RATE_LIMITS = False
# A provider that is not there; those who sign in by it have one.
HAS_MAIL = True
OIDC_SERVER_URL = "http://127.0.0.1:1"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", "chat.access.provider.ProviderBackend"]
AFTERWARDS_DELAY_SECONDS = 0.0
RIGHTS_CHECK_SECONDS = 0.0
SAVE_RETRY_SECONDS = (0.0, 0.0)
# A test's settings and patches reach the parsers; `tests/integration/knowledge/test_isolation.py` switches it
# on.
PARSE_ISOLATED = False
# The same whether Tesseract is installed or not; tests of OCR name a program of their own.
OCR_COMMAND = ""
WHITENOISE_USE_FINDERS = False
WHITENOISE_AUTOREFRESH = True
_QDRANT = "knowledge.vectors.qdrant.QdrantVectorStore"
_stores: dict[str, dict[str, object]] = {
    "table": {"BACKEND": "knowledge.vectors.table.TableVectorStore"},
    "qdrant-memory": {"BACKEND": "tests.in_process_qdrant.InProcessQdrant"},
    "qdrant": {
        "BACKEND": _QDRANT,
        "OPTIONS": {
            "url": QDRANT_URL,
            "api_key": QDRANT_API_KEY,
            # A worker of the suite sees its own collections only.
            "prefix": f"test_{os.environ.get('PYTEST_XDIST_WORKER', '')}",
        },
    },
}
VECTOR_STORES["default"] = _stores[env.str("TEST_VECTOR_STORE", default="table")]
