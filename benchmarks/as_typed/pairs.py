"""Measure both keys on pairs of questions whose second one is typed in other ways, as it is typed and as it is read.

    python -m benchmarks.as_typed.pairs [--pairs FILE.jsonl …]

The sets of `tests/pairs` whose failures were read (their figures are the best case), and any other. No agent's words
help here. Fast model.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
django.setup()

from benchmarks.as_typed.typing import WAYS, typed  # noqa: E402
from benchmarks.second_key.run import PAIRS  # noqa: E402
from chat.staff.calibration import Pair, check_pairs, read_pairs  # noqa: E402
from knowledge.embeddings.base import embedder  # noqa: E402
from knowledge.thresholds import threshold_profile  # noqa: E402

SPENT = ("fr_dev", "en_dev", "everyday_fr", "independent_fr", "independent_en", "adversarial_first")


def served(pairs: Sequence[Pair]) -> tuple[int, int]:
    """How many of the same answer are served, and how many traps."""
    model = embedder()
    profile = threshold_profile(model.recipe.model)
    threshold = profile.direct_answer if profile else None
    checked = check_pairs(pairs, embedder=model, threshold=threshold)
    given = [each.pair.same_answer for each in checked if each.decision.served]
    return sum(same is True for same in given), sum(same is False for same in given)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Pairs as people type them.")
    parser.add_argument("--pairs", type=Path, nargs="*", default=[])
    options = parser.parse_args(arguments)
    files = options.pairs or [PAIRS / f"{name}.jsonl" for name in SPENT]
    pairs = [pair for file in files for pair in read_pairs(file)]
    same = sum(pair.same_answer is True for pair in pairs)
    print(f"{same} pairs of the same answer, {len(pairs) - same} traps\n")
    print("| second question | served | traps |\n| --- | --- | --- |")
    for way in WAYS:
        same_answer, traps = served([replace(pair, b=typed(pair.b, way)) for pair in pairs])
        print(f"| {way} | {same_answer} | {traps} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
