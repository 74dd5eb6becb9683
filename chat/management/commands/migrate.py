"""`migrate`: Django's own, which says in words what cannot be migrated, and does not stand in the way of running
processes.
"""

from functools import partial
from typing import Any

from django.core.management.commands.migrate import Command as Migrate

from chat.serve import require_history, without_waiting


class Command(Migrate):
    def handle(self, *args: Any, **options: Any) -> None:
        require_history()
        without_waiting(partial(super().handle, *args, **options), say=self.stderr.write)
