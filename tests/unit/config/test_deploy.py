"""The files of `deploy/` name what is there: settings of the environment, commands, metrics."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml
from django.core.management import get_commands
from django.test import override_settings

from config.health import check_service

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
#: Of the other programs of the compose file.
OTHERS = {"DESK_HOST", "DESK_UPSTREAM", "POSTGRES_PASSWORD"}


def test_variables_are_those_of_the_desk() -> None:
    known = set(re.findall(r"^#?([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE)) | OTHERS
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    named = set(re.findall(r"^#?([A-Z_]+)=", (DEPLOY / "example.env").read_text(), re.MULTILINE))
    assert named | set(compose["x-desk"]["environment"]) <= known


def test_commands_and_metrics_exist() -> None:
    units = "".join(path.read_text() for path in (DEPLOY / "systemd").iterdir())
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    named = {*re.findall(r"manage\.py (\w+)", units), compose["web"]["command"][0], compose["migrate"]["command"][0]}
    assert named <= set(get_commands())
    health = (ROOT / "config" / "health.py").read_text()
    rules = (DEPLOY / "prometheus-rules.yaml").read_text()
    assert all(name in health for name in re.findall(r"repondant_\w+", rules))


#: A site on which everything is wrong, as its environment says it.
_LINES = """DJANGO_SETTINGS_MODULE=config.settings SECRET_KEY=short ALLOWED_HOSTS=localhost DEBUG=True RATE_LIMITS=False
WEB_PROCESSES=2 TURN_TIMEOUT_SECONDS=1 TOOL_SECRET_CRM=s3cret DATABASE_URL= REDIS_URL= METRICS_TOKEN= TRUSTED_PROXIES="""
WRONG = {name: value for name, _equals, value in (each.partition("=") for each in _LINES.split())}


def test_each_line_before_going_live_is_a_check(tmp_path: Path) -> None:
    page, said = (ROOT / "docs" / "operations.md").read_text(), ""
    for behind_tls in ("False", "True"):
        site = {**os.environ, **WRONG, "DATA_DIR": str(tmp_path), "BEHIND_TLS": behind_tls}
        command = [sys.executable, "manage.py", "check", "--deploy"]
        said += subprocess.run(command, cwd=ROOT, env=site, capture_output=True, text=True, check=False).stderr  # noqa: S603
    section = page.partition("**Before it goes live.**")[2].partition("\n\nThen")[0]
    listed = set(re.findall(r"`(\w+\.[WE]\d{3})`", section))
    assert len(listed) == 13
    assert [each for each in listed if f"({each})" not in said] == []


@override_settings(ALLOWED_HOSTS=["desk.example.org"], METRICS_TOKEN="t", RATE_LIMITS=True)
def test_nothing_is_lacking_where_all_lines_are_right() -> None:
    assert check_service() == []
