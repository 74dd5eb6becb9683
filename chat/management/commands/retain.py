"""`retain`: delete for good everything that is past its time."""

from argparse import ArgumentParser
from typing import Any

from tqdm import tqdm

from agents.retention import RULES, Rule, retain_now
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
            found = {rule.name: rule.counted() for rule in RULES} if is_dry else _retain()
        verb = "would go" if is_dry else "deleted"
        lines = [f"{found.get(rule.name, 0):>9}  {rule.name} {verb} ({rule.until})" for rule in RULES]
        self.tell(options, {"dry_run": is_dry, "rows": found}, lines)


def _retain() -> dict[str, int]:
    deleted: dict[str, int] = {}
    with tqdm(unit="row", disable=None) as bar:

        def advance(rule: Rule, count: int) -> None:
            bar.set_description(rule.name, refresh=False)
            bar.update(count - deleted.get(rule.name, 0))
            deleted[rule.name] = count

        return retain_now(advance)
