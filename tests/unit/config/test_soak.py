"""When the soak takes a process for one that grows."""

from tests.soak import grown


def _line(memory: float, files: int = 50, threads: int = 20, rows: float = 0, answered: int = 100) -> dict[str, float]:
    told = {"memory_mb": memory, "files": files, "threads": threads}
    return {**told, "rows": rows, "answered": answered}


def test_a_process_that_holds_its_size_passes() -> None:
    assert grown([_line(100), _line(180), _line(300), *[_line(310)] * 7]) == []


def test_memory_and_files_that_grow_are_told() -> None:
    [memory, files] = grown([_line(100), _line(180), _line(300), *[_line(450, 200)] * 7])
    assert memory.startswith("memory_mb: 300")
    assert files.startswith("files: 50")


def test_rows_that_come_with_the_questions_pass_and_more_of_them_are_told() -> None:
    steady = [_line(300, rows=1000 * tenth) for tenth in range(10)]
    assert grown(steady) == []
    faster = [_line(300, rows=100 * tenth**2) for tenth in range(10)]
    assert grown(faster) == ["rows a question: 2.0 in the first tenths, 16.0 in the last"]
