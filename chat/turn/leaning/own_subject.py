"""Does a message name its own subject? Inside a conversation only such a one is looked up alone. Pure.

Read after the rules of `chat.turn.leaning.follow_ups`, which look for what a question lacks; here it may be a whole
sentence, and is
about a part of something that was named before:

- `assent`, `choice`: it takes up a proposal ("ok, go ahead", « la deuxième »), or answers what it was asked (`reply`);
- `correction`, `statement`: it puts right what was said (« je voulais dire le dossier »), or tells the case and asks
  nothing
  ("my boss never gave me mine");
- `existence`: it asks whether something has a thing, and not what ("Is there a setup fee?", « Y a-t-il un préavis ? »);
- `definite`: its only noun has the article of what both know (« L'appel est surtaxé ? », "Is the refund immediate?");
- `comparison`: the other side of it was said ("Can I pay more?", « Laquelle est la plus sûre ? »).

A name, a possession, an indefinite noun or a noun with its complement is a subject of one's own. The classes of words
are data (`knowledge/language/data`). Messages come folded; `said` is the exchange before, folded as well.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from knowledge.language.words import fold, light_stem, one_of, word_class

_ASSENT = rf"(?:{one_of('assents')})"
_POLITE = rf"(?:{one_of('politeness')})"
_COURTESY = re.compile(rf"^(?:{_POLITE}(?:[\s,.!:;-]+|$))+")
_OPENERS = re.compile(rf"^(?:(?:{_POLITE}|{_ASSENT})(?:[\s,.!:;-]+|$))+")
#: "As well" is no assent.
_CLOSERS = re.compile(rf"(?:[\s,.!-]+(?<!\bas )(?:{_POLITE}|{_ASSENT}))+[\s.!]*$")
_PART = re.compile(rf"^(?:{one_of('parts')})$")
_GENERIC = re.compile(rf"^(?:{one_of('generic')})$")
#: « est-elle », « peut-on », « y a-t-il »: of the verbs with a subject behind them, those that say nothing.
_INVERTED = re.compile(rf"^(?:{one_of('common_verbs')})-(?:t-)?(?:je|il|elle|on|nous|vous|ils|elles|ce)$")
_OF = frozenset(("de", "d'", "du", "des", "of"))
_COPULAS = word_class("copulas")
_CHOICES = word_class("choices")
_UNIQUE = word_class("unique")
_DEFINITE = word_class("definite")
_INDEFINITE = word_class("indefinite")
_POSSESSIVE = word_class("possessive")
_DETERMINERS = _DEFINITE | _INDEFINITE | _POSSESSIVE
_PREPOSITIONS = word_class("prepositions")
_FRAME = word_class("question_frame")
_EXISTENCE = re.compile(rf"^(?:{one_of('existence')})\b")
_ADJUNCTS = word_class("adjunct_prepositions")
#: What is done: « pour contester », "for topping up".
_ACTION = re.compile(r"\w(?:er|ir|re|oir|ing)$")
_ADJUNCT_WORDS = 3
_COMPARISON = re.compile(rf"(?:^|[\s'])(?:{one_of('comparisons')})(?=[\s,]|$)")
_ONE = re.compile(
    r"\b(?:the|an?|which|what|other|another|same|new|old) (?:\w+ )?ones?"
    r"(?=$|,| (?:please|is|are|was|do|does|can|will|would|take|takes|cost|costs)\b)"
)
#: "better than", "more than", « plus que »: the other side stands there itself.
_COMPARED = re.compile(r"\b(?:than|besides|que ?)\b")
_ASKS = re.compile(
    rf"\b(?:{one_of('asking')})\b|-(?:t-)?(?:je|il|elle|on|nous|vous|ils|elles)\b|"
    # As it is typed: « est il », « peut on ».
    r"\b(?:est|sont|sera|peut|peuvent|doit|doivent|faut|puis|avez|pouvez)(?: t)? (?:il|elle|on|ils|elles|je|vous)\b"
)
_CORRECTION = re.compile(rf"^(?:{one_of('corrections')})(?=[\s,]|$)")
_TELLING = re.compile(
    rf"(?:^|[\s,])(?:{one_of('telling')})(?:\s|(?<='))|"
    rf"(?:^|, ?|\b(?:{one_of('telling_behind')}) )(?:{one_of('telling_first')})\s"
)
_WISHING = re.compile(rf"\b(?:{one_of('wishing')})\b")
_TOKENS = re.compile(r"[^\W_]+(?:-[^\W_]+)*'?")
#: Capitals that begin no sentence, and names in capitals; not "I".
_NAME = re.compile(r"(?<![.?!:]\s)(?<!^)\b(?!I\b)[A-ZÀ-Ý][\w’-]+|\b[A-Z]{2,}\w*")
_NO_NAME = word_class("no_names")
#: A reply has few words; a longer message tells something of its own.
_REPLY_WORDS = 10
#: From here on a message says enough to be understood by itself.
_MOST_SPECIFIC = 3
#: A statement with so many new words of content tells of something else.
_TOLD = 4
#: One word may be what is said of the noun: "included", « surtaxé ».
_PREDICATE = 1


def without_openers(folded: str) -> str:
    """The message without the assents and thanks around it; empty where it is nothing else."""
    rest = _OPENERS.sub("", folded)
    return _CLOSERS.sub("", rest).strip(" ,.!") if rest else ""


def reply_rule(folded: str, core: str, answer: str, *, is_question: bool) -> str:
    """`assent`, `choice` or `reply`, or an empty string. `core` is the message without its openers."""
    if not core:
        return "assent"
    is_opened = not _COURTESY.sub("", folded).startswith(core)
    if is_opened and not is_question and not _ASKS.search(core):
        return "assent"
    tokens = _tokens(core)
    if all(_chooses(token) for token in tokens):
        return "choice"
    if _CORRECTION.search(core):
        return "correction"
    is_answer = answer.rstrip().endswith("?") and not is_question
    if is_answer and len(tokens) <= _REPLY_WORDS and not _ASKS.search(core):
        return "reply"
    return ""


def statement_rule(core: str, raw: str, said: str) -> str:
    """`statement`: somebody tells a case with few words of content that are new, in a sentence that neither asks nor
    wishes.
    """
    tells = bool(_TELLING.search(core)) and not (_ASKS.search(core) or _WISHING.search(core))
    return "statement" if tells and not names_new_things(core, raw, said, least=_TOLD) else ""


def names_new_things(core: str, raw: str, said: str, *, least: int = 2) -> bool:
    """Whether it has so many words of content that were not said before, or one and a name.

    Two make a question of its own behind « et » or "also".
    """
    given = _stems(said)
    new = {_stem(token) for token in _tokens(core) if _is_specific(token)} - given
    return len(new) >= least or (bool(new) and _has_name(raw))


def is_part_of_another(core: str) -> bool:
    """« Prix d'une carte de pêche », "canoe hire prices": of what it is the price stands there, and is no part itself."""
    tokens = _tokens(core)
    if len(tokens) <= _PREDICATE + 1:
        return False
    behind = [token for token in tokens[2:] if token not in _DETERMINERS]
    if tokens[1] in _OF:
        return bool(behind) and not _is_part(behind[0])
    return _is_part(tokens[-1]) and all(map(_is_specific, tokens[:-1]))


