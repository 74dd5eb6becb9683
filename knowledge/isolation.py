"""Files are read in a child process with a time limit and a memory limit, so that no file can hang or exhaust a worker.

One child serves a whole run and is replaced when it had to be killed. Requests and replies are JSON; nothing that a
file made the child say is executed. With isolation switched off the same work is done here.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _
from pydantic import TypeAdapter

from agents.texts import read_json
from knowledge.chunking import ChunkDraft, affordable_chunks
from knowledge.errors import DiskFullError, MachineTroubleError, UnreadableDocumentError, machine_trouble
from knowledge.language.words import SAMPLES, document_language
from knowledge.models import SourceType
from knowledge.page_viewer import placed_chunks
from knowledge.readers.base import MAX_HEADING_CHARACTERS, unreadable
from knowledge.readers.registry import parse_document

logger = logging.getLogger(__name__)

_MODULE = "knowledge.reader_process"
#: How long a fresh child may take until it is ready to read, on a busy machine.
_START_SECONDS = 60.0
_STANDARD_ERROR = 2


@dataclass(frozen=True, slots=True)
class ReadDocument:
    title: str
    source_type: SourceType
    notices: tuple[str, ...]
    drafts: tuple[ChunkDraft, ...]
    language: str = ""


#: What a child replies, read again from its JSON.
REPLY = TypeAdapter(ReadDocument)


class Reader:
    """Reads one file after the other; to be closed, because its child must end with it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None
        #: The pages of a site that the child was told last.
        self._told: frozenset[str] = frozenset()

    def read(self, data: bytes, *, filename: str, pages: frozenset[str] = frozenset()) -> ReadDocument:
        """A file as passages. Raises `UnreadableDocumentError` (also for time and memory) and `MachineTroubleError`."""
        if not settings.PARSE_ISOLATED:
            return read_guarded(data, filename=filename, pages=pages)
        channel = self._started()
        question: dict[str, Any] = {"filename": filename, "language": translation.get_language()}
        if pages is not self._told:
            question["pages"], self._told = list(pages), pages
        try:
            channel.send_bytes(json.dumps(question).encode())
            channel.send_bytes(data)
            if not channel.poll(settings.PARSE_TIMEOUT_SECONDS):
                self.close()
                raise unreadable(
                    f"{filename}: took more than {settings.PARSE_TIMEOUT_SECONDS} s",
                    _("La lecture de ce fichier a dépassé %(seconds)d secondes ; elle a été arrêtée.")
                    % {"seconds": settings.PARSE_TIMEOUT_SECONDS},
                )
            reply: dict[str, Any] = read_json(channel.recv_bytes())
        except (EOFError, OSError) as error:
            status = self.close()
            raise unreadable(
                f"{filename}: the reader ended with status {status}",
                _("La lecture de ce fichier a fait échouer le lecteur (mémoire ou fichier abîmé)."),
            ) from error
        if "trouble" in reply:
            # What the child holds after that is not worth counting on.
            self.close()
            raise (DiskFullError if reply["is_full"] else MachineTroubleError)(reply["trouble"])
        if "refused" in reply:
            raise UnreadableDocumentError(f"{filename}: {reply['detail']}", public_message=reply["refused"])
        return REPLY.validate_python(reply)

    def close(self) -> int | None:
        """End the child; returns its status, or `None` when there was none."""
        process, self._process, self._told = self._process, None, frozenset()
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if process is None:
            return None
        process.kill()
        return process.wait()

    def _started(self) -> Connection:
        """The child, ready to read; raises `MachineTroubleError` for one that does not start."""
        if self._process is None or self._channel is None:
            try:
                self._channel, theirs = Pipe()
                with theirs:
                    self._process = subprocess.Popen(  # noqa: S603  # fixed command
                        [sys.executable, "-m", _MODULE, str(settings.PARSE_MEMORY_BYTES)],
                        cwd=settings.BASE_DIR,
                        stdin=theirs.fileno(),
                        stdout=_STANDARD_ERROR,
                    )
                if not self._channel.poll(_START_SECONDS):
                    raise EOFError
                self._channel.recv_bytes()
            except (EOFError, OSError) as error:
                status = self.close()
                trouble = machine_trouble(error)
                raise trouble or MachineTroubleError(f"The reader did not start (status {status}).") from error
        return self._channel


def isolated_reader() -> "closing[Reader]":
    return closing(Reader())


def read_here(data: bytes, *, filename: str, pages: Collection[str] = ()) -> ReadDocument:
    parsed = parse_document(data, filename=filename, pages=pages)
    drafts, is_whole = affordable_chunks(parsed)
    cut = _(
        "Document trop long ou trop dense : seuls ses %(count)d premiers passages sont lus. Divisez-le en plusieurs fichiers."
    )
    spread = parsed.blocks[:: max(1, len(parsed.blocks) // SAMPLES)]
    return ReadDocument(
        parsed.title[:MAX_HEADING_CHARACTERS],
        parsed.source_type,
        parsed.notices if is_whole else (cut % {"count": len(drafts)}, *parsed.notices),
        tuple(placed_chunks(drafts, parsed)),
        document_language([f"{block.question} {block.text}" for block in spread]),
    )


def read_guarded(data: bytes, *, filename: str, pages: Collection[str] = ()) -> ReadDocument:
    """Read a file in this process; whatever a hostile one makes the libraries raise concerns that file alone."""
    try:
        return read_here(data, filename=filename, pages=pages)
    except MemoryError:
        raise
    except Exception as error:
        if (trouble := machine_trouble(error)) is not None:
            raise trouble from error
        if isinstance(error, UnreadableDocumentError):
            raise
        logger.exception("A reader failed.")
        message = _("Ce fichier n’a pas pu être lu : il est abîmé, ou d’une forme inattendue.")
        raise unreadable(f"{filename}: {type(error).__name__}", message) from error
