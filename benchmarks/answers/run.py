"""Answers of the configured model beside the quotations, judged by strings; writes `docs/answers.md`. See README.md.

OPENAI_BASE_URL=… LLM_MODEL=… python -m benchmarks.answers.run --rows ROWS.jsonl SET.jsonl=DOCUMENTS@LANGUAGE[:N]…
python -m benchmarks.answers.run --page docs/answers.md ROWS.jsonl…
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
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.answers.judge import citations, is_refusal, language_of, verdict

#: Who answers a refusal by itself, with no word of a model.
_REFUSING = {"guard_rail", "clarification"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Answers of the configured model, judged by strings.")
    parser.add_argument("sets", nargs="*", help="SET.jsonl=DOCUMENTS@LANGUAGE[:N], or with --page files of rows")
    parser.add_argument(
        "--rows", default="", help="where each row is written as it comes; what is there is not asked again"
    )
    parser.add_argument("--label", default="", help="of this run, on the page")
    parser.add_argument("--page", default="", help="write the page from files of rows")
    parser.add_argument("--quotations", action="store_true", help="ask no model")
    options = parser.parse_args(arguments)
    if options.page:
        Path(options.page).write_text(page([row for name in options.sets for row in _read(name)]))
        return 0
    if not options.sets:
        print("No set of questions given: see benchmarks/answers/README.md.", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        _prepare(folder, with_model=not options.quotations)
        rows = [row for named in options.sets for row in _ask_set(named, options)]
    print(page(rows))
    return 0


def _read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()] if Path(name).exists() else []


# --- Asking ----------------------------------------------------------------------------------------------------------


def _prepare(folder: str, *, with_model: bool) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings",
        DATA_DIR=folder,
        DATABASE_URL=f"sqlite:///{folder}/bench.db",
        LOG_LEVEL="ERROR",
        REDIS_URL="",
    )
    if not with_model:
        os.environ.update(OPENAI_API_KEY="", OPENAI_BASE_URL="")
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def _ask_set(named: str, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from django.core.management import call_command

    from agents.models import Deployment

    path, _, rest = named.partition("=")
    documents, _, rest = rest.partition("@")
    language, _, limit = rest.partition(":")
    slug = f"answers-{language}"
    if not Deployment.objects.filter(slug=slug).exists():
        call_command("create_agent", slug, verbosity=0)
        call_command("add_documents", slug, documents, verbosity=0)
    deployment = Deployment.objects.get(slug=slug)
    known = {(row["label"], row["question"], *map(tuple, [row["before"]])): row for row in _read(options.rows)}
    questions = _read(path)[: int(limit) if limit else None]
    for number, asked in enumerate(questions, start=1):
        before = tuple(asked.get("before", ()))
        row = known.get((options.label, asked["question"], before))
        if row is None:
            row = asyncio.run(_ask(deployment.pk, asked, language)) | {"label": options.label, "before": before}
            if options.rows:
                with open(options.rows, "a") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
        told = f"{number}/{len(questions)} {language} {row['seconds']:.0f} s {row['verdict']}: {asked['question']}"
        print(told, file=sys.stderr, flush=True)
        yield row


async def _ask(deployment_id: int, asked: Mapping[str, Any], language: str) -> dict[str, Any]:
    """One question on the production path, stored and not learned from: tools are offered as to people."""
    from agents.database import in_database
    from agents.llm.base import language_model
    from chat.models import Channel, Conversation
    from chat.runs.terminal import answer_row
    from chat.thread.turns import claim_turn
    from chat.turn.path import run_turn
    from chat.turn.values import TurnRequest

    before = [list(asked["before"])] if asked.get("before") else []
    thread = {"exchanges": before, "previous": before[-1][0] if before else ""}

    def claimed() -> TurnRequest:
        conversation = Conversation.objects.create(
            deployment_id=deployment_id, channel=Channel.API, client_thread=thread
        )
        turn = claim_turn(
            conversation_id=conversation.pk,
            client_message_id=str(uuid.uuid4()),
            question=asked["question"],
            lease_seconds=3600,
        )
        return TurnRequest.of(conversation, asked["question"], language, turn)

    first: list[float] = []
    started = time.monotonic()

    async def emit(event: Any) -> None:
        if event.name == "delta" and not first:
            first.append(time.monotonic() - started)

    request = await in_database(claimed)
    with _seen_prompts() as prompts:
        result = await run_turn(request, emit)
    seconds = time.monotonic() - started
    if (model := language_model()) is not None:
        await model.aclose()
    row = {**answer_row(request, result), "error": result.error.code if result.error else "", "language": language}
    answer = result.answer
    return row | {
        "facts": asked["facts"],
        "verdict": verdict(answer.text, asked["facts"], is_refused=answer.source in _REFUSING),
        "prompts": prompts,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "seconds": round(seconds, 1),
        "first_seconds": round(first[0], 1) if first else None,
        "configured": (model.default_model if model else "") or "quotations",
    }


@contextmanager
def _seen_prompts() -> Iterator[list[dict[str, int]]]:
    """The characters of each prompt to the model, by part."""
    from agents.llm.base import language_model

    prompts: list[dict[str, int]] = []
    model = language_model()
    if model is None:
        yield prompts
        return
    stream = model.stream

    async def seen(messages: Sequence[Any], options: Any) -> AsyncIterator[Any]:
        prompts.append(
            {
                "rules": sum(len(each.content) for each in messages if each.role == "system"),
                "history": sum(len(each.content) for each in messages[:-1] if each.role != "system"),
                "passages and question": len(messages[-1].content) if messages[-1].role != "system" else 0,
                "tools": len(json.dumps(options.tools, ensure_ascii=False, default=str)) if options.tools else 0,
            }
        )
        async for chunk in stream(messages, options):
            yield chunk

    with patch.object(model, "stream", seen):
        yield prompts


# --- The page --------------------------------------------------------------------------------------------------------


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    runs: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        runs.setdefault((row["configured"], row["label"], row["language"]), []).append(row)
    columns = [_column(run) for run in runs.values()]
    heads = [" ".join(part for part in (model, label, f"({language})") if part) for model, label, language in runs]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    names = list(dict.fromkeys(name for column in columns for name in column))
    lines += ["| " + " | ".join([name, *(column.get(name, "") for column in columns)]) + " |" for name in names]
    return _HEAD + "\n".join(lines) + "\n"


_HEAD = """\
# What answers are worth, model by model

