"""Errors of the `chat` app."""

import math
from typing import Self

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from agents.errors import ApplicationError


class ChatError(ApplicationError):
    code = "chat_error"
    default_message = _("La conversation n’a pas pu continuer.")


class InvalidMessageError(ChatError):
    """A message that is empty, too long, or not of the form the protocol asks for."""

    code = "invalid_message"
    status = 422
    default_message = _("Ce message n’est pas valide.")


class UnreadableTextError(InvalidMessageError):
    """What was sent is no text in UTF-8, or holds half a character (`chat.protocol`)."""

    status = 400
    default_message = _("Le texte n’est pas en UTF-8, ou contient un caractère incomplet.")


class MessageTooLargeError(InvalidMessageError):
    """Beyond what is even read."""

    code = "message_too_large"
    status = 413

    @classmethod
    def beyond(cls, limit: int) -> Self:
        """A request of more bytes than the limit."""
        message = gettext("La demande dépasse %(limit)d octets.") % {"limit": limit}
        return cls("body too large", public_message=message)


class TurnRunningError(ChatError):
    code = "turn_running"
    status = 409
    retryable = True
    default_message = _("Une réponse est déjà en cours dans cette conversation.")


class ConversationNotFoundError(ChatError):
    """Absent, or somebody else's: the two are not told apart."""

    code = "conversation_not_found"
    status = 404
    default_message = _("Cette conversation n’existe pas ou n’est pas la vôtre.")


class DeploymentNotFoundError(ChatError):
    """Absent, inactive, or not for this person: the three are not told apart."""

    code = "deployment_not_found"
    status = 404
    default_message = _("Ce guichet n’existe pas ou ne vous est pas ouvert.")


class TurnNotFoundError(ChatError):
    code = "turn_not_found"
    status = 404
    default_message = _("Cette réponse n’existe pas ou n’est pas la vôtre.")


class TurnNotLastError(ChatError):
    """A turn of the past is not run again: its answer would stand after what was said since."""

    code = "turn_not_last"
    status = 409
    default_message = _("La conversation a continué depuis cette question : posez-la de nouveau à la suite.")


class TurnTakenOverError(ConversationNotFoundError):
    """This run was taken for dead, and the turn runs again elsewhere or has its answer: nothing of this one is kept."""

    code = "turn_taken_over"
    status = 500


class OverloadedError(ChatError):
    """Every place for preparing a turn stays taken (`chat.runs.runner`); the turns that have one are not slowed."""

    code = "overloaded"
    status = 503
    retryable = True
    retry_after = 2.0
    default_message = _("Beaucoup de questions arrivent en ce moment. Rien n’est perdu : réessayez dans un instant.")


class ServerStoppingError(ChatError):
    """This process is about to end; another one, or the same one started again, takes the question."""

    code = "server_stopping"
    status = 503
    retryable = True
    default_message = _("Le serveur redémarre. Votre question n’est pas perdue : réessayez dans un instant.")


class TurnTimeoutError(ChatError):
    code = "turn_timeout"
    status = 504
    retryable = True
    default_message = _("La réponse a pris trop de temps. Réessayez dans un instant.")


class AnswerNotSavedError(ChatError):
    code = "answer_not_saved"
    status = 503
    retryable = True
    default_message = _("La réponse n’a pas pu être enregistrée : copiez-la si vous voulez la garder, puis réessayez.")


class IsolationError(ChatError):
    """A message of another conversation was about to reach a model. The turn ends; the log has identifiers only."""

    code = "isolation"
    default_message = _("Une erreur interne est survenue.")


class ThreadConflictError(ChatError):
    """Somebody wrote to the thread meanwhile: reload and replay. `version` is the thread's own now."""

    code = "thread_conflict"
    status = 409
    retryable = True
    default_message = _("La conversation a changé entre-temps : relisez-la, puis réessayez.")

    def __init__(self, detail: str = "", *, version: int) -> None:
        self.version = version
        super().__init__(detail)


