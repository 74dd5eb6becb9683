"""A database file that is damaged: every door answers, none hangs, and the process lives."""

import json
import os
from pathlib import Path

import pytest

from tests.servers.commands import python
from tests.servers.of_the_run import migrated_sqlite

pytestmark = [pytest.mark.contracts, pytest.mark.timeout(600)]

#: Asks in a process of its own, on a database of its own: as it should be, and damaged. Prints the statuses.
SCRIPT = """
import json, os
import django
django.setup()
from django.conf import settings
from django.db import connections
from django.test import Client
from tests.factories import make_library

make_library(slug="public")
client = Client(raise_request_exception=False, headers={"Host": "localhost"})

def statuses():
    asked = {"message": "Quels sont les horaires d'ouverture de la bibliothèque ?", "deployment": "public"}
    answers = [client.get("/healthz"), client.get("/readyz"), client.get("/")]
    answers.append(client.post("/api/rag/chat", asked, "application/json"))
    return [answer.status_code for answer in answers]

found = [statuses()]
connections.close_all()
path = settings.DATABASES["default"]["NAME"]
for name in (path, f"{path}-wal"):
    if os.path.exists(name):
        with open(name, "r+b") as file:
            file.write(os.urandom(65536))
found.append(statuses())
print(json.dumps(found))
"""


def test_broken_database_is_an_error_and_no_crash(tmp_path: Path) -> None:
    migrated_sqlite(tmp_path / "site.db")
    environment = {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{tmp_path / 'site.db'}",
        "TEST_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "LOG_LEVEL": "CRITICAL",
    }
    ran = python("-c", SCRIPT, environment=environment)
    whole, damaged = json.loads(ran.stdout.splitlines()[-1])
    assert whole == [200, 200, 200, 200]
    assert damaged[0] == 200
    assert min(damaged[2:]) >= 500
