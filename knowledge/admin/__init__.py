"""The admin pages of `knowledge`, one module a topic; what takes time is queued by the verbs of `knowledge.indexing`.

May import all of `knowledge`; only the site's urls import it. Importing a module registers its pages, and Django's
autodiscovery imports this package alone, so all of its modules are imported here.
"""

from knowledge.admin import builds, chunks, documents, search  # noqa: F401
