"""What one pair costs the second key: `python -m benchmarks.second_key.run [--against FOLDER]`.

Cold: two questions that were never read; warm: both readings are remembered. Start: reading and compiling the data of
both languages. Processor time, the least of several rounds over 2,000 pairs of `tests/pairs`. `--against` names another
checkout, measured by the same code in turns with this one: the ratio holds on a busy machine, where the times do not.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ROOT / "tests" / "pairs"
Times = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--once", action="store_true", help="one round of this checkout, as JSON")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(measure(Path.cwd())))
        return
    folders = [ROOT, *([options.against] if options.against else [])]
    best: dict[Path, Times] = {folder: {} for folder in folders}
    for _round in range(options.rounds):
        for folder in folders:
            for name, value in one_round(folder).items():
                best[folder][name] = min(value, best[folder].get(name, value))
    for name, value in best[ROOT].items():
        others = "".join(f"  {best[f][name]:.3f} ({value / best[f][name]:.2f})" for f in folders[1:])
        print(f"{name:>6}  {value:.3f} ms{others}")


def one_round(folder: Path) -> Times:
    command = [str(folder / ".venv" / "bin" / "python"), __file__, "--once"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    times: Times = json.loads(done.stdout)
    return times


def measure(folder: Path) -> Times:
    """Milliseconds: of a pair, and of the start once."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    rows = (json.loads(line) for path in sorted(PAIRS.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines())
    # As many as the cache of readings holds.
    pairs = [(row["a"], row["b"]) for row in rows if "a" in row][:2_000]
    is_now = (folder / "faqs" / "second_key" / "same_question.py").exists()
    module = f"faqs.second_key.{'same_question' if is_now else 'agreement'}"
    started = time.process_time()
    compare = importlib.import_module(module).compare_questions
    read_question = importlib.import_module("faqs.second_key.reading").read_question
    compare("Où payer ?", "Where do I pay?"), compare("Where to pay?", "Where do I pay?")
    times = {"start": (time.process_time() - started) * 1_000}
    for stored, asked in pairs:
        compare(stored, asked)
    read_question.cache_clear()
    for name in ("cold", "warm"):
        started = time.process_time()
        for stored, asked in pairs:
            compare(stored, asked)
        times[name] = (time.process_time() - started) * 1_000 / len(pairs)
    return times


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    main()
