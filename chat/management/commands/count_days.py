"""`count_days`: bring the daily figures of the admin up to date, or count every day anew."""

from argparse import ArgumentParser
from typing import Any

from tqdm import tqdm

from chat.staff.figures import count_anew, count_due
from knowledge.management.terminal import JsonCommand, errors_to_terminal


class Command(JsonCommand):
    help = (
        "Count the questions of each day that is due, for the page « Comment va le service ». Workers do it every night; it "
        "may be stopped at any moment and run again. What was counted of deleted conversations stays."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="count every day anew")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        count = count_anew if options["all"] else count_due
        with errors_to_terminal(), tqdm(unit="day", disable=None) as bar:

            def advance(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            days = count(advance)
        self.tell(options, {"days": days}, [f"{days} days counted"])
