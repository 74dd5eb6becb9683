"""The system check of the `LLMS` setting: silent when right or absent, one clear error when wrong."""

from typing import Any

import pytest
from django.test import override_settings

from agents.checks import check_language_model

pytestmark = pytest.mark.unit

OPENAI = "agents.llm.openai.OpenAILanguageModel"


@pytest.mark.parametrize(
    ("llms", "found"),
    [
        ({}, []),
        ({"default": {"BACKEND": "tests.scripted.ScriptedLLM"}}, []),
        ({"default": {"BACKEND": OPENAI, "OPTIONS": {"api_key": "k", "model": "m"}}}, []),
        ({"default": {"BACKEND": OPENAI}}, ["agents.E002", "agents.E003"]),
        ({"default": {"BACKEND": "nowhere.Model"}}, ["agents.E001"]),
        ({"default": {}}, ["agents.E001"]),
        ({"default": {"BACKEND": OPENAI, "OPTIONS": {"colour": "red"}}}, ["agents.E001"]),
        ({"default": {"BACKEND": "agents.checks.check_language_model"}}, ["agents.E001"]),
    ],
)
def test_a_wrong_setting_is_one_clear_message(llms: dict[str, Any], found: list[str]) -> None:
    with override_settings(LLMS=llms):
        assert [message.id for message in check_language_model(None)] == found