class ApprovalOverError(ChatError):
    """The call was decided before, or its turn goes on without it."""

    code = "approval_over"
    status = 409
    default_message = _("Cette demande d’accord n’est plus en attente.")


class InvalidToolMessageError(ChatError):
    """A batch that may not be stored; nothing of it is. The public message names what is wrong and where."""

    code = "invalid_tool_message"
    status = 422
    default_message = _("Ces messages ne sont pas valides ; aucun n’a été enregistré.")


class ServiceTokenError(ChatError):
    """No service token, or one that is unknown or revoked."""

    code = "service_token"
    status = 401
    default_message = _("Un jeton de service valide est demandé.")


class ServiceForbiddenError(ChatError):
    code = "service_forbidden"
    status = 403
    default_message = _("Ce jeton de service n’ouvre pas cette conversation.")


class ApiKeyError(ChatError):
    """No API key, or one that is unknown, revoked or expired."""

    code = "invalid_api_key"
    status = 401
    default_message = _("Une clé d’API valide est demandée.")


class DeploymentClosedError(ChatError):
    """A key or a service token is for this deployment, and it is switched off."""

    code = "deployment_closed"
    status = 403
    default_message = _("Ce guichet est fermé pour le moment.")


class WidgetClosedError(ChatError):
    """The deployment is not offered on this site: unknown key, not public, switched off, or a site that is not listed."""

    code = "widget_closed"
    status = 403
    default_message = _("Ce site n’est pas autorisé à afficher cette aide.")


class VisitorTokenError(ChatError):
    """No visitor's token, or one that is forged or too old: the frame takes a new one."""

    code = "visitor_token"
    status = 401
    default_message = _("Votre session a expiré. Rechargez la page.")


class RateLimitedError(ChatError):
    """Too much in too short a time; `retry_after` says in how many seconds the next try is let through."""

    code = "rate_limited"
    status = 429
    retryable = True

    def __init__(self, detail: str = "", *, retry_after: float) -> None:
        super().__init__(
            detail,
            public_message=ngettext(
                "Trop de demandes en peu de temps. Réessayez dans %(seconds)d seconde.",
                "Trop de demandes en peu de temps. Réessayez dans %(seconds)d secondes.",
                seconds := max(1, math.ceil(retry_after)),
            )
            % {"seconds": seconds},
        )
        self.retry_after = seconds


class HelpRefusedError(ChatError):
    """Its desk has nobody to ask, or too much was asked today."""

    code = "help_refused"
    status = 403
    default_message = _("Aucune demande à une personne n’est possible ici.")


class MessageNotFoundError(ChatError):
    """Absent, not an answer, or somebody else's: not told apart."""

    code = "message_not_found"
    status = 404
    default_message = _("Cette réponse n’existe pas ou n’est pas la vôtre.")


class AnswerCutError(ChatError):
    """Never raised: the notice of an answer that its greatest length ended."""

    code = "answer_cut"
    default_message = _(
        "Réponse coupée : elle a atteint sa longueur maximale. Demandez la suite, ou posez une question plus précise."
    )


class AnswerFilteredError(ChatError):
    """Never raised: the notice of an answer that the filter of the model's server ended."""

    code = "answer_filtered"
    default_message = _("Réponse arrêtée par le filtre du modèle de langage. Essayez avec d’autres mots.")


class AnswerReplacedError(ChatError):
    code = "answer_replaced"
    default_message = _("Le modèle n’a pas donné de réponse utilisable : voici ce que disent les documents.")


class NumberUnsupportedError(ChatError):
    code = "number_unsupported"
    default_message = _("Un nombre de cette réponse n’est pas dans le passage cité : vérifiez-le dans les sources.")


class LinkNotFoundError(ChatError):
    """Absent, or not for this person: not told apart."""

    code = "link_not_found"
    status = 404
    default_message = _("Ce lien n’existe pas, n’est plus valable ou ne vous est pas ouvert.")