def subject_rule(core: str, raw: str, said: str) -> str:
    """Why the message has no subject of its own, or an empty string. `raw` is the message as it was typed."""
    tokens = _tokens(core)
    specific = [at for at, token in enumerate(tokens) if _is_specific(token)]
    if len(specific) > _MOST_SPECIFIC or _has_name(raw):
        return ""
    if len(specific) < _MOST_SPECIFIC and _is_comparison(core):
        return "comparison"
    if found := _EXISTENCE.search(core):
        return "" if _is_completed(core[found.end() :]) else "existence"
    if _has_part_of_its_own(tokens):
        return ""
    if not specific:
        return "generic"
    return "definite" if _is_anaphoric(tokens, specific, _stems(said)) else ""


def _tokens(text: str) -> list[str]:
    return _TOKENS.findall(text)


def _chooses(token: str) -> bool:
    return token in _CHOICES | _DEFINITE | _INDEFINITE or token.isdigit() or len(token) == 1


def _has_name(raw: str) -> bool:
    """Whether it holds a name; a message in capitals holds none that can be told."""
    if raw.isupper():
        return False
    return any(fold(name) not in _NO_NAME for name in _NAME.findall(raw))


def _is_comparison(core: str) -> bool:
    return bool(_COMPARISON.search(core) or _ONE.search(core)) and not _COMPARED.search(core)


