"""`serve`: the web server and its worker, one command."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from chat.serve import require_migrations, require_port, serve
from knowledge.management.terminal import at_least_one

WITHOUT_REDIS = (
    "Several web processes without REDIS_URL: whoever comes back to another process sees a running answer once it is "
    "whole, and each process counts the rate limits for itself."
)


class Command(BaseCommand):
    help = "Run the web server and its worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_serving_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        require_migrations()
        host, port, processes = options["host"], options["port"], options["processes"]
        if processes > 1 and not port:
            raise CommandError("Several web processes need a port of their own: --port N")
        try:
            require_port(host, port)
        except OSError as error:
            raise CommandError(
                f"Port {port} of {host} cannot be had ({error.strerror}). Choose another: --port N"
            ) from error
        if processes > 1 and not settings.REDIS_URL:
            self.stderr.write(WITHOUT_REDIS)
        address = f"http://{host}:{port}{settings.BASE_PATH}"
        self.stdout.write(f"Chat page: {address}/   Admin: {address}/admin/")
        self.stdout.write("Stop with Ctrl+C.")
        self.stdout.flush()
        serve(host=host, port=port, processes=processes, with_worker=not options["no_worker"])


def add_serving_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--processes",
        type=at_least_one,
        default=str(settings.WEB_PROCESSES),
        help="web processes on this machine (WEB_PROCESSES)",
    )
    parser.add_argument("--no-worker", action="store_true", help="web only; run Celery workers elsewhere")
