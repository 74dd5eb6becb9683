"""What a machine lacks is not the fault of the file that is being read or kept: it is told apart by the system's own
error numbers.
"""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from agents.database import first_line
from agents.errors import ApplicationError
from knowledge.exceptions import DiskFullError, MachineTroubleError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Not `ENOMEM`: a file may ask for more memory than its reader is given. `ENOENT`: parsers open no file of a document's
#: naming; what is missing is a folder for temporary files, or a program's own file.
_MACHINE = _FULL | {*(errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOENT)}
#: PostgreSQL's `disk_full`.
_DISK_FULL = "53100"


def machine_trouble(error: BaseException | None) -> MachineTroubleError | None:
    """The trouble behind an error, through all that it was raised from; `None` where there is none."""
    for cause in _causes(error):
        if isinstance(cause, MachineTroubleError):
            return cause
        if isinstance(cause, OSError) and cause.errno in _MACHINE:
            # Without a place for temporary files, Python does not say that it is for want of space.
            is_full = cause.errno in _FULL or "temporary directory" in str(cause)
            return (DiskFullError if is_full else MachineTroubleError)(str(cause))
        code = getattr(cause, "sqlite_errorcode", 0) if isinstance(cause, sqlite3.Error) else 0
        if code & 0xFF == sqlite3.SQLITE_FULL or getattr(cause, "sqlstate", None) == _DISK_FULL:
            return DiskFullError(first_line(Exception(str(cause))))
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def named_machine() -> Iterator[None]:
    """Raises `MachineTroubleError` for a system's error of that kind, and other errors as they are."""
    try:
        yield
    except OSError as error:
        if (trouble := machine_trouble(error)) is None:
            raise
        raise trouble from error


def staff_reason(error: ApplicationError) -> str:
    """Why a work failed, for staff: what somebody can do about it, where it is the disk."""
    return str((machine_trouble(error) or error).public_message)
