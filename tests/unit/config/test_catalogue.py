"""The catalogues of `locale/` are complete, compiled, and in step with the texts of the code."""

import ast
import re
import shutil
from collections.abc import Iterator
from gettext import GNUTranslations
from io import BytesIO
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.core.management import call_command
from django.test import override_settings

ROOT = Path(__file__).resolve().parents[3]
CATALOGUES = sorted((ROOT / "locale").glob("*/LC_MESSAGES/*.po"))
ENGLISH = Path("locale", "en", "LC_MESSAGES")
#: What `make messages` leaves out as well.
NOT_TRANSLATED = {"tests", "benchmarks"}
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%%|\{\w*\}")

each_catalogue = pytest.mark.parametrize(
    "path", CATALOGUES, ids=[f"{path.parents[1].name}-{path.stem}" for path in CATALOGUES]
)


def _read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=path.parents[1].name)


def _messages(catalog: Catalog) -> Iterator[Message]:
    """Every entry but the header."""
    return (message for message in catalog if message.id)


def _texts(value: str | list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    """The singular and the plural, or the only form."""
    return (value,) if isinstance(value, str) else tuple(value or ("",))


def _key(message: Message) -> tuple[str | None, str]:
    return message.context, _texts(message.id)[0]


def _placeholders(text: str) -> list[str]:
    return sorted(PLACEHOLDER.findall(text))


def _copy_of_the_sources(target: Path) -> None:
    """The code and the templates that are read for texts, and nothing else of the tree."""
    packages = {path.parent for path in ROOT.glob("*/__init__.py")}
    for folder in {*packages, ROOT / "templates"}:
        if folder.name in NOT_TRANSLATED:
            continue
        for suffix in ("py", "html", "txt", "js"):
            for source in folder.rglob(f"*.{suffix}"):
                copy = target / source.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)


def _modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in ROOT.glob("*/__init__.py"):
        if package.parent.name not in NOT_TRANSLATED:
            yield from ((path, ast.parse(path.read_text())) for path in package.parent.rglob("*.py"))


@each_catalogue
def test_every_entry_is_translated_and_none_is_fuzzy(path: Path) -> None:
    catalog = _read(path)
    assert not catalog.fuzzy
    unfinished = [_key(message) for message in _messages(catalog) if message.fuzzy or not all(_texts(message.string))]
    assert unfinished == []


@each_catalogue
def test_placeholders_are_the_same_on_both_sides(path: Path) -> None:
    different = []
    for message in _messages(_read(path)):
        sources, translations = _texts(message.id), _texts(message.string)
        for number, translation in enumerate(translations):
            source = sources[min(number, len(sources) - 1)]
            if _placeholders(source) != _placeholders(translation):
                different.append((source, translation))
    assert different == []


@each_catalogue
def test_the_compiled_catalogue_holds_the_same_messages(path: Path) -> None:
    anew = BytesIO()
    write_mo(anew, _read(path))
    anew.seek(0)
    with path.with_suffix(".mo").open("rb") as file:
        here, there = (vars(GNUTranslations(each))["_catalog"] for each in (file, anew))
    assert {**here, "": ""} == {**there, "": ""}, "run `make messages`"


def test_functions_of_gettext_have_names_that_the_extraction_knows() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {name.asname}"
        for path, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for name in node.names
        if "gettext" in name.name and name.asname not in (None, "_")
    ]
    assert found == []


def test_no_text_is_translated_within_an_f_string_where_the_extraction_does_not_see_it() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, tree in _modules()
        for text in ast.walk(tree)
        if isinstance(text, ast.JoinedStr)
        for call in ast.walk(text)
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("_", "gettext", "ngettext")
        if isinstance(call.args[0], ast.Constant)
    ]
    assert found == []


def test_texts_of_scripts_stand_where_the_extraction_sees_them() -> None:
    calls = [call for path in ROOT.glob("*/static/**/*.js") for call in re.findall(r"\bgettext\(.", path.read_text())]
    assert set(calls) == {'gettext("', "gettext(t"}, "a literal, but for the parameter of the definition"


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="GNU gettext (xgettext) is absent")
@pytest.mark.parametrize("domain", ["django", "djangojs"])
def test_a_fresh_extraction_finds_no_text_that_the_catalogue_lacks(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _copy_of_the_sources(tmp_path)
    monkeypatch.chdir(tmp_path)
    with override_settings(LOCALE_PATHS=[str(tmp_path / "locale")]):
        call_command("makemessages", domain=domain, locale=["en"], no_location=True, verbosity=0)
    extracted = {_key(message) for message in _messages(_read(tmp_path / ENGLISH / f"{domain}.po"))}
    assert len(extracted) > 100, "the extraction has found next to nothing"
    lacking = extracted - {_key(message) for message in _messages(_read(ROOT / ENGLISH / f"{domain}.po"))}
    assert lacking == set(), "run `make messages` and translate what is new"