Made by `benchmarks/answers` (`python -m benchmarks.answers.run`), without a judge model: every figure is a comparison of strings, which its
README explains. *Quotations* is the desk without a model. Shares are of the questions, or sentences, that they are about: where few were asked,
a share says little.

"""


def _column(run: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    inside = [row for row in run if row["facts"]]
    outside = [row for row in run if not row["facts"]]
    said = [row for row in run if row["answer_source"] == "llm" and row["answer"]]
    spoken = [row for row in said if language_of(row["answer"])]
    cited = [citations(row["answer"], row["sources"]) for row in said if not is_refusal(row["answer"])]
    verdicts = Counter(row["verdict"] for row in inside)
    asked = [row for row in run if row["llm_calls"]]
    quoted = [row for row in asked if row["answer_source"] == "extractive"]
    told = {
        "questions (of which follow-ups)": f"{len(run)} ({sum(bool(row['before']) for row in run)})",
        "answered in the documents": str(len(inside)),
        "**right**": _share(verdicts["right"], len(inside)),
        "half": _share(verdicts["half"], len(inside)),
        "**wrong**": _share(verdicts["wrong"], len(inside)),
        "refused though the documents answer": _share(verdicts["refused"], len(inside)),
        "right, or the passages quoted": _share(
            sum(row["verdict"] == "right" or row in quoted for row in inside), len(inside)
        ),
        "not in the documents": str(len(outside)),
        "refused, or the passages quoted": _share(
            sum(row["verdict"] == "refused" or row["answer_source"] == "extractive" for row in outside), len(outside)
        ),
        "written by the model": str(len(said)),
        "of which with small words of a language": str(len(spoken)),
        "**language right**": _share(sum(language_of(row["answer"]) == row["language"] for row in spoken), len(spoken)),
        "cites": _share(sum(each["cites"] for each in cited), len(cited)),
        "citations valid": _share(sum(each["citations_valid"] for each in cited), len(cited)),
        "sentences with a citation": _of_sentences(cited, "with_citation", "factual"),
        "**sentences with numbers, all in the passage cited**": _of_sentences(cited, "supported", "with_number"),
        "replaced by the quotation": _share(len(quoted), len(asked)),
        "failed": str(sum(bool(row["error"]) for row in run)),
    }
    told |= {f"trace: {name}": str(count) for name, count in sorted(_steps(asked).items())}
    if asked:
        told |= {f"tokens read, median: {part}": str(count) for part, count in _tokens(asked).items()}
        told["tokens written, median"] = _median(row["completion_tokens"] for row in asked)
        told["seconds to the first text, median"] = _median(row["first_seconds"] or row["seconds"] for row in asked)
    told["seconds, median"] = _median(row["seconds"] for row in run)
    return told


def _steps(asked: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """What the trace says of the model's answer after it was written: checked, shortened to the window, replaced."""
    counted = ("check", "window", "quality", "fallback")
    return Counter(
        f"{line['step']} {line['outcome']}" for row in asked for line in row["trace"] if line["step"] in counted
    )


def _tokens(asked: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The tokens that the server counted, shared out among the parts by their characters."""
    parts: dict[str, list[float]] = {"all": []}
    for row in asked:
        total = sum(sum(prompt.values()) for prompt in row["prompts"]) or 1
        parts["all"].append(row["prompt_tokens"])
        for name in row["prompts"][-1] if row["prompts"] else ():
            share = sum(prompt[name] for prompt in row["prompts"]) / total
            parts.setdefault(name, []).append(row["prompt_tokens"] * share)
    return {name: round(median(values)) for name, values in parts.items()}


def _share(count: int, total: int) -> str:
    return f"{count} of {total} ({100 * count / total:.0f} %)" if total else ""


def _of_sentences(cited: Sequence[Mapping[str, Any]], part: str, whole: str) -> str:
    return _share(sum(each[part] for each in cited), sum(each[whole] for each in cited))


def _median(values: Any) -> str:
    found = list(values)
    return f"{median(found):.0f}" if found else ""


if __name__ == "__main__":
    raise SystemExit(main())
