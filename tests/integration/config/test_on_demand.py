"""What a worker does not need is not loaded with it; the checks look at all of it."""

import subprocess
import sys

from django.conf import settings

PROGRAM = """
import sys
from config.celery import app
app.loader.import_default_modules()
print([name for name in ("unfold.admin", "psycopg", "jsonschema", "chat.urls") if name in sys.modules])
from django.contrib import admin
from django.core import checks
checks.run_checks(tags=["admin"])
print(len(admin.site._registry) > 20)
"""


def test_a_worker_does_without_the_admin_until_checks_look_at_it() -> None:
    done = subprocess.run(  # noqa: S603  # fixed program
        [sys.executable, "-c", PROGRAM],
        cwd=settings.BASE_DIR,
        env={"CELERY_SKIP_CHECKS": "1", "DATA_DIR": str(settings.DATA_DIR), "SECRET_KEY": "x"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split("\n")[:2] == ["[]", "True"], done.stderr
