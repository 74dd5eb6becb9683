"""Near-twins: tools of one source that hardly differ."""

from tests.factories import make_tool
from tools_registry.twins import MOST_TWINS, near_twins


def twins(*tools: tuple[str, str], source_of: dict[str, int] | None = None) -> dict[str, list[str]]:
    specs = [make_tool(n, text, source_id=(source_of or {}).get(n)) for n, text in tools]
    return {name: [twin.name for twin in found] for name, found in near_twins(specs).items()}


def test_same_name_with_a_word_more_and_nearly_the_same_sentence() -> None:
    assert twins(
        ("pulls_merge", "Merge a pull request. Long text."),
        ("pulls_merge-async", "Merge a pull request in the background\n\nOther text."),
    ) == {"pulls_merge": ["pulls_merge-async"], "pulls_merge-async": ["pulls_merge"]}


def test_sentences_that_differ_in_one_word() -> None:
    found = twins(
        ("read_file", "Read the complete contents of a file."),
        ("read_text", "Read the complete contents of a text file."),
    )
    assert found["read_file"] == ["read_text"]


def test_what_only_sounds_alike_is_no_twin() -> None:
    assert not twins(
        ("issues_list", "List issues of a repository"),
        ("issues_list-labels", "Lists all labels of something else"),
        ("secret_get", "Get a secret of a repository"),
        ("secret_delete", "Delete a secret of a repository"),
    )


def test_tools_of_two_sources_are_no_twins() -> None:
    tools = (("a_echo", "Says the same words again."), ("b_echo", "Says the same words again."))
    assert twins(*tools)
    assert not twins(*tools, source_of={"a_echo": 1, "b_echo": 2})


def test_one_tool_brings_a_few_only() -> None:
    found = twins(*((f"copy{n}", "Copies one thing to another place.") for n in range(6)))
    assert {len(others) for others in found.values()} == {MOST_TWINS}
