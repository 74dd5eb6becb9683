"""Errors of the `faqs` app."""

from django.utils.translation import gettext_lazy as _

from agents.exceptions import ApplicationError


class FaqError(ApplicationError):
    code = "faq_error"
    default_message = _("Les réponses validées n’ont pas pu être utilisées.")


class MemoryFileError(FaqError):
    """A file of the memory that cannot be read or written; `public_message` says which and why."""

    code = "memory_file"
    default_message = _("Ce fichier n’est pas une mémoire.")
