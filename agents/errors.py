"""The root of every error this project raises on purpose, and the errors of the `agents` app.

An `ApplicationError` has a stable `code`, a translatable `public_message`, whether trying again can help, and an HTTP
status. Vendor exceptions are translated at each backend's border; the text of an exception is for logs only.
"""

import logging
from typing import ClassVar

from django.db import DatabaseError
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


class ApplicationError(Exception):
    """Base error: `code`, `status` and `retryable` belong to the class, the messages to the instance."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False
    default_message: ClassVar[str | Promise] = _("Une erreur interne est survenue.")
    #: Seconds after which another try may succeed, where somebody said so.
    retry_after: float | None = None

    def __init__(self, detail: str = "", *, public_message: str | Promise | None = None) -> None:
        self.public_message = public_message or self.default_message
        super().__init__(detail or str(self.public_message))


class StorageUnavailableError(ApplicationError, DatabaseError):
    """The database is in trouble (`agents.database`), and another try may succeed; it stays a `DatabaseError`."""

    code = "storage_unavailable"
    status = 503
    retryable = True
    retry_after = 2.0
    default_message = _("La base de données est occupée ou indisponible. Rien n’est perdu : réessayez dans un instant.")


class LLMError(ApplicationError):
    code = "llm_error"
    status = 502
    default_message = _("Le modèle de langage n’a pas pu répondre.")


class LLMUnavailableError(LLMError):
    """The server refuses connections, rate-limits or fails (5xx; 429 by its subclass)."""

    code = "llm_unavailable"
    status = 503
    retryable = True
    default_message = _("Le modèle de langage est indisponible. Réessayez dans un instant.")


class LLMRateLimitedError(LLMUnavailableError):
    """The server says that it is asked too much (429); `retry_after` where it said for how long."""

    code = "llm_rate_limited"
    default_message = _("Le modèle de langage reçoit trop de demandes. Réessayez dans un instant.")


class LLMKeyRefusedError(LLMError):
    """The server refuses the key, or what is asked with it (401, 403): staff have to see to it."""

    code = "llm_key_refused"
    default_message = _("Le modèle de langage refuse la clé de ce service : prévenez la personne qui s’en occupe.")


class LLMQuotaError(LLMError):
    """What was paid for is used up (402, or a 429 that says so): staff have to see to it."""

    code = "llm_quota_exhausted"
    status = 503
    default_message = _(
        "Le crédit de ce service auprès du modèle de langage est épuisé : prévenez la personne qui s’en occupe."
    )


class LLMTimeoutError(LLMError):
    code = "llm_timeout"
    status = 504
    retryable = True
    default_message = _("Le modèle de langage n’a pas répondu à temps. Réessayez dans un instant.")


class LLMResponseError(LLMError):
    """The server answered something that is not a usable reply (4xx, cut stream, malformed body)."""

    code = "llm_response"
    #: What a server said that refused the request: for finding the refused argument, never for a log.
    refusal: str = ""
    default_message = _("La réponse du modèle de langage est inexploitable ou incomplète.")


class LLMModelUnknownError(LLMResponseError):
    """The server knows no model of this name, or is not at this address (404): staff have to see to it."""

    code = "llm_model_unknown"
    default_message = _("Le serveur ne connaît pas le modèle de langage : prévenez la personne qui s’en occupe.")

    @classmethod
    def named(cls, model: str, detail: str) -> "LLMModelUnknownError":
        said = _("Le serveur ne connaît pas le modèle de langage « %s » : prévenez la personne qui s’en occupe.")
        told = f"{detail} It knows no model {model!r}: set LLM_MODEL, or OPENAI_BASE_URL if that is not its address."
        return cls(told, public_message=said % model)


class LLMToolsRefusedError(LLMResponseError):
    """The server refused a request that offered tools (400, 413, 422)."""


class LLMContextError(LLMError):
    """The question with all that belongs to it is longer than the model reads; `window`: how much it reads, if said."""

    code = "llm_context"
    window: int | None = None
    default_message = _("La question et ses passages dépassent ce que lit le modèle de langage : raccourcissez-la.")


class LLMCutError(LLMResponseError):
    """The stream broke off before its end: the text so far is kept, and asking again may bring the whole."""

    code = "llm_cut"
    retryable = True
    default_message = _("La réponse du modèle de langage s’est interrompue avant la fin. Réessayez.")


class RefusalsInOneLine(logging.Filter):
    """A refused request (4xx) is no fault of ours, and gets one line instead of a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if 400 <= getattr(record, "status_code", 0) < 500:
            record.exc_info = record.exc_text = None
            record.msg, record.args = " ".join(record.getMessage().split()), ()
        return True
