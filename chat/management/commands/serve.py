"""`serve`: the web server and its worker, one command."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from agents.llm.base import language_model
from chat.serving import serve
from knowledge.embeddings.base import embedder


class Command(BaseCommand):
    help = "Run the web server and its worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_serving_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Load what the first question would wait for, then serve."""
        require_migrations()
        host, port = options["host"], options["port"]
        embedder().warm_up()
        if (model := language_model()) is not None:
            model.warm_up()
        self.stdout.write(f"Chat page: http://{host}:{port}/   Admin: http://{host}:{port}/admin/")
        self.stdout.write("Stop with Ctrl+C.")
        self.stdout.flush()
        try:
            serve(host=host, port=port, with_worker=not options["no_worker"])
        except OSError as error:
            raise CommandError(
                f"Port {port} of {host} cannot be had ({error.strerror}). Choose another: --port N"
            ) from error


def add_serving_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--no-worker", action="store_true", help="web only; run Celery workers elsewhere"
    )


def require_migrations() -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise CommandError("The database is not up to date. Run: manage.py migrate")