def topic_is_part(topic: str) -> bool:
    """Whether what stands before the comma is itself part of something: « Le tarif réduit, c'est pour qui ? »."""
    tokens = _tokens(topic)
    return len(tokens) > 1 and tokens[0] in _DEFINITE and _is_part(tokens[1])


def is_choice(topic: str) -> bool:
    """« The smallest one, what's the price? »: of several that were named."""
    return bool(_ONE.search(topic))


def _is_completed(rest: str) -> bool:
    """Whether what is asked for has a complement: "a limit on transfers", « un délai pour porter plainte ».

    For whom, when or in which case it holds is none, as long as it is short.
    """
    tokens = _tokens(rest)[1:]
    if any(token in _POSSESSIVE or token in {"that", "qui", "que", "qu'"} for token in tokens):
        return True
    joined = next((at for at, token in enumerate(tokens) if token in _PREPOSITIONS), None)
    if joined is None:
        return False
    complement = tokens[joined + 1 :]
    is_action = bool(complement) and bool(_ACTION.search(complement[0]))
    return tokens[joined] not in _ADJUNCTS or is_action or len(complement) > _ADJUNCT_WORDS


def _has_part_of_its_own(tokens: Sequence[str]) -> bool:
    """« Comment contester une amende ? » names what it is about, « L'amende est de combien ? » does not."""
    return any(token in _INDEFINITE | _POSSESSIVE and _is_part(tokens[at + 1]) for at, token in enumerate(tokens[:-1]))


def _is_anaphoric(tokens: Sequence[str], specific: Sequence[int], given: frozenset[str]) -> bool:
    """Whether its one definite noun is a part of something, was said, or is the subject of an English question.

    Whatever else says something may be what is said of that noun, and no noun of its own: it has no article, possessive
    or preposition.
    """
    heads = [at + 1 for at, token in enumerate(tokens[:-1]) if token in _DEFINITE]
    for head in heads:
        noun = tokens[head]
        if noun in _UNIQUE:
            continue
        if not (_is_subject(tokens, head) or _is_part(noun) or _stem(noun) in given):
            continue
        others = [at for at in specific if at != head]
        if len(others) <= _PREDICATE and not any(_is_noun_like(tokens, at) for at in others):
            return True
    return False


def _is_subject(tokens: Sequence[str], head: int) -> bool:
    """Whether something is said of the definite noun: "Is the router included?", « Le bonnet est obligatoire ? »."""
    if tokens[head - 1] == "the":
        behind = tokens[head + 1 :]
        # "The winter fuel payment" is a name of its own.
        return not any(map(_is_part, behind)) and all(word in _FRAME for word in tokens[: head - 1])
    return head == 1 and len(tokens) > head + 1 and tokens[head + 1] in _COPULAS


def _is_noun_like(tokens: Sequence[str], at: int) -> bool:
    """Whether the word has an article of its own, or stands behind a preposition: « du temps partiel »."""
    if at and tokens[at - 1] in _DETERMINERS:
        return True
    while at and not (tokens[at - 1] in _DETERMINERS or _is_specific(tokens[at - 1])):
        at -= 1
        if tokens[at] in _PREPOSITIONS:
            return True
    return False


@lru_cache(maxsize=4096)
def _is_specific(token: str) -> bool:
    word = token.rstrip("'")
    return not (
        word in _FRAME
        or token in _DETERMINERS
        or token in _PREPOSITIONS
        or word in _PREPOSITIONS
        or len(word) == 1
        or _GENERIC.match(word)
        or _PART.match(word)
        or _INVERTED.search(word)
    )


@lru_cache(maxsize=4096)
def _is_part(word: str) -> bool:
    return bool(_PART.match(word))


def _stems(said: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _tokens(said) if len(word) > 2 or word.isdigit())


def _stem(word: str) -> str:
    """One beginning for a noun and the verb beside it: « appel », « appelez »."""
    return light_stem(light_stem(word, "fr"), "en")[:5]
