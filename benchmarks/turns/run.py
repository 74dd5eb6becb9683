"""The processor time of whole turns that ask different questions, each in a conversation of its own.

    python -m benchmarks.turns.run [--questions 60] [--tokens 100] [--fast-embedder] [--folder FOLDER]

Two hundred other wordings of the FAQ of the CNIL (`benchmarks/retrieval`, from the folder named by REPONDANT_DATA) go
through the runner one after the other, on a SQLite file and an index of their own: claim, embedding, memory, search,
answer, saving, and what the turn leaves behind. Without `--tokens` no model is configured: a direct answer or quoted
passages. Two versions of the code are compared by running them in turns, each on a copy of one `--folder`, which keeps
the index.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.streaming.direct import model_server

DATA = Path(os.environ.get("REPONDANT_DATA", Path(__file__).parents[3] / "shared" / "data"))
HERE = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Processor time of turns with different questions.")
    parser.add_argument("--questions", type=int, default=60, help="in each round")
    parser.add_argument("--tokens", type=int, default=0, help="of a scripted model's answers")
    parser.add_argument("--fast-embedder", action="store_true", help="the tests' hashing embedder")
    parser.add_argument("--folder", default="", help="where the database is, and stays")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"No data at {DATA}: set REPONDANT_DATA.", file=sys.stderr)
        return 2
    with ExitStack() as opened:
        folder = options.folder or opened.enter_context(tempfile.TemporaryDirectory())
        base_url = ""
        if options.tokens:
            base_url = opened.enter_context(model_server(tokens=options.tokens, interval_ms=0))
        _prepare(folder, base_url, is_fast=options.fast_embedder)
        questions = _questions()
        asyncio.run(_ask_in_rounds(questions, options.questions))
    return 0


def _prepare(folder: str, base_url: str, *, is_fast: bool) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings",
        DATA_DIR=folder,
        DATABASE_URL=f"sqlite:///{folder}/bench.db",
        OPENAI_BASE_URL=base_url,
        LLM_MODEL="benchmark",
        LOG_LEVEL="ERROR",
        REDIS_URL="",
    )
    import django
    from django.conf import settings
    from django.core.management import call_command

    django.setup()
    if is_fast:
        settings.EMBEDDERS = {"default": {"BACKEND": "tests.hashing.HashingEmbedder"}}
    call_command("migrate", verbosity=0)
    from agents.models import Agent, RuntimeSettings

    if not Agent.objects.filter(slug="cnil").exists():
        call_command("create_agent", "cnil", verbosity=0)
        call_command("add_documents", "cnil", str(DATA / "cnil_faq.csv"), verbosity=0)

    RuntimeSettings.objects.update_or_create(pk=1, defaults={"values": {"generate_titles": False}})


def _questions() -> list[str]:
    """In an order that mixes the two files."""
    found = []
    for part in ("thresholds", "retrieval"):
        with (HERE / part / "cnil_reformulations.jsonl").open(encoding="utf-8") as lines:
            found += [str(json.loads(line)["question"]) for line in lines]
    return sorted(dict.fromkeys(found), key=lambda question: uuid.uuid5(uuid.NAMESPACE_OID, question))


async def _ask_in_rounds(questions: Sequence[str], size: int) -> None:
    """The first questions load what is loaded once, and are not counted."""
    await _ask_all(questions[: size // 3])
    for start in range(size // 3, len(questions) - size + 1, size):
        print(json.dumps(await _ask_all(questions[start : start + size])), flush=True)


async def _ask_all(questions: Sequence[str]) -> dict[str, object]:
    from agents.database import in_database
    from agents.models import Deployment
    from chat.models import Conversation, Turn
    from chat.protocol import AskFrame
    from chat.runs.runner import runner

    deployment = await in_database(Deployment.objects.get, slug="cnil")
    asked = []
    wall = cpu = 0.0
    for question in questions:
        conversation = await in_database(Conversation.objects.create, deployment=deployment)
        began, before = time.perf_counter(), time.process_time()
        turn = await runner.start(conversation, AskFrame(question, "1"), language="fr")
        async for _event in runner.follow(turn):
            pass
        wall, cpu = wall + time.perf_counter() - began, cpu + time.process_time() - before
        asked.append(turn)
    before = time.process_time()
    await runner.drain()
    settled = time.process_time() - before

    def sources() -> Counter[str]:
        return Counter(Turn.objects.filter(pk__in=asked).values_list("answer_source", flat=True))

    return {
        "questions": len(asked),
        "cpu_ms": round(1000 * cpu / len(asked), 2),
        "wall_ms": round(1000 * wall / len(asked), 2),
        "kept_afterwards_cpu_ms": round(1000 * settled / len(asked), 2),
        "answers": dict(await in_database(sources)),
    }


if __name__ == "__main__":
    sys.exit(main())
