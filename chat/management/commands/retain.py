"""`retain`: delete for good everything that is past its time."""

from argparse import ArgumentParser
from typing import Any

from tqdm import tqdm

from agents.processes.upkeep import Kept
from chat.server.nightly import KEPT, retain_now
from knowledge.management.terminal import JsonCommand, errors_to_terminal


class Command(JsonCommand):
    help = (
        "Delete what is past its time: sessions, jobs, files without a document, old answers in memory, and the rest of "
        "what the page on operations lists. Workers do it every night; it may be stopped at any moment and run again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="count, and delete nothing")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        is_dry = options["dry_run"]
        with errors_to_terminal():
            found = {kept.name: kept.count() for kept in KEPT} if is_dry else _retain()
        verb = "would go" if is_dry else "deleted"
        lines = [f"{found.get(kept.name, 0):>9}  {kept.name} {verb} ({kept.until})" for kept in KEPT]
        self.tell(options, {"dry_run": is_dry, "rows": found}, lines)


def _retain() -> dict[str, int]:
    gone: dict[str, int] = {}
    with tqdm(unit="row", disable=None) as bar:

        def advance(kept: Kept, count: int) -> None:
            bar.set_description(kept.name, refresh=False)
            bar.update(count - gone.get(kept.name, 0))
            gone[kept.name] = count

        return retain_now(advance)
