"""An ASGI server imports the application within its event loop, on either database."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.releases.keep import site_environment
from tests.servers.postgres import postgres_url

IMPORT = """
import asyncio, django
django.setup()
from django.db import connection
connection.ensure_connection()
async def serve(): import config.asgi
asyncio.run(serve())
print("imported", connection.settings_dict["OPTIONS"])
"""


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_application_is_imported_within_a_loop(database: str, tmp_path: Path) -> None:
    with postgres_url() as url:
        if database == "postgresql" and url is None:
            pytest.skip("PostgreSQL is not there")
        given = f"sqlite:///{tmp_path / 'site.db'}" if database == "sqlite" else str(url)
        environment = {**site_environment(tmp_path, given), "PATH": os.environ["PATH"]}
        done = subprocess.run(  # noqa: S603  # our own script
            [sys.executable, "-c", IMPORT],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "imported" in done.stdout, done.stderr[-2000:]
