"""`calibrate_thresholds --pairs FILE.jsonl`: what each threshold lets through, and the one for an error budget."""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from chat.staff.calibration import (
    CALIBRATION_MIN_DIFFERENT,
    CALIBRATION_MIN_SAME,
    Proposal,
    propose_thresholds,
    rate_json,
    read_pairs,
    verdict_pairs,
)
from knowledge.embeddings.base import embedder
from knowledge.management.terminal import JsonCommand, agent_named
from knowledge.thresholds import store_calibration


class Command(JsonCommand):
    help = (
        "Measure labelled pairs at every threshold for the embedding model in use, and keep the "
        "threshold that an error budget allows."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--pairs", metavar="FILE.jsonl", type=Path)
        parser.add_argument("--verdicts", action="store_true", help="also staff's own verdicts")
        parser.add_argument("--agent", help="for this agent alone")
        parser.add_argument("--budget", type=float, default=0.02, help="share of other questions served (0.02)")
        parser.add_argument("--dry-run", action="store_true", help="propose, keep nothing")
        super().add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["pairs"] and not options["verdicts"]:
            raise CommandError("Give --pairs FILE.jsonl, --verdicts, or both.")
        if not 0 <= options["budget"] < 1:
            raise CommandError("--budget is a share between 0 and 1, such as 0.02.")
        index = agent_named(options["agent"]).slug if options["agent"] else ""
        pairs = read_pairs(options["pairs"]) if options["pairs"] else []
        if options["verdicts"]:
            pairs += verdict_pairs(index=index)
        if not any(pair.same_answer is not None for pair in pairs):
            raise CommandError("No pair says whether it has the same answer (`same_answer`).")
        model = embedder()
        proposal = propose_thresholds(pairs, embedder=model, budget=options["budget"])
        sources = [options["pairs"].name] if options["pairs"] else []
        sources += ["verdicts"] if options["verdicts"] else []
        stores = proposal.is_enough and not options["dry_run"]
        if stores:
            store_calibration(proposal.calibrated(model=model.recipe.model, index=index, source=", ".join(sources)))
        report = _report(proposal, model.recipe.model, index, stored=stores)
        self.tell(options, report, _lines(proposal, model.recipe.model))
        if not proposal.is_enough:
            self.stderr.write(
                f"Not kept: at least {CALIBRATION_MIN_SAME} pairs with the same answer and "
                f"{CALIBRATION_MIN_DIFFERENT} with different ones are needed."
            )


def _lines(proposal: Proposal, model: str) -> Iterator[str]:
    for step in proposal.steps[::5]:
        yield f"{step.threshold:.2f}  hit {step.hit}  false {step.false_hit}"
    chosen = proposal.chosen
    if chosen is None:
        yield f"{model}: no threshold serves anything within {proposal.budget:.1%}."
        return
    yield f"{model}: {chosen.threshold:.2f} (hit {chosen.hit}, false {chosen.false_hit})"
    if chosen.false_hit.high > proposal.budget:
        yield "The interval reaches beyond the budget: more pairs with different answers would make it sure."


def _report(proposal: Proposal, model: str, index: str, *, stored: bool) -> dict[str, Any]:
    chosen = proposal.chosen
    threshold = None if chosen is None else chosen.threshold
    return {
        "model": model,
        "index": index,
        "budget": proposal.budget,
        "thresholds": [
            {"threshold": step.threshold, "hit": rate_json(step.hit), "false_hit": rate_json(step.false_hit)}
            for step in proposal.steps
        ],
        "proposed": {
            "direct_answer": threshold,
            "memory": threshold,
            "hit": rate_json(chosen.hit) if chosen else None,
            "false_hit": rate_json(chosen.false_hit) if chosen else None,
            "within_budget": chosen is not None,
            "interval_within_budget": chosen is not None and chosen.false_hit.high <= proposal.budget,
        },
        "enough_pairs": proposal.is_enough,
        "stored": stored,
    }
