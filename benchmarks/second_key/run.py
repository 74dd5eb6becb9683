"""What one pair costs the second key: `python -m benchmarks.second_key.run`.

Cold: two questions that were never read; warm: both readings are remembered. Each also without the gates before the
rewrites (`faqs.gates`), in the same run, taken in turns: the ratio holds on a busy machine, where the times do not. Processor
time, the least of several rounds over all pairs of `tests/pairs`.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

PAIRS = Path(__file__).resolve().parents[2] / "tests" / "pairs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings_test")
    import django

    django.setup()
    pairs = read_pairs()
    best = {"cold": 1e9, "cold, no gates": 1e9, "warm": 1e9}
    compare_all(pairs)
    for _round in range(options.rounds):
        forget()
        best["cold"] = min(best["cold"], compare_all(pairs))
        best["warm"] = min(best["warm"], compare_all(pairs))
        with without_gates():
            forget()
            best["cold, no gates"] = min(best["cold, no gates"], compare_all(pairs))
    forget()
    print(f"{len(pairs)} pairs, milliseconds of processor time a pair")
    for name, seconds in best.items():
        print(f"{name:>15}  {seconds / len(pairs) * 1_000:.3f}")
    print(f"gates: {best['cold, no gates'] / best['cold']:.2f} times faster")


def read_pairs() -> list[tuple[str, str]]:
    rows = (
        json.loads(line)
        for path in sorted(PAIRS.glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    )
    return [(row["a"], row["b"]) for row in rows]


def compare_all(pairs: list[tuple[str, str]]) -> float:
    from faqs.second_key.agreement import compare_questions

    started = time.process_time()
    for stored, asked in pairs:
        compare_questions(stored, asked)
    return time.process_time() - started


def forget() -> None:
    from faqs.second_key.reading import read_question

    read_question.cache_clear()


@contextmanager
def without_gates() -> Iterator[None]:
    from faqs.second_key.reading import _ENGLISH, _FRENCH

    kept = [(lexicon, lexicon.rewrites) for lexicon in (_FRENCH, _ENGLISH)]
    for lexicon, rewrites in kept:
        lexicon.rewrites = tuple(replace(rewrite, needed=()) for rewrite in rewrites)
    yield
    for lexicon, rewrites in kept:
        lexicon.rewrites = rewrites


if __name__ == "__main__":
    main()
