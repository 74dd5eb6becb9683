"""The person's own question in what a chat program sends as a user message.

Programs that add passages of their own wrap the question in a template. The template's words would be searched,
embedded and remembered as a question; the passages are the client's and no source of this desk. Where no known template
is recognised, the text is the question.
"""

import re

_LABEL = re.compile(r"\s*(?:#+\s*)?(?:user )?(?:query|question)\s*:\s*", re.IGNORECASE)
#: LlamaIndex's question template, and LangChain's of the same shape.
_QUOTING = ("Context information is", "Use the following")
_QUESTION_LINES = ("\nQuery: ", "\nQuestion: ")
#: Open WebUI's list of what was attached.
_ATTACHED = re.compile(r"\A\s*<attached_files>.*?</attached_files>\s*", re.DOTALL)
_SOURCE = re.compile(r'<source id="(\d{1,3})"')
_ANSWER_LABEL = re.compile(r"\n[\w ]{0,20}:\s*\Z")


def own_sources(text: str) -> int:
    """The highest number that the client's template gives to a source of its own; 0 where it numbers none."""
    context = text.partition("<context>")[2] if _after_context(text) else ""
    return max((int(number) for number in _SOURCE.findall(context)), default=0)


def own_question(text: str) -> str:
    """The question inside a template of a known program; the text itself where there is none."""
    found = _after_context(text) or _after_label(text) or text
    return _ATTACHED.sub("", found) or found


def _after_context(text: str) -> str:
    """Open WebUI: a headed template, whose context the question follows, until 0.6 in a tag of its own."""
    opened, closed = text.find("<context>"), text.rfind("</context>")
    if not text.startswith("#") or not 0 <= opened < closed:
        return ""
    rest = text[closed + len("</context>") :]
    _before, tag, tagged = rest.partition("<user_query>")
    return _LABEL.sub("", tagged.partition("</user_query>")[0] if tag else rest, count=1).strip()


def _after_label(text: str) -> str:
    at = max(text.rfind(line) for line in _QUESTION_LINES)
    if not text.startswith(_QUOTING) or at < 0:
        return ""
    return _ANSWER_LABEL.sub("", _LABEL.sub("", text[at:], count=1)).strip()
