"""`search DEPLOYMENT "question"`: what the deployment would retrieve, and nothing after that."""

from argparse import ArgumentParser
from typing import Any

from agents.effective import effective_config
from knowledge.management.terminal import JsonCommand, deployment_named
from knowledge.search import Passage, search_as


class Command(JsonCommand):
    help = "Retrieve passages for a question, without answering it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment")
        parser.add_argument("question")
        parser.add_argument("--limit", type=int, default=0, help="passages; the deployment's by default")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        config = effective_config(deployment_named(options["deployment"]))
        limit = max(0, options["limit"]) or config.match_count
        found = search_as(config, options["question"], limit=limit)
        passages = found.passages(limit)
        self.tell(
            options,
            {"results": [_row(passage) for passage in passages]},
            (
                f"{passage.score:.3f}  {passage.title}  {passage.parent_context}\n"
                f"       {(passage.question or passage.content)[:160]!r}"
                for passage in passages
            ),
        )


def _row(passage: Passage) -> dict[str, Any]:
    return {
        "content": passage.content,
        "question": passage.question,
        "title": passage.title,
        "type": passage.type.value,
        "score": round(passage.score, 4),
        "document_id": passage.document_id,
        "chunk_id": passage.chunk_id,
    }
