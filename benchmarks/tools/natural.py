"""Recall of natural questions over real tools, and what selection takes beside the embedding.

    .venv/bin/python -m benchmarks.tools.natural collect FOLDER --openapi api.github.com.json \\
        --mcp memory=/path/mcp-server-memory --mcp "files=/path/mcp-server-filesystem /tmp"
    .venv/bin/python -m benchmarks.tools.natural measure FOLDER --questions fr.jsonl --questions en.jsonl

`collect` writes `tools_100.jsonl` and `tools_1000.jsonl` (every tool of the MCP servers, and as many operations of the
documents as are missing, drawn with a fixed seed; the hundred are among the thousand), and `names.txt`: what the
writer of questions is shown, without a description. A line of questions is `{"query": "…", "tool": "name"}`, or
`{"query": "…", "tool": ["name", "or this one"]}` where either is right. `measure` prints recall at 1 and 5 for each
file
and size, with and without the words that mean the same in both languages; the share of questions to which the right
tool
is offered, near-twins included; and the median and worst time of a question at each size (the tools that its reader may
use, their ranking, the choice), its embedding left out.
"""

import argparse
import json
import os
import random
import shlex
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

SIZES = (100, 1_000)
_SEED = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--openapi", type=Path, action="append", default=[])
    parser.add_argument("--mcp", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--questions", type=Path, action="append", default=[])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        os.environ["DATA_DIR"] = data
        os.environ["DATABASE_URL"] = f"sqlite:///{data}/natural.db"
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
        os.environ.setdefault("SECRET_KEY", "only-for-benchmarks")
        os.environ.setdefault("LOG_LEVEL", "ERROR")
        import django

        django.setup()
        if given.what == "collect":
            collect(given.folder, given.openapi, dict(each.split("=", 1) for each in given.mcp))
        else:
            measure(given.folder, given.questions)


def collect(folder: Path, documents: Iterable[Path], servers: dict[str, str]) -> None:
    from django.test import override_settings

    from tools_registry.sources.base import SourceAddress
    from tools_registry.sources.mcp import list_tools
    from tools_registry.sources.openapi import read_document

    found: list[dict[str, Any]] = []
    lines = {name: shlex.split(command) for name, command in servers.items()}
    with override_settings(MCP_STDIO_SERVERS=lines):
        for name in servers:
            address = SourceAddress("mcp_stdio", name, "", "", (), {}, 60.0)
            found += [_row(name, tool) for tool in list_tools(address).tools]
    operations = []
    for path in documents:
        document = json.loads(path.read_text())
        document["servers"] = [{"url": "https://service.example"}]
        address = SourceAddress("openapi", "", "", json.dumps(document), ("service.example",), {}, 60.0)
        operations += [_row(path.name.split(".")[1], tool) for tool in read_document(address).tools]
    random.Random(_SEED).shuffle(operations)  # noqa: S311
    folder.mkdir(parents=True, exist_ok=True)
    for size in SIZES:
        tools = (found + operations)[:size]
        text = "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in tools)
        (folder / f"tools_{size}.jsonl").write_text(text)
        print(f"{len(tools)} tools in {folder / f'tools_{size}.jsonl'}")
    names = sorted(tool["name"] for tool in found + operations[: SIZES[0] - len(found)])
    (folder / "names.txt").write_text("\n".join(names) + "\n")


def _row(source: str, tool: Any) -> dict[str, Any]:
    """As the catalogue would hold it."""
    from tools_registry.sources.base import fitted
    from tools_registry.sources.remote import _MOST_DESCRIPTION, _free_name

    return {
        "name": _free_name(source, tool.name, ()),
        "description": tool.description.strip()[:_MOST_DESCRIPTION] or tool.name,
        "parameters": fitted(tool.parameters),
    }


def measure(folder: Path, files: Sequence[Path]) -> None:
    from django.core.management import call_command

    from knowledge.embeddings.base import embedder
    from tools_registry import selection
    from tools_registry.evaluation import described_tool, ranking_of

    model = embedder()
    questions = {file.name: _lines(file) for file in files}
    texts = [row["query"] for rows in questions.values() for row in rows]
    vectors = dict(zip(texts, model.embed(texts, purpose=_query()), strict=True))
    print(f"model {model.recipe.model}")
    print("tools | questions | asked | recall@1 | recall@5 | without meanings @1 | @5 | offered")
    call_command("migrate", verbosity=0)
    for size in SIZES:
        rows_of_tools = _lines(folder / f"tools_{size}.jsonl")
        install(rows_of_tools)
        tools = [described_tool(row) for row in rows_of_tools]
        now = ranking_of(tools, model)
        with mock.patch.object(selection, "meanings_of", return_value=()):
            before = selection.Ranking(tools, now.matrix)
        for name, rows in questions.items():
            known = [row for row in rows if _right(row) & set(now.names)]
            at = [_recall(now, known, vectors, cut) for cut in (1, 5)]
            with mock.patch.object(selection, "meanings_of", return_value=()):
                was = [_recall(before, known, vectors, cut) for cut in (1, 5)]
            offered = sum(bool(_offered(row["query"], vectors) & _right(row)) for row in known)
            shares = (*at, *was, offered / len(known))
            figures = " | ".join(f"{share:.3f}" for share in shares)
            print(f"{len(tools)} | {name} | {len(known)} | {figures}", flush=True)
        times = [_seconds(text, vectors) for text in texts for _again in range(20)]
        print(
            f"{len(tools)} tools: median {1e3 * statistics.median(times):.3f} ms, "
            f"worst {1e3 * max(times):.3f} ms a question beside its embedding"
        )


def _query() -> Any:
    from knowledge.embeddings.base import Purpose

    return Purpose.QUERY


def _right(row: dict[str, Any]) -> set[str]:
    tool = row["tool"]
    return {tool} if isinstance(tool, str) else set(tool)


def _recall(ranking: Any, rows: Sequence[dict[str, Any]], vectors: Any, cut: int) -> float:
    from tools_registry.selection import best_positions

    hits = 0
    for row in rows:
        scores = ranking.scores(vectors[row["query"]], row["query"])
        names = {ranking.names[position] for position in best_positions(scores, cut)}
        hits += bool(names & _right(row))
    return hits / len(rows) if rows else 0.0


def install(rows: Sequence[dict[str, Any]]) -> None:
    """Make these the permitted tools of this database, a source for each beginning of a name, and index them."""
    from tools_registry.catalog import all_tools, forget_recent
    from tools_registry.index import sync_index
    from tools_registry.models import ToolOverride, ToolSource

    ToolSource.objects.all().delete()
    sources = {
        name: ToolSource.objects.create(slug=name, name=name, kind="openapi")
        for name in {row["name"].split("_")[0] for row in rows}
    }
    ToolOverride.objects.bulk_create(
        ToolOverride(
            source=sources[row["name"].split("_")[0]],
            tool_name=row["name"],
            remote_name=row["name"],
            declared_description=row["description"],
            declared_parameters=row["parameters"],
        )
        for row in rows
    )
    for source in sources.values():
        source.save()
    forget_recent()
    sync_index()
    print(f"{len(all_tools())} tools with those of the code")


def _chosen(text: str, vectors: Any) -> Any:
    from agents.settings import Knobs
    from tools_registry.catalog import tools_at_hand
    from tools_registry.selection import select_tools

    return select_tools(
        question_vector=vectors[text],
        question=text,
        candidates=tools_at_hand(user_id=None, agent_id=None),
        config=Knobs(tool_mode="local", tool_top_k=5, tool_threshold=-1.0),
    )


def _offered(text: str, vectors: Any) -> set[str]:
    return {tool.spec.name for tool in _chosen(text, vectors)}


def _seconds(text: str, vectors: Any) -> float:
    started = time.perf_counter()
    _chosen(text, vectors)
    return time.perf_counter() - started


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


if __name__ == "__main__":
    main()
