"""System checks of `agents`: is the language model that the settings name usable?

No check opens a connection; a site without a language model is a valid site.
"""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.core.exceptions import ImproperlyConfigured

from agents.llm.base import language_model


@checks.register()
def check_language_model(app_configs: Sequence[AppConfig] | None, **_kwargs: Any) -> list[checks.CheckMessage]:
    """Load the configured language model and ask it for its own messages."""
    try:
        model = language_model()
    except (ImproperlyConfigured, ImportError, KeyError, TypeError, ValueError) as error:
        # A wrong option is a `TypeError` of the backend's constructor: its text names the option, not its value.
        return [
            checks.Error(
                f"The setting LLMS is wrong: {error}",
                hint="An alias has a BACKEND (dotted path) and OPTIONS that it accepts.",
                id="agents.E001",
            )
        ]
    return [] if model is None else model.check()
