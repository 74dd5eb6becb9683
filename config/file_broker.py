"""Messages in a folder, for a site without a broker, such that a full disk or a process that is killed cuts none in the
middle.

Kombu's own transport writes in place: a message, or the table of a queue's bindings, that found no space is an empty
file, at which every worker that reads it dies. Here each file is there whole or not at all, and one that is damaged all
the same is left out.
"""

import fcntl
import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

logger = logging.getLogger(__name__)


def install() -> None:
    """`filesystem://` is this transport from here on."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"


class Channel(filesystem.Channel):
    def get_table(self, exchange: str) -> list[Any]:
        try:
            found: list[Any] = super().get_table(exchange)
        except ValueError:
            return []  # damaged: whoever has a queue binds it again when it starts
        return found

    def _queue_bind(self, exchange: str, routing_key: str | None, pattern: str | None, queue: str) -> None:
        file = self._table_file(exchange)
        self.control_folder.mkdir(exist_ok=True)
        bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._locked():
            if bound not in (table := self.get_table(exchange)):
                _write(file, [bound, *table])

    def _delete(self, queue: str, exchange: str, routing_key: str, pattern: str, *_: Any, **__: Any) -> None:
        self._purge(queue)
        bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._locked():
            if bound in (table := self.get_table(exchange)):
                _write(self._table_file(exchange), [each for each in table if each != bound])

    def _table_file(self, exchange: str) -> Path:
        file: Path = self._exchange_file(exchange)  # type: ignore[attr-defined]  # newer than its types
        return file

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.control_folder / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _put(self, queue: str, payload: Any, **_kwargs: Any) -> None:  # type: ignore[override]
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        _write(Path(self.data_folder_out) / name, payload)

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        folder = Path(self.data_folder_in)
        for name in sorted(os.listdir(folder)):
            if name.partition(".")[2] != f"{queue}.msg":
                continue
            try:
                content = (folder / name).read_bytes()
                # Of several workers one succeeds; no space is needed for it.
                (folder / name).unlink()
            except (FileNotFoundError, PermissionError):
                continue
            except OSError as error:
                raise ChannelError(f"Cannot read the message {name}.") from error
            try:
                return loads(content)
            except ValueError:
                logger.warning("A damaged message was left out; its row has it sent again.")
        raise Empty


class Transport(filesystem.Transport):
    Channel = Channel


def _write(file: Path, value: Any) -> None:
    part = file.with_name(f".{uuid.uuid4()}.part")
    try:
        part.write_text(dumps(value))
        part.replace(file)
    except OSError as error:
        raise ChannelError(f"Cannot write {file.name}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
