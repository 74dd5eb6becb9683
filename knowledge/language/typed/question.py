"""What a question asks, out of how it was typed: the story of the reading step. Pure.

What is sure becomes the text: it is embedded, searched, and compared with stored questions. What is a guess, and a
story's question by itself, are searched beside it (`others`), so that the better counts; no stored answer is let out by
them.
"""

import re
from dataclasses import dataclass

from knowledge.language.classes import word_class
from knowledge.language.detection import language_of
from knowledge.language.typed.spelling import lowered, spelled
from knowledge.language.typed.tokens import tokens_of
from knowledge.language.typed.vocabulary import Vocabulary
from knowledge.language.typed.wrapping import unwrapped

#: Beside the text itself.
MOST_OTHERS = 2
#: The beginning is read; what stands behind it stays as it was typed.
READ_CHARACTERS = 4_000
#: With fewer words of content a question does not stand without its story; a story has at least so many words.
_LEAST_CONTENT = 2
_LEAST_STORY = 4
_SENTENCE = re.compile(r"(?<=[.!?…])\s+(?=\S)|\n+")


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """`text` is how the question is read; `others` are further readings of it, the likeliest first."""

    typed: str
    text: str
    others: tuple[str, ...] = ()
    #: The last of the others is what is asked, and `text` tells a story around it.
    tells: bool = False

    @property
    def is_as_typed(self) -> bool:
        return self.text == self.typed and not self.others


def read_typed(question: str, vocabulary: Vocabulary) -> TypedQuestion:
    """The reading of one question; what has no word in it is read as itself."""
    head, rest = _parts(question)
    if not any(map(str.isalpha, head)):
        return TypedQuestion(question, question)
    text = lowered(head, vocabulary)
    language = language_of(text)
    sure, guessed = spelled(text, vocabulary, language)
    texts = [unwrapped(reading, language) for reading in dict.fromkeys((sure, guessed))]
    asked = _question_of_story(texts[-1], language)
    text, *others = dict.fromkeys(reading + rest for reading in (*texts, *asked))
    return TypedQuestion(question, text, tuple(others[-MOST_OTHERS:]), tells=bool(asked))


def _parts(question: str) -> tuple[str, str]:
    """Where a long text is cut: between two words."""
    if len(question) <= READ_CHARACTERS:
        return question, ""
    at = question.rfind(" ", 0, READ_CHARACTERS)
    at = READ_CHARACTERS if at < 0 else at
    return question[:at], question[at:]


def _question_of_story(text: str, language: str) -> list[str]:
    """The one sentence that asks, where others tell."""
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    asking = [part for part in sentences if part.endswith("?")]
    if len(sentences) < 2 or len(asking) != 1:
        return []
    story = sum(len(tokens_of(part)) for part in sentences if part != asking[0])
    asked = unwrapped(asking[0], language)
    small = word_class("stop_words")
    content = sum(token.folded not in small for token in tokens_of(asked))
    return [asked] if content >= _LEAST_CONTENT and story >= _LEAST_STORY else []
