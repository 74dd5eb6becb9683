"""Configuration mistakes of tools are said at start."""

from django.test import override_settings

from tools_registry.checks import check_tools


def ids() -> list[str | None]:
    return [message.id for message in check_tools(None)]


def test_defaults_are_right() -> None:
    assert ids() == []


@override_settings(TOOL_SELECTORS={"direct": {"BACKEND": "no.such.Selector"}})
def test_selector_that_cannot_be_loaded_is_an_error() -> None:
    assert ids() == ["tools_registry.E001"] * 3


@override_settings(MCP_STDIO_SERVERS={"files": "/usr/bin/files"})
def test_command_line_given_as_one_text_is_an_error() -> None:
    assert ids() == ["tools_registry.E002"]


@override_settings(HANDOVER_EMAILS=["a@example.org"], EMAIL_BACKEND="django.core.mail.backends.console.EmailBackend")
def test_hand_over_without_mail_server_is_a_warning() -> None:
    assert ids() == ["tools_registry.W001"]
