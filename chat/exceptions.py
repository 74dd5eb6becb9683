"""Errors of the `chat` app."""

from django.utils.translation import gettext_lazy as _

from agents.exceptions import ApplicationError


class ChatError(ApplicationError):
    code = "chat_error"
    default_message = _("La conversation n’a pas pu continuer.")


class InvalidMessageError(ChatError):
    """A message that is empty, too long, or not of the form the protocol asks for."""

    code = "invalid_message"
    default_message = _("Ce message n’est pas valide.")


class MessageTooLargeError(InvalidMessageError):
    """Beyond what is even read."""

    code = "message_too_large"


class TurnRunningError(ChatError):
    code = "turn_running"
    retryable = True
    default_message = _("Une réponse est déjà en cours dans cette conversation.")


class ConversationNotFoundError(ChatError):
    """Absent, or somebody else's: the two are not told apart."""

    code = "conversation_not_found"
    default_message = _("Cette conversation n’existe pas ou n’est pas la vôtre.")


class DeploymentNotFoundError(ChatError):
    """Absent, inactive, or not for this person: the three are not told apart."""

    code = "deployment_not_found"
    default_message = _("Ce déploiement n’existe pas ou ne vous est pas ouvert.")


class TurnNotFoundError(ChatError):
    code = "turn_not_found"
    default_message = _("Cette réponse n’existe pas ou n’est pas la vôtre.")


class TurnTimeoutError(ChatError):
    code = "turn_timeout"
    retryable = True
    default_message = _("La réponse a pris trop de temps. Réessayez dans un instant.")


class AnswerNotSavedError(ChatError):
    code = "answer_not_saved"
    retryable = True
    default_message = _(
        "La réponse n’a pas pu être enregistrée : copiez-la si vous voulez la garder, puis réessayez."
    )


class IsolationError(ChatError):
    """A message of another conversation was about to reach a model. The turn ends; the log has identifiers only."""

    code = "isolation"
    default_message = _("Une erreur interne est survenue.")
