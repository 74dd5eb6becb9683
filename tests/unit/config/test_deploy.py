"""The files of `deploy/` name what is there: settings of the environment, commands, metrics."""

import re
from pathlib import Path

import yaml
from django.core.management import get_commands

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
