"""`config/constants.py` holds what no operator changes: every constant is a setting, explained, and used."""

import re
from pathlib import Path

from django.conf import settings

from config import constants

ROOT = Path(__file__).resolve().parents[3]
APPS = ("agents", "chat", "config", "faqs", "knowledge", "tools_registry")
NAMES = sorted(name for name in vars(constants) if name.isupper())
#: Read by Django itself.
FRAMEWORK = {"DATA_UPLOAD_MAX_MEMORY_SIZE", "EMAIL_TIMEOUT"}


def test_every_constant_is_a_setting() -> None:
    assert [name for name in NAMES if not hasattr(settings, name)] == []


def test_every_constant_is_read_somewhere() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for app in APPS
        for path in (ROOT / app).rglob("*.py")
        if path.name not in {"constants.py", "settings_test.py"}
    )
    read = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", sources))

    assert [name for name in NAMES if name not in read | FRAMEWORK] == []


def test_no_constant_is_read_from_the_environment() -> None:
    settings_source = (ROOT / "config" / "settings.py").read_text(encoding="utf-8")

    assert [name for name in NAMES if f'"{name}"' in settings_source] == []
