"""Sets constants of the product's modules to what `SITE_CONSTANTS` says, once all apps are loaded."""

import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path

from django.apps import AppConfig
from django.conf import settings

ROOT = Path(__file__).resolve().parents[2]
APPS = ("agents", "chat", "config", "faqs", "knowledge", "tools_registry")


def homes(name: str) -> list[str]:
    """The modules that define a constant."""
    defined = re.compile(rf"^{name}\b.* = ", re.MULTILINE)
    files = (path for app in APPS for path in (ROOT / app).rglob("*.py"))
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files if defined.search(path.read_text())
    ]


class SiteConstants(AppConfig):
    name = "benchmarks.resilience"

    def ready(self) -> None:
        for name, value in json.loads(os.environ.get("SITE_CONSTANTS", "{}")).items():
            modules = [import_module(home) for home in homes(name) if not home.startswith("config.settings")]
            if not modules and not hasattr(settings, name):
                raise LookupError(f"no module defines {name}")
            for key, module in list(sys.modules.items()):
                if key.split(".")[0] in APPS and not key.startswith("config.settings") and name in vars(module):
                    setattr(module, name, value)
