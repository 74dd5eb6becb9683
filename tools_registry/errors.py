"""Errors of the `tools_registry` app. During execution they become results with `success=False`, which the model reads."""

from django.utils.translation import gettext_lazy as _

from agents.errors import ApplicationError


class ToolError(ApplicationError):
    code = "tool_error"
    default_message = _("L’outil n’a pas pu être utilisé.")


class ToolDefinitionError(ToolError):
    """A function, a remote description or a name that cannot become a tool; raised when it is declared."""

    code = "tool_definition"
    default_message = _("Cet outil est mal défini.")


class UnknownToolError(ToolError):
    """The model asked for a name that it was not given."""

    code = "unknown_tool"
    default_message = _("Cet outil n’existe pas ou n’est pas proposé ici.")


class ToolForbiddenError(ToolError):
    code = "tool_forbidden"
    default_message = _("Vous n’avez pas le droit d’utiliser cet outil.")


class ToolApprovalError(ToolError):
    """A tool that needs a person's approval was called without it."""

    code = "tool_needs_approval"
    default_message = _("Cet outil demande l’accord d’une personne avant de s’exécuter.")


class InvalidToolArgumentsError(ToolError):
    code = "invalid_tool_arguments"
    default_message = _("Les arguments donnés à l’outil ne sont pas valides.")


class ToolTimeoutError(ToolError):
    code = "tool_timeout"
    default_message = _("L’outil n’a pas répondu à temps.")


class ToolFailedError(ToolError):
    code = "tool_failed"
    default_message = _("L’outil a échoué.")


class ToolReportedError(ToolError):
    """The tool ran and says what went wrong; its words (`str(error)`) are for the model."""

    code = "tool_reported_error"
    default_message = _("L’outil a signalé une erreur.")


class ToolServerError(ToolFailedError):
    """The server says that it failed itself; its words (`str(error)`) are for the model."""


class ToolSourceError(ToolError):
    """A tool server or an OpenAPI document that cannot be read, or that points where it must not."""

    code = "tool_source"
    default_message = _("Cette source d’outils est inutilisable.")
