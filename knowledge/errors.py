"""Errors of the `knowledge` app. Which are retryable is part of their contract (jobs retry those only).

What a machine lacks (space, descriptors) is not the fault of the file that is read or kept: `machine_trouble` tells it
by the system's own error numbers.
"""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from django.utils.translation import gettext_lazy as _

from agents.database import first_line
from agents.errors import ApplicationError


class KnowledgeError(ApplicationError):
    code = "knowledge_error"
    default_message = _("La base de connaissances n’a pas pu être utilisée.")


class _RetryableError(KnowledgeError):
    """What may pass by itself: another try can succeed."""

    status = 503
    retryable = True


class EmbeddingUnavailableError(_RetryableError):
    code = "embedding_unavailable"
    default_message = _("Le modèle d’embedding est indisponible. Réessayez dans un instant.")


class MachineTroubleError(_RetryableError):
    """The machine, not the file, is at fault: it lacks space or file descriptors."""

    code = "machine_trouble"
    default_message = _(
        "Cette machine n’a pas pu lire ou garder ce fichier, qui n’y est pour rien. Rien n’est perdu : le travail reprendra de lui-même."
    )


class DiskFullError(MachineTroubleError):
    code = "disk_full"
    default_message = _("Le disque est plein. Rien n’est perdu : faites de la place, le travail reprendra de lui-même.")


class EmbeddingInputError(KnowledgeError):
    """A text that cannot be embedded: empty after normalisation."""

    code = "embedding_input"
    default_message = _("Ce texte est vide : il ne peut pas être indexé ni recherché.")


class EmbeddingMismatchError(KnowledgeError):
    """A collection was built with another recipe (model, dimensions, normalisation, prefixes) than the one in use."""

    code = "embedding_mismatch"
    default_message = _(
        "L’index a été construit avec un autre modèle d’embedding. Reconstruisez-le avec rebuild_agent_index."
    )


class VectorStoreUnavailableError(_RetryableError):
    code = "vector_store_unavailable"
    default_message = _("La base vectorielle est indisponible. Réessayez dans un instant.")


class CollectionMissingError(KnowledgeError):
    code = "collection_missing"
    default_message = _("Cet agent n’a pas encore d’index. Ajoutez des documents ou lancez rebuild_agent_index.")


class RebuildInProgressError(KnowledgeError):
    code = "rebuild_in_progress"
    default_message = _("Une reconstruction de cet index est déjà en cours.")


class UnreadableDocumentError(KnowledgeError):
    """A file that cannot be turned into text; `public_message` says why and what to do."""

    code = "unreadable_document"
    default_message = _("Ce document est illisible.")


class PagePictureError(_RetryableError):
    """A page of a document that cannot be drawn within its limits, or not now."""

    code = "page_picture"
    default_message = _("Cette page ne peut pas être affichée pour le moment.")


class PageRefusedError(KnowledgeError):
    """An address that may not be fetched, or a page that its server refuses or that is of no use."""

    code = "page_refused"
    default_message = _("Cette adresse ne peut pas être lue.")


class PageUnavailableError(_RetryableError):
    """A page whose server is down, slow or overloaded."""

    code = "page_unavailable"
    default_message = _("Ce site ne répond pas pour le moment.")


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Not `ENOMEM`: a file may ask for more memory than its reader is given. `ENOENT`: parsers open no file of a document's
#: naming; what is missing is a folder for temporary files, or a program's own file.
_MACHINE = _FULL | {*(errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOENT)}
#: PostgreSQL's `disk_full`.
_DISK_FULL = "53100"


def machine_trouble(error: BaseException | None) -> MachineTroubleError | None:
    """Return the machine's fault (full disk, no descriptors) among an error and its causes, or `None`."""
    while error is not None:
        if isinstance(error, MachineTroubleError):
            return error
        if isinstance(error, OSError) and error.errno in _MACHINE:
            # Without a place for temporary files, Python does not say that it is for want of space.
            is_full = error.errno in _FULL or "temporary directory" in str(error)
            return (DiskFullError if is_full else MachineTroubleError)(str(error))
        code = getattr(error, "sqlite_errorcode", 0) if isinstance(error, sqlite3.Error) else 0
        if code & 0xFF == sqlite3.SQLITE_FULL or getattr(error, "sqlstate", None) == _DISK_FULL:
            return DiskFullError(first_line(Exception(str(error))))
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def named_machine() -> Iterator[None]:
    """Turn an `OSError` that is the machine's fault (`machine_trouble`) into a `MachineTroubleError`; others pass."""
    try:
        yield
    except OSError as error:
        if (trouble := machine_trouble(error)) is None:
            raise
        raise trouble from error


def staff_reason(error: ApplicationError) -> str:
    """Return why something failed, in words for staff; a fault of the machine behind the error comes first."""
    return str((machine_trouble(error) or error).public_message)
