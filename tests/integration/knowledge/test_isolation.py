"""Files are read in a child process: one that hangs, dies or takes all memory concerns itself alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import openpyxl
import pptx
import pytest
from pytest_django.fixtures import Settings

from knowledge import isolation
from knowledge.errors import DiskFullError, MachineTroubleError, UnreadableDocumentError
from knowledge.isolation import Reader, read_here
from tests.servers.small_disk import small_disk
from tests.unit.knowledge.readers.office_files import saved

FAQ = "# Guide\n\n## Où aller ?\n\nÀ la mairie.\n\n## Prix\n\nLe timbre coûte 86 euros.\n"

#: A child like the real one whose parser obeys the file's name.
CHILD = """
import errno, os, sys, time
from knowledge import reader_process
def obedient(data, *, filename, pages=()):
    if filename.startswith("hang"):
        time.sleep(3600)
    if filename.startswith("die"):
        os._exit(9)
    if filename.startswith("eat"):
        [bytearray(1 << 26) for _ in range(1 << 10)]
    if filename.startswith("bug"):
        raise KeyError("unexpected")
    if filename == "full.md":
        raise OSError(errno.ENOSPC, "No space left on device")
    if filename == "full-while-parsed.md":
        try:
            raise OSError(errno.EDQUOT, "Quota exceeded")
        except OSError as error:
            raise unreadable("as if damaged", "damaged") from error
    if filename == "no-temporary-folder.md":
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
    if filename.startswith("print"):
        print("a library speaks", flush=True)
    return real(data, filename=filename, pages=pages)
load_models = reader_process._load_models
def patched_load():
    global real
    load_models()
    global unreadable
    from knowledge.readers.base import unreadable
    import knowledge.isolation as isolation
    real, isolation.read_here = isolation.read_here, obedient
reader_process._load_models = patched_load
reader_process.main()
"""


@pytest.fixture
def reader(settings: Settings, tmp_path: Path) -> Iterator[Reader]:
    settings.PARSE_ISOLATED = True
    settings.PARSE_MEMORY_BYTES = 700 * 1024**2
    script = tmp_path / "reader_process.py"
    script.write_text(CHILD)
    real = subprocess.Popen

    def start(command: list[str], **options: object) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "PYTHONPATH": str(settings.BASE_DIR)}
        arguments = [sys.executable, str(script), command[-1]]
        return real(arguments, env=environment, **options)  # type: ignore[call-overload, no-any-return]

    found = Reader()
    with mock.patch("subprocess.Popen", start):
        yield found
    found.close()


def test_child_reads_what_this_process_would_read(settings: Settings) -> None:
    settings.PARSE_ISOLATED = True
    large = (FAQ + "\n\nUne phrase de plus. " * 6_000).encode()
    with isolation.isolated_reader() as reader:
        read = reader.read(large, filename="g.md")
        assert (read, read.language) == (read_here(large, filename="g.md"), "fr")
        process = reader._process
    assert process is not None
    assert process.poll() is not None


def test_files_of_office_programs_are_read_or_refused_by_the_child(settings: Settings) -> None:
    settings.PARSE_ISOLATED = True
    book, slides = openpyxl.Workbook(), pptx.Presentation()
    book.active["A1"], book.active["A2"] = "Tarif", "12 euros"
    slides.slides.add_slide(slides.slide_layouts[1]).placeholders[1].text = "Horaires de la mairie"
    with isolation.isolated_reader() as reader:
        assert "12 euros" in str(reader.read(saved(book), filename="a.xlsx").drafts)
        assert "Horaires" in str(reader.read(saved(slides), filename="a.pptx").drafts)
        with pytest.raises(UnreadableDocumentError) as refused:
            reader.read(saved(book)[:-200], filename="a.xlsx")
        assert "tronqué" in str(refused.value.public_message)


def test_parse_that_hangs_is_stopped_and_the_next_file_is_read(reader: Reader, settings: Settings) -> None:
    reader.read(FAQ.encode(), filename="first.md")  # the child is ready
    settings.PARSE_TIMEOUT_SECONDS = 1.0
    with pytest.raises(UnreadableDocumentError, match="took more than"):
        reader.read(FAQ.encode(), filename="hang.md")
    settings.PARSE_TIMEOUT_SECONDS = 300.0
    assert reader.read(FAQ.encode(), filename="next.md").drafts


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("die.md", UnreadableDocumentError, "ended with status"),
        ("eat.md", UnreadableDocumentError, "ended with status"),
        ("bug.md", UnreadableDocumentError, "KeyError"),
        # Not the fault of the file.
        *((name, DiskFullError, ".") for name in ("full.md", "full-while-parsed.md", "no-temporary-folder.md")),
    ],
)
def test_file_that_kills_its_parser_or_fails_does_so_alone(
    reader: Reader, name: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        reader.read(FAQ.encode(), filename=name)
    # What a library prints does no harm.
    assert reader.read(FAQ.encode(), filename="print.md").drafts


def test_full_disk_of_temporary_files_is_told_and_the_file_is_read_when_there_is_space(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PARSE_ISOLATED = True
    # Long enough for its language to be looked at, whose model is unpacked into a temporary file.
    text = (FAQ + "\nLa mairie est ouverte du lundi au vendredi, de neuf heures à midi.\n" * 20).encode()
    with small_disk(tmp_path / "disk", size=200_000_000) as disk, isolation.isolated_reader() as found:
        if disk is None:
            pytest.skip("nothing can be mounted here")
        monkeypatch.setenv("TMPDIR", str(disk.folder))
        # Python takes another folder where not even a word can be written.
        disk.fill(leave=8_192)
        with pytest.raises(DiskFullError):
            found.read(text, filename="a.md")
        disk.empty()
        assert found.read(text, filename="a.md").drafts


def test_reader_that_cannot_start_is_not_the_fault_of_the_file(settings: Settings) -> None:
    settings.PARSE_ISOLATED = True
    ends = mock.patch.object(isolation, "_MODULE", "knowledge.readers.nothing")
    with ends, isolation.isolated_reader() as reader, pytest.raises(MachineTroubleError):
        reader.read(FAQ.encode(), filename="a.html")


def test_nul_far_into_a_text_is_left_out(reader: Reader) -> None:
    text = b"\xef\xbb\xbf" + b"La carte vaut dix euros. " * 9_000 + b"Fin \0 du texte."
    drafts = reader.read(text, filename="long.txt").drafts
    said = [draft.content for draft in drafts if "Fin" in draft.content]
    assert said
    assert "\0" not in said[0]
