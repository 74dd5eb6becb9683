"""Is a question a follow-up, and what is searched for it?

Rules only, French and English, pure. A follow-up leans on the exchange before it: it opens with a connective ("et
pour 2024 ?"), has a pronoun whose noun is elsewhere ("doit-elle payer ?"), or is too elliptic to ask anything alone
("pourquoi ?"). The rules lean towards "follow-up": the price of that error is a direct answer not given, the price of
the other is an answer to another question. Without a previous question nothing can be a follow-up.
"""

import re
from dataclasses import dataclass

_CONNECTIVE = re.compile(
    r"^(?:et|mais|donc|alors|sinon|aussi|puis|ensuite|dans ce cas|du coup|par contre|en revanche|"
    r"idem|pareil|meme chose|and|but|or|so|then|also|otherwise|in that case|what about|how about|same|"
    r"what if|if so|if not|si oui|si non)(?=[\s,?]|$)"
)
#: A short question that opens with a preposition, and asks with no question word, has left its verb in the exchange before.
_ELLIPTIC_HEAD = re.compile(
    r"^(?:pour|en|avec|sans|chez|au|aux|a|des|du|si|for|in|with|without|at|if)"
    r"(?!.*\b(?:quel|quelle|quels|quelles|qui|quoi|combien|quand|comment|which|what|whom|how|when)\b)"
    r"(?: [^\s,]+){1,5}$"
)
_BARE_QUESTION_WORD = re.compile(
    r"^(?:c'?est )?(?:pourquoi|comment|combien|quand|ou|qui|lequel|laquelle|lesquels|lesquelles|"
    r"c'est a dire|par exemple|ah bon|vraiment|why|how|when|where|who|which|which one|how much|how many|"
    r"how long|really|for example|meaning)(?: (?:ca|cela|donc|so|not|pas|exactement|exactly|then))?\s*[?.!]*$"
)
_DEMONSTRATIVE = re.compile(
    r"\b(?:cela|ca|ceci|celui-ci|celle-ci|ceux-ci|celles-ci|celui-la|celle-la|ceux-la|celles-la|"
    r"ce dernier|cette derniere|ces derniers|ces dernieres|le meme|la meme|les memes|"
    r"the same|the former|the latter|this one|that one)\b"
)
_IMPERSONAL = re.compile(
    r"\b(?:y a-t-il|il y a|faut-il|il faut|qu'il faut|s'agit-il|il s'agit|vaut-il mieux|il vaut mieux|"
    r"(?:est|etait|serait)-il (?:possible|necessaire|obligatoire|interdit|autorise|permis|utile|vrai|normal)|"
    r"il est (?:possible|necessaire|obligatoire|interdit|autorise|permis|utile|vrai|normal)|"
    r"is it (?:possible|necessary|mandatory|allowed|legal|true|normal|safe|ok|worth)|"
    r"does it (?:take|cost) to|how long does it take|how much does it cost)\b"
)
_QUESTION_WORDS = (
    r"(?:comment|ou|quand|pourquoi|combien|qui|que|qu'|quoi|quel|quelle|quels|quelles|est-ce que|est-ce qu'|"
    r"a qui|a quoi|de quoi|jusqu'a quand|depuis quand|how|where|when|why|who|what|which)"
)
#: "Doit-il payer ?", "Quand doit-elle payer ?": no noun before the verb, so the pronoun's noun is elsewhere.
_INVERTED_PRONOUN = re.compile(
    rf"^(?:{_QUESTION_WORDS} )?(?:ne |n')?\w+(?:-t)?-(?:il|elle|ils|elles)\b"
)
_SUBJECT_PRONOUN = re.compile(
    rf"^(?:{_QUESTION_WORDS} ?)?(?:\w+ )?(?:il|elle|ils|elles|it|they|he|she|this|that|these|those)\b"
)
_ENGLISH_PRONOUN = re.compile(
    r"^(?:\S+ ){1,4}(?:it|they|them|he|she|him|its|their)\b|"
    r"^(?:what|how|why|when|where|is|are|does|do|can|will) (?:\w+ )?(?:this|that|these|those)\b"
)
#: "Comment le renouveler ?": an object pronoun before an infinitive, its noun elsewhere.
_OBJECT_PRONOUN = re.compile(
    r"^(?:(?:comment|ou|quand|pourquoi|combien|puis-je|peut-on|dois-je|doit-on|faut-il|est-ce que je peux|"
    r"est-ce qu'on peut|qui peut|peux-tu|pouvez-vous) ?)+(?:le|la|les|l'|lui|leur|en|y) ?\w+(?:er|ir|re|oir)\b"
)
_RULES = (
    ("connective", _CONNECTIVE),
    ("ellipsis", _ELLIPTIC_HEAD),
    ("ellipsis", _BARE_QUESTION_WORD),
    ("demonstrative", _DEMONSTRATIVE),
    ("pronoun", _INVERTED_PRONOUN),
    ("pronoun", _SUBJECT_PRONOUN),
    ("pronoun", _ENGLISH_PRONOUN),
    ("pronoun", _OBJECT_PRONOUN),
)
_ACCENTS = str.maketrans("àâäçéèêëîïôöùûüÿ’", "aaaceeeeiioouuuy'")


@dataclass(frozen=True, slots=True)
class StandaloneQuestion:
    """`text` is what is embedded and searched; `is_follow_up` bars stored answers; `rule` says why."""

    text: str
    is_follow_up: bool
    rule: str = ""


def standalone_question(question: str, previous_question: str) -> StandaloneQuestion:
    """A follow-up is searched together with the question before it; anything else is left alone."""
    rule = follow_up_rule(question) if previous_question else ""
    if not rule:
        return StandaloneQuestion(text=question, is_follow_up=False)
    return StandaloneQuestion(text=f"{previous_question}\n{question}", is_follow_up=True, rule=rule)


def follow_up_rule(question: str) -> str:
    """The rule that says this is a follow-up, or an empty string."""
    folded = " ".join(question.lower().translate(_ACCENTS).split())
    folded = folded.replace(" ?", "?").strip(' .!"«»')
    bare = _IMPERSONAL.sub(" ", folded).strip()
    return next((name for name, pattern in _RULES if pattern.search(bare)), "")
