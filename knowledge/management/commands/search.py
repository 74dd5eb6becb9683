"""`search DEPLOYMENT "question"`: what the deployment would retrieve, and nothing after that."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents.effective import effective_config
from knowledge.embeddings.base import Purpose, embedder
from knowledge.management.terminal import deployment_named, errors_to_terminal, print_json
from knowledge.search import Passage, confirm_passages, search
from knowledge.vectors.base import Query
from knowledge.vectors.generations import collection_alias


class Command(BaseCommand):
    help = "Retrieve passages for a question, without answering it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("deployment")
        parser.add_argument("question")
        parser.add_argument(
            "--limit", type=int, default=0, help="passages; the deployment's by default"
        )
        parser.add_argument("--json", action="store_true", help="one JSON object, nothing else")

    def handle(self, *args: Any, **options: Any) -> None:
        config = effective_config(deployment_named(options["deployment"]))
        limit = max(0, options["limit"]) or config.match_count
        model = embedder()
        with errors_to_terminal():
            found = search(
                collection_alias(config.agent_slug, config.indexing_method),
                Query(
                    model.embed_one(options["question"], purpose=Purpose.QUERY),
                    model.recipe,
                    options["question"],
                ),
                limit=limit,
                min_score=config.match_threshold,
            )
        passages = confirm_passages(found, agent_id=config.agent_id).passages(limit)
        if options["json"]:
            print_json(self.stdout, {"results": [_row(passage) for passage in passages]})
            return
        for passage in passages:
            self.stdout.write(f"{passage.score:.3f}  {passage.title}  {passage.parent_context}")
            self.stdout.write(f"       {(passage.question or passage.content)[:160]!r}")


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
