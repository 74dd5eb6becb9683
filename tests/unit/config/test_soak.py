"""When the soak takes a process for one that grows."""

from tests.soak import grown


def _line(memory: float, files: int = 50, threads: int = 20) -> dict[str, float]:
    return {"memory_mb": memory, "files": files, "threads": threads}


def test_a_process_that_holds_its_size_passes() -> None:
    assert grown([_line(100), _line(180), _line(300), *[_line(310)] * 7]) == []


def test_memory_and_files_that_grow_are_told() -> None:
    [memory, files] = grown([_line(100), _line(180), _line(300), *[_line(450, 200)] * 7])
    assert memory.startswith("memory_mb: 300")
    assert files.startswith("files: 50")
