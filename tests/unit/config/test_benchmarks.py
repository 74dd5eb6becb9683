"""`make bench` and the pages about benchmarks name modules that are there, and each can be imported."""

import re
from pathlib import Path

import pytest

from tests.servers.commands import python

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "benchmarks"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if path.name != "__init__.py"
)
PAGES = [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
PAGES += [*FOLDER.rglob("*.md"), *FOLDER.rglob("*.py")]


def named_in(page: Path) -> set[str]:
    return set(re.findall(r"python -m ((?:benchmarks|tests)\.[\w.]*\w)", page.read_text("utf-8")))


def test_importing_a_benchmark_runs_nothing_and_misses_nothing() -> None:
    lines = [f"import {name}" for name in MODULES]
    assert python("-c", "\n".join(lines)).stdout == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_module_that_a_page_runs_is_there(page: Path) -> None:
    missing = {name for name in named_in(page) if not (ROOT / f"{name.replace('.', '/')}.py").is_file()}
    assert missing == set()


def test_each_folder_has_the_module_that_make_bench_runs() -> None:
    folders = {path.parent for path in FOLDER.glob("*/*.py")}
    assert {folder.name for folder in folders if not (folder / "run.py").is_file()} == set()
