"""A disk of a test's own that can be filled and emptied: a file system in memory, of so many bytes, where one may be
mounted.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.folder).free

    def fill(self, *, leave: int = 0) -> None:
        """Until no more than `leave` bytes are free."""
        with self._filler.open("ab") as filler:
            while (most := self.free - leave) > 0:
                try:
                    os.posix_fallocate(filler.fileno(), filler.tell(), most)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    continue  # somebody else took of it in between
                filler.seek(0, os.SEEK_END)

    def empty(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(folder: Path, *, size: int) -> Iterator[SmallDisk | None]:
    """`None` where nothing can be mounted: that takes the rights of root."""
    mount = shutil.which("mount")
    folder.mkdir()
    if mount is None or not _runs(mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)):
        yield None
        return
    try:
        yield SmallDisk(folder)
    finally:
        _runs("umount", "--lazy", str(folder))


def _runs(*words: str) -> bool:
    return not subprocess.run(words, capture_output=True, check=False).returncode  # noqa: S603  # ours
