"""Errors of the `knowledge` app. Which are retryable is part of their contract (jobs retry those only)."""

from django.utils.translation import gettext_lazy as _

from agents.errors import ApplicationError


class KnowledgeError(ApplicationError):
    code = "knowledge_error"
    default_message = _("La base de connaissances n’a pas pu être utilisée.")


class EmbeddingUnavailableError(KnowledgeError):
    code = "embedding_unavailable"
    status = 503
    retryable = True
    default_message = _("Le modèle d’embedding est indisponible. Réessayez dans un instant.")


class MachineTroubleError(KnowledgeError):
    """A file could not be read or kept for want of something of this machine’s (space, descriptors): not the file's
    fault.
    """

    code = "machine_trouble"
    status = 503
    retryable = True
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


class VectorStoreUnavailableError(KnowledgeError):
    code = "vector_store_unavailable"
    status = 503
    retryable = True
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


class PagePictureError(KnowledgeError):
    """A page of a document that cannot be drawn within its limits, or not now."""

    code = "page_picture"
    status = 503
    retryable = True
    default_message = _("Cette page ne peut pas être affichée pour le moment.")


class PageRefusedError(KnowledgeError):
    """An address that may not be fetched, or a page that its server refuses or that is of no use."""

    code = "page_refused"
    default_message = _("Cette adresse ne peut pas être lue.")


class PageUnavailableError(KnowledgeError):
    """A page whose server is down, slow or overloaded."""

    code = "page_unavailable"
    status = 503
    retryable = True
    default_message = _("Ce site ne répond pas pour le moment.")
