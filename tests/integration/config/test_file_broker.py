"""Messages in a folder: whole or not there, and a damaged one ends no worker."""

from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any
from unittest import mock

import pytest
from kombu import Connection, Exchange, Queue
from kombu.exceptions import ChannelError

from config import file_broker


def as_another_process() -> None:
    """What is bound is remembered by process."""
    file_broker.Transport.global_state.clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "control").mkdir()
    return tmp_path


@pytest.fixture
def line(folder: Path) -> Iterator[Connection]:
    file_broker.install()
    as_another_process()
    options = {"data_folder_in": str(folder), "data_folder_out": str(folder), "control_folder": str(folder / "control")}
    with Connection("filesystem://localhost", transport_options=options) as opened:
        yield opened


def test_cut_message_is_left_out_and_the_next_is_read(line: Connection, folder: Path) -> None:
    with line.SimpleQueue("work") as queue:
        (folder / "1_cut.work.msg").touch()
        queue.put({"build": 7})
        assert queue.get(timeout=5).payload == {"build": 7}
        with pytest.raises(Empty):
            queue.get(block=False)
    assert [each.name for each in folder.iterdir() if each.is_file()] == []


def test_message_that_found_no_space_is_an_error_and_not_half_there(line: Connection, folder: Path) -> None:
    with line.SimpleQueue("work") as queue:
        with mock.patch.object(Path, "write_text", side_effect=OSError(28, "No space left")):
            with pytest.raises(ChannelError):
                queue.channel._put("work", {"build": 8})  # type: ignore[attr-defined]
        assert [each.name for each in folder.iterdir() if each.is_file()] == []


def test_message_that_cannot_be_read_now_is_read_later(line: Connection) -> None:
    with line.SimpleQueue("work") as queue:
        queue.put({"build": 9})
        with mock.patch.object(Path, "read_bytes", side_effect=OSError(24, "Too many open files")):
            with pytest.raises(ChannelError):
                queue.channel._get("work")  # type: ignore[attr-defined]
        assert queue.get(timeout=5).payload == {"build": 9}


def test_damaged_table_of_bindings_is_made_again(line: Connection, folder: Path) -> None:
    bound: Any = Queue("work", Exchange("work"), "work")
    with line.SimpleQueue(bound):
        pass
    table = folder / "control" / "work.exchange"
    whole = table.read_text()
    table.write_text(whole[:5])
    as_another_process()
    with line.clone() as other, other.SimpleQueue(bound) as queue:
        queue.put("here")
        assert queue.get(timeout=5).payload == "here"
    assert table.read_text() == whole
