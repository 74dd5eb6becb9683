"""`check_pairs FILE.jsonl`: would an answer stored for `a` be served to `b`?"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from tqdm import tqdm

from agents.models import IndexingMethod
from chat.staff.calibration import check_pairs, read_pairs, summarise
from knowledge.embeddings.base import embedder
from knowledge.language.spelling import NO_WORDS
from knowledge.management.terminal import JsonCommand, agent_named
from knowledge.search import serving_threshold, vocabulary_of
from knowledge.thresholds import load_calibrations
from knowledge.vectors.base import collection_alias


class Command(JsonCommand):
    help = "Run a file of question pairs through both keys, as a direct answer would be."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.jsonl", type=Path)
        parser.add_argument("--agent", help="with this agent's threshold and words; default: the site's threshold")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        agent = agent_named(options["agent"]) if options["agent"] else None
        pairs = read_pairs(options["file"])
        load_calibrations()
        model = embedder()
        threshold = serving_threshold(agent, model=model.recipe.model)
        words = NO_WORDS
        if agent:
            words = vocabulary_of([collection_alias(agent.slug, IndexingMethod(agent.indexing_method))])
        found = check_pairs(pairs, embedder=model, threshold=threshold, vocabulary=words)
        checked = list(tqdm(found, total=len(pairs), unit="pair", dynamic_ncols=True))
        summary = summarise(checked)
        report = {
            "rows": [each.as_json() for each in checked],
            "summary": summary["by_category"],
            "all": summary["all"],
            "model": model.recipe.model,
            "threshold": threshold,
        }
        if threshold is None:
            self.stderr.write(
                f"{model.recipe.model} has no thresholds: nothing is served. "
                "Run: manage.py calibrate_thresholds --pairs FILE.jsonl"
            )
        lines = (
            f"{name or '-'}: {figures['hits']}/{figures['same_answer']} served, "
            f"{figures['false_hits']}/{figures['different_answer']} wrongly"
            for name, figures in {**summary["by_category"], "all": summary["all"]}.items()
        )
        self.tell(options, report, lines)
