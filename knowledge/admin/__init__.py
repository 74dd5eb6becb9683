"""The admin pages of `knowledge`, one module a topic; what takes time is queued by the verbs of `knowledge.indexing`.

Imports everything below. Nothing but the site's urls imports it. Its modules are imported here because Django's
autodiscovery loads this package alone, and importing a module is what registers its pages.
"""

from knowledge.admin import builds, chunks, documents, search  # noqa: F401
