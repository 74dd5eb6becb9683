"""A client's thread: what came before a question, for any order of messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat.api.v1.requests import ClientThread, read_messages

MESSAGES = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(min_size=1)))


def test_exchanges_are_paired_and_the_question_is_the_last_message() -> None:
    before, question = read_messages(
        [("assistant", "hello"), ("user", "a"), ("assistant", "b"), ("user", "c"), ("user", "d")]
    )
    assert before == ClientThread((("a", "b"),), previous="c")
    assert question == "d"


def test_question_asked_twice_has_two_exchanges() -> None:
    said = [("user", "a"), ("assistant", "1"), ("user", "a"), ("assistant", "2"), ("user", "z")]
    assert read_messages(said)[0].exchanges == (("a", "1"), ("a", "2"))


def test_thread_without_a_question_at_its_end_is_refused() -> None:
    for said in ([], [("assistant", "a")], [("user", "a"), ("assistant", "b")]):
        with pytest.raises(ValueError, match="no question"):
            read_messages(said)


@given(MESSAGES, st.integers(0, 5), st.integers(0, 50))
def test_nothing_is_invented_and_both_bounds_hold(said: list[tuple[str, str]], exchanges: int, characters: int) -> None:
    before, question = read_messages([*said, ("user", "q")])
    assert question == "q"
    questions = [text for role, text in said if role == "user"]
    answers = [text for role, text in said if role == "assistant"]
    assert all(asked in questions and told in answers for asked, told in before.exchanges)
    assert before.previous == (questions[-1] if questions else "")
    kept = before.last(exchanges, characters=characters)
    assert len(kept.exchanges) <= exchanges
    assert sum(len(asked) + len(told) for asked, told in kept.exchanges) <= characters
    assert kept.exchanges == before.exchanges[len(before.exchanges) - len(kept.exchanges) :]
