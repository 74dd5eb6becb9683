"""Whether the database is what this version needs, and how it is changed while the version before still answers.

A migration never waits long for a table that others use: behind a waiting change every question would wait, too. It
gives up within less than a deadlock takes to be found, so that of the two it is the migration which is tried again.
"""

import time
from collections.abc import Callable

from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError, connection
from django.db.migrations.exceptions import InconsistentMigrationHistory, NodeNotFoundError
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

#: How long a migration waits for a table, on PostgreSQL: below the second after which it looks for deadlocks.
MIGRATION_LOCK_SECONDS = 0.8
#: How often, and after which pause: together some minutes, as long as a back-up of a large site may hold a table.
MIGRATION_TRIES = 150
MIGRATION_PAUSE_SECONDS = 1.0

HALF_WAY = (
    "This database was made by a version before 0.1.0 and stopped half-way ({reason}). Bring it up to date with the version "
    "that it was made with, then migrate again; or restore a back-up. See docs/operations.md, Upgrade."
)
TOO_MANY = (
    "{processes} web processes and the worker may open {wanted} connections (DATABASE_POOL_SIZE={pool} each), PostgreSQL gives out "
    "{given}: under load some will be refused. Lower DATABASE_POOL_SIZE, or raise max_connections."
)


def require_migrations() -> None:
    """Raises `CommandError` where the database is not up to date, or cannot be brought there."""
    require_history()
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError("The database is not up to date. Run: manage.py migrate")


def require_history() -> None:
    """Raises `CommandError` where the migrations that the database has had are none that lead to this version."""
    try:
        loader = MigrationLoader(connection)
        loader.check_consistent_history(connection)
    except (InconsistentMigrationHistory, NodeNotFoundError) as error:
        raise CommandError(HALF_WAY.format(reason=error)) from error
    for key, migration in loader.replacements.items():
        missing = set(migration.replaces) - set(loader.applied_migrations)
        if key not in loader.applied_migrations and 0 < len(missing) < len(migration.replaces):
            name = ".".join(sorted(missing)[0])
            raise CommandError(HALF_WAY.format(reason=f"{name} is missing"))


def pools_problem(processes: int) -> str | None:
    """Whether the processes of this machine alone may open more connections than PostgreSQL gives out; a sentence, or
    `None`.
    """
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int"
        )
        (given,) = cursor.fetchone()
    pool = settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
    # The worker has a pool of its own.
    wanted = (processes + 1) * pool
    if wanted <= given:
        return None
    return TOO_MANY.format(processes=processes, pool=pool, wanted=wanted, given=given)


def without_waiting(migrate: Callable[[], object], *, say: Callable[[str], object]) -> None:
    """Run `migrate`, which goes on where it was, again and again until each table was free for it. Elsewhere than on
    PostgreSQL, once.
    """
    if connection.vendor != "postgresql":
        migrate()
        return
    milliseconds = int(MIGRATION_LOCK_SECONDS * 1000)
    for tries_left in reversed(range(MIGRATION_TRIES)):
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {milliseconds}")
        try:
            migrate()
            return
        except OperationalError as error:
            if not (_is_taken(error) and tries_left):
                raise
        say("A table is in use; trying again.")
        time.sleep(MIGRATION_PAUSE_SECONDS)


def _is_taken(error: OperationalError) -> bool:
    """PostgreSQL's `lock_not_available` and `deadlock_detected`."""
    return getattr(error.__cause__, "sqlstate", "") in ("55P03", "40P01")
