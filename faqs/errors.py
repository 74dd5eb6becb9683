"""Errors of the `faqs` app."""

from django.utils.translation import gettext_lazy as _

from agents.errors import ApplicationError


class FaqError(ApplicationError):
    code = "faq_error"
    default_message = _("Les réponses validées n’ont pas pu être utilisées.")


class AnswerRejectedError(FaqError):
    """A question or an answer that cannot be kept, with the reason that people read."""

    code = "answer_rejected"
    default_message = _("Cette réponse ne peut pas être enregistrée.")

    def __init__(self, reason: str) -> None:
        super().__init__(public_message=reason)


class MemoryFileError(FaqError):
    """A file of the memory that cannot be read or written; `public_message` says which and why."""

    code = "memory_file"
    default_message = _("Ce fichier n’est pas une mémoire.")
