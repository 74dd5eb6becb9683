"""`check_integrity`: rows without their file or their point, and the reverse."""

from typing import Any

from django.core.management.base import CommandError
from tqdm import tqdm

from agents.models import Agent
from knowledge.indexing.path import stored_files
from knowledge.indexing.rebuild import preview_rebuild
from knowledge.management.terminal import LISTED_NAMES, JsonCommand
from knowledge.models import Document


class Command(JsonCommand):
    help = (
        "Compare documents with their stored files, and every agent's rows with the points of its index. Changes nothing. "
        "A status other than 0 says that something is missing or differs; files without a row alone are no fault."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        storage, stored = Document._meta.get_field("file").storage, set(stored_files())
        named = dict(Document.objects.exclude(file="").values_list("file", "name"))
        # One that was stored meanwhile is not in the list.
        missing = {file: name for file, name in named.items() if file not in stored and not storage.exists(file)}
        without_row = sorted(stored - named.keys())
        indexes = [
            {"agent": agent.slug, "method": method, **preview_rebuild(agent=agent, method=method)}
            for agent in tqdm(Agent.objects.order_by("slug"), unit="agent", disable=None)
            for method in sorted(agent.methods_in_use())
        ]
        self.tell(
            options,
            {"documents_without_file": missing, "files_without_row": without_row, "indexes": indexes},
            [
                *(f"The file of the document {name!r} is missing: {file}" for file, name in missing.items()),
                f"{len(named)} files of documents, {len(missing)} missing; {len(without_row)} files without a row",
                *without_row[:LISTED_NAMES],
                *map(
                    "{agent} ({method}): {points} points; {added} missing, {removed} too many, {changed} outdated".format_map,
                    indexes,
                ),
            ],
        )
        wrong = [row["agent"] for row in indexes if row["added"] or row["removed"] or row["changed"]]
        if missing or wrong:
            raise CommandError(
                "Add the missing files again, or restore a back-up. For an index that differs once its jobs are done: "
                f"manage.py rebuild_agent_index {wrong[0] if wrong else 'AGENT'}"
            )
