"""Is a question a follow-up, and what is searched for it?

Rules only, French and English, pure. A follow-up leans on the exchange before it. The rules look for what a question
lacks, by linguistic class rather than by phrase:

- `connective`: it opens or closes with a word that joins it to something said ("et pour 2024 ?", "Charities as well?");
- `demonstrative`: it points ("cela", "ce fichier", "those", "C'est gratuit ?") and has not named what at;
- `pronoun`: a pronoun or possessive has no noun before it in the question ("doit-elle payer ?", "Qui les prononce ?");
- `ellipsis`: its verb or the verb's complement is missing ("Renouvelable ?", "On peut refuser ?");
- `generic`: every word of it fits any subject ("Quels documents faut-il ?", "What are the conditions?").

They lean towards "follow-up": the price of that error is a direct answer not given, the price of the other is an answer
to another question. Without a previous question nothing can be a follow-up. Measured by `benchmarks/followups`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from faqs.second_key.reading import read_pair
from knowledge.language.words import fold, fold_letters, light_stem, one_of, word_class

_COURTESIES = word_class("courtesies")
_COURTEOUS = _COURTESIES | word_class("courtesy_fillers")
_CONNECTIVE_HEAD = re.compile(rf"^(?:{one_of('connective_openings')})(?=[\s,?]|$)")
_GOING_ON = re.compile(rf"^(?:{one_of('going_on')})(?=[\s,])")
_CONNECTIVE_TAIL = re.compile(rf"(?:^|[\s,])(?:{one_of('connective_closings')})\s*\?*$")
_ELLIPTIC_MEASURE = re.compile(
    r"^combien pour (?:\S+ ){0,2}\S+$|"
    r"^(?:(?:il )?(?:me |te )?faut(?:-il)?) combien (?:de |d')\w+$|^how many \w+ (?:do|will|would) (?:i|we|you) need$|"
    r"^which (?:one )?is (?:the )?\w+(?:er|est)$|^(?:who|qui) \S+$|^what(?:'s| is| are) (?:not )?\w+ed$|"
    r"^(?:(?:vers|de|dans|par|pour) )?quel(?:le)?s? \w+ \w+(?:er|ir|re|oir)$|"
    r"^(?:sous|dans|pendant|pour|avec|depuis|jusqu'a|a|en|au bout de|within|for|in|until|under|at)? ?"
    r"(?:quels?|quelles?|combien de|what|which|how (?:long|much|many)) ?\S*$"
)
#: A modal, a person and one verb without its object: "On peut refuser ?", "Serai-je remboursé ?", "Can I appeal?".
_NO_COMPLEMENT = re.compile(
    r"^(?:est-ce (?:que |qu'))?(?:(?:je|on|nous|vous|j') ?\w+|\w+-(?:t-)?(?:je|on|nous|vous)|faut-il|il faut)"
    r"(?: etre)?(?: \w+)?$|"
    r"^(?:(?:il )?faut|on (?:peut|doit)) \w+(?:er|ir|re|oir)(?: \w+)?$|"
    r"\b(?:moyen|possible) (?:de |d')\w+(?:er|ir|re|oir)$|"
    r"^(?:will|would|can|could|do|must|should|may|am|did|have) (?:i|we|you) (?:\w+ )?(?:be |get |(?:have|need) to )?\w+$|"
    r"^(?:can|could|do|must|should|may) (?:i|we|you) \w+ ones?\b"
)
_DEMONSTRATIVE = re.compile(
    r"\b(?:cela|ca|ceci|celui|celle|ceux|celles|la-dessus|la-dedans|dedans|(?<!-)dessus|la-bas|"
    r"ce dernier|cette derniere|ces derniers|ces dernieres|le meme|la meme|les memes|de meme|"
    r"the same|the former|the latter|do so|ones|(?<!is )(?<!are )(?<!was )there)\b|"
    r"\b(?:a|an|the|another|other|which|become|have|get|need|me|us|him|them) (?:\w+ )?one$|"
    r"(?<![-\w])(?:ce|cet|cette|ces) (?!soir|matin|midi|moment|mois|annee|semaine|jours?|week|que|qui|qu|dont|sont|n|ne|sera)\w+|"
    r"\b(?:this|these|those) (?!year|month|week|morning|evening|weekend|summer|winter)\w+|"
    r"\b(?:this|that|these|those)$|\b(?:tried|did|done) (?:this|that)\b|"
    r"\b(?:mine|yours|ours|hers|theirs|(?:l[ae]s?|au|du) (?:miens?|miennes?|siens?|siennes?|notres?|votres?))\b|"
    r"^(?:\S+ ){0,4}(?:is|does|do|can|will|would|has|was|could|should|are) (?:this|that|these|those)\b"
)
_IMPERSONAL = re.compile(
    r"\b(?:y[ -]?(?:a|avait|aura|aurait)[ -](?:t-)?il|n'est-il pas|s'est-il passe|(?:qu')?il (?:n')?y a(?:vait)?|y aura-t-il|faut-il|il (?:ne )?(?:me |te |nous |vous )?faut|"
    r"(?:me|te|nous|vous) faut-il|s'agit-il|il s'agit|existe-t-il|il existe|reste-t-il|il (?:me |vous )?reste|"
    r"se passe-t-il|il se passe|arrive-t-il|il arrive|vaut-il mieux|il vaut mieux|suffit-il|il suffit|"
    r"fait-il|convient-il|"
    r"(?:est|etait|serait|sera)-il (?:possible|necessaire|obligatoire|interdit|autorise|permis|utile|vrai|normal|legal|"
    r"prevu|preferable|conseille|recommande|encore)|"
    r"il est (?:possible|necessaire|obligatoire|interdit|autorise|permis|utile|vrai|normal|prevu|preferable|conseille|"
    r"recommande)|qu'en est-il|qu'est-ce que c'est que|"
    r"is it (?:\w+ )?(?:possible|necessary|mandatory|allowed|legal|true|normal|safe|ok|okay|worth|compulsory|required|better|"
    r"illegal|hard|easy)|it is (?:possible|necessary|mandatory|allowed|legal|true|normal)|"
    r"(?:does|will|would|did) it (?:\w+ )?(?:take|cost)(?: \w+){0,4} (?:to|for|a|before)|it (?:\w+ )?takes? (?:to|for|a)|is it (?:\w+ )?to|what time is it|(?:is|does) it (?:rain|snow)\w*)\b"
)
#: With the verb that it is joined to: "gardent-ils" has what stands before it to look at.
_FRENCH_SUBJECT = re.compile(r"(?:\b\w+-(?:t-)?)?\b(?:il|elle|ils|elles)\b")
_ENGLISH_PRONOUN = re.compile(r"\b(?:it|they|he|she|him|them)\b")
#: A pronoun does not stand for another noun of its own clause ("How does exercise affect it?"): where a clause ends.
_CLAUSE_END = re.compile(
    r"[,;:.?!]|\b(?:and|or|but|if|when|while|because|that|which|who|whose|after|before|until|once|so|than|unless|whether|"
    r"where|how|why)\b|(?<=\w )(?:can|could|will|would|should|do|does|did|what) (?:i|you|we|my)\b"
)
#: What stands for a place, a thing or a person that is not the subject: it needs a noun beside the subject.
_OBJECT_PRONOUN = re.compile(
    r"\b(?:y|lui) (?!a\b|avoir\b)\w+|"
    r"(?<!-)\b(?:qui|je|tu|on|nous|vous|ils?|elles?|ne) (?:me |te |nous |vous )?(?:(?:le|la|les|leur|en) |l')\w+|"
    r"\b(?:la|les|leur) \w{2,}[^mn]ent\b|"
    r"(?:\b(?:dois|doit|doivent|devons|devez|peux|peut|puis|peuvent|pouvons|pouvez|faut|veux|veut|voudrais|vais|va|vas|"
    r"allez|pourrais|pourrait|devrais|devrait)|-(?:je|on|nous|vous|il|elle)) (?:le|la|les|lui|leur|en|y) "
    rf"(?!(?:{one_of('nouns_like_infinitives')})s?\b)\w+(?:er|ir|dre|tre|oir|ire)\b|"
    r"\b\w+(?:e|ez|ns|is)-(?:le|la|les|lui|leur|en)\b|"
    r"(?:(?:^|\b(?:comment|quand|pourquoi|combien|peux|peut|dois|doit|faut|pour|sans|qui peut)|-\w+) )"
    rf"(?:(?:le|la|les|lui|leur|en) |l')(?!(?:{one_of('nouns_like_infinitives')})s?\b)(?:faire|\w+(?:er|ir|dre|tre|oir|ire))\b"
    r"(?! (?:est|sont|peut|doit|a|ont|sera|peuvent|doivent|de|du|des|\w+-)| d')"
)
#: A noun with its determiner: what a later pronoun may stand for.
_NOUN_PHRASE = re.compile(
    r"\b(?:(?:les?|la|un|une|des|du|de|d|au|aux|mon|ma|mes|ton|ta|tes|notre|nos|votre|vos|quels?|quelles?|chaque|par|"
    r"the|an?|my|your|our|of|for|every|each|any) (?!plus\b)|l')(\w{3,})"
)
_DEFINITE = re.compile(r"\b(?:(?:les?|la|une?|mon|ma|mes|ton|ta|tes|notre|nos|votre|vos) |l')\w{3,}")
_CLAUSE_HEAD = re.compile(
    r"^(?:si|quand|lorsque|pour|en|avec|sans|chez|a|au|aux|dans|if|when|for|in|with|without|at|on)\b"
)

#: They open a clause as well as a question.
_ASKED_TIMES = ("quand ", "when ")

_GENERIC = re.compile(rf"^(?:{one_of('generic')})$")
#: A verb that anyone can recognise; without one, and without a question word, a question is a fragment.
_VERB = re.compile(
    rf"\b(?:{one_of('common_verbs')})\b|\w-(?:t-)?(?:je|tu|il|elle|on|nous|vous|ils|elles|ce)\b|"
    r"\b(?:je|tu|on|nous|vous|ils|elles|i|we|you) \w+|\b(?:j|qu|n|s)'\w+|"
    r"\b(?:qu'|que|quoi|qui|quand|comment|combien|pourquoi|quel|quelle|quels|quelles|lequel|"
    r"what|which|who|when|where|why|how)\b"
)
#: Fragments name their subject from three such words on: "Horaires bibliothèque centrale samedi".
_FRAGMENT_WORDS = 2
#: Longer questions say what they are about; rules read their beginning, in bounded time.
_READ_CHARACTERS = 500
#: Of what was said before, so much is looked through for the nouns that a message takes up.
_SAID_CHARACTERS = 2_000
#: A pronoun or pointer is taken to be explained by two such words before it.
_NAMED_BEFORE = 2
_WORDS = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


@dataclass(frozen=True, slots=True)
class StandaloneQuestion:
    """`text` is what is embedded and searched; `is_follow_up` bars stored answers; `rule` says why.

    `question` is what was typed. A follow-up that the model rewrote (`chat.turn.standalone`) keeps its rule and
    is none any more.
    """

    text: str
    is_follow_up: bool
    rule: str = ""
    question: str = ""


#: Rules by which a message takes up what was said, and asks nothing by itself.
TAKEN_UP = frozenset(("assent", "choice", "reply"))


def standalone_question(question: str, previous_question: str, answer: str = "") -> StandaloneQuestion:
    """Join a follow-up to the question before it for search; leave any other question alone.

    `answer` is the answer to the previous question. Within a conversation a message counts as a follow-up unless it
    names its own subject.
    """
    rule = leaning_rule(question, previous_question, answer) if previous_question else ""
    if not rule:
        return StandaloneQuestion(text=question, is_follow_up=False, question=question)
    joined = f"{previous_question}\n{question}"
    return StandaloneQuestion(text=joined, is_follow_up=True, rule=rule, question=question)


def leaned_on(questions: Sequence[str]) -> str:
    """The context of a follow-up: the last question that stands alone and those after it, oldest first."""
    first = len(questions) - 1
    while first > 0 and leaning_rule(questions[first], questions[first - 1]):
        first -= 1
    return "\n".join(questions[first:])


def leaning_rule(question: str, previous: str, answer: str = "") -> str:
    """The rule by which a message of a conversation depends on the previous exchange, or an empty string."""
    read = question[:_READ_CHARACTERS].strip()
    folded = _folded(read)
    if _is_courteous(folded):
        return ""
    core = without_openers(folded)
    is_question = read.endswith("?")
    said = _folded(f"{previous[:_READ_CHARACTERS]} {answer[:_SAID_CHARACTERS]}")
    rest = _without_connectives(core)
    if rest != core and _asks_by_itself(rest, read, said) and not _ask_alike(previous, read):
        return ""
    if rule := reply_rule(folded, core, answer, is_question=is_question) or follow_up_rule(core):
        return rule
    topic, _body = _topic_and_body(core)
    if topic and not topic_is_part(topic):
        return ""
    return subject_rule(core, read, said)


def follow_up_rule(question: str) -> str:
    """The rule by which the question is incomplete in any context, or an empty string."""
    folded = _folded(question[:_READ_CHARACTERS])
    if _is_courteous(folded):
        return ""
    topic, body = _topic_and_body(folded)
    bare = " ".join(_IMPERSONAL.sub(" _ ", body).split())
    if _CONNECTIVE_HEAD.search(folded) or _CONNECTIVE_TAIL.search(folded):
        return "connective"
    if _is_elliptic(folded, bare, has_topic=bool(topic)):
        return "ellipsis"
    if not topic and _points_outside(bare):
        return "demonstrative"
    if not topic and _has_loose_pronoun(bare):
        return "pronoun"
    return "" if _specific_words(folded) else "generic"


def _without_connectives(core: str) -> str:
    """The message without its opening connectives (« et sinon », "and by the way"), which do not name a subject."""
    rest, cut = core, None
    while rest != cut:
        cut, rest = rest, without_openers(_GOING_ON.sub("", rest).lstrip(" ,"))
    return rest


def _asks_by_itself(rest: str, read: str, said: str) -> bool:
    """Whether the rest is a whole question with a subject that the conversation has not mentioned."""
    is_clause = _CLAUSE_HEAD.search(rest) and not rest.startswith(_ASKED_TIMES)
    asked = rest.partition(",")[2] if is_clause else rest
    if not _VERB.search(asked) or follow_up_rule(rest):
        return False
    # « Et pour les réunions, quel jour est prévu ? »: what is asked is not in the clause before the comma.
    return names_new_things(asked, read, said) and not subject_rule(rest, read, said)


def _ask_alike(previous: str, question: str) -> bool:
    """Whether both ask for one kind of thing: « Quels tarifs pour les mineurs ? », « Combien coûte la carte ? »."""
    one, other = read_pair(previous[:_READ_CHARACTERS], question)
    return one.kind is other.kind


def _folded(question: str) -> str:
    """Lower case, without accents, quotes and end marks. « à » and « où » stay apart from « a » and « ou »."""
    named = re.sub(r"\bIT\b", "informatics", question)
    text = re.sub(r"\boù\b", "quand", re.sub(r"\bà\b", "vers", named.lower()))
    text = re.sub(r"[\"«»()]", " ", fold_letters(text))
    return " ".join(text.split()).rstrip(" ?.!").lstrip(" -")


def _topic_and_body(folded: str) -> tuple[str, str]:
    """What a question names before its first colon or comma ("Le TAJ, c'est quoi ?"), and the question itself."""
    for mark in (" : ", ": ", ", "):
        head, found, rest = folded.partition(mark)
        if found and _specific_words(head) and not _CLAUSE_HEAD.search(head) and not _says(head):
            return head, rest
    return "", folded


def _is_courteous(folded: str) -> bool:
    words = set(_WORDS.findall(folded))
    return bool(words & _COURTESIES) and words <= _COURTEOUS


def _says(head: str) -> bool:
    """Whether the text before the comma is a clause ("Ils me demandent une pièce") rather than a topic."""
    return bool(_VERB.search(head))


def _is_elliptic(folded: str, bare: str, *, has_topic: bool) -> bool:
    if has_topic:
        return False
    if _ELLIPTIC_MEASURE.search(folded) or _NO_COMPLEMENT.search(bare):
        return True
    is_fragment = not _VERB.search(folded) and len(_specific_words(folded)) <= _FRAGMENT_WORDS
    return is_fragment and not is_part_of_another(folded)


def _points_outside(bare: str) -> bool:
    """Whether the question has a demonstrative and no earlier words that the demonstrative could refer to."""
    return any(len(_specific_words(bare[: found.start()])) < _NAMED_BEFORE for found in _DEMONSTRATIVE.finditer(bare))


def _has_loose_pronoun(bare: str) -> bool:
    """Whether the question has a pronoun without an antecedent in the question."""
    for found in _FRENCH_SUBJECT.finditer(bare):
        before = bare[: found.start()]
        if not _specific_words(before) and not _DEFINITE.search(before):
            return True
    if any(not _is_named_before(bare[: each.start()]) for each in _ENGLISH_PRONOUN.finditer(bare)):
        return True
    return any(len(_specific_words(bare[: found.start()])) < _NAMED_BEFORE for found in _OBJECT_PRONOUN.finditer(bare))


def _is_named_before(before: str) -> bool:
    """Whether an earlier clause names a possible antecedent of the pronoun."""
    ends = [each.start() for each in _CLAUSE_END.finditer(before)]
    named = before[: ends[-1]] if ends else ""
    return bool(_names_something(named) or _specific_words(named))


def _names_something(before: str) -> bool:
    return any(not _GENERIC.match(noun) for noun in _NOUN_PHRASE.findall(before))


def _specific_words(text: str) -> list[str]:
    """The words that belong to one subject rather than to any."""
    words = (piece for word in _WORDS.findall(text) for piece in _pieces(word))
    return [word for word in words if not is_generic(word)]


def _pieces(word: str) -> list[str]:
    """The parts of a hyphenated word, without single letters."""
    return [word] if "-" not in word else [p for p in word.split("-") if len(p) > 1]


def folded_words(text: str) -> list[str]:
    """The words of a text, without case, accents and punctuation, for comparing two texts."""
    return [piece for word in _WORDS.findall(_folded(text)) for piece in _pieces(word)]


def asking_part(text: str) -> str:
    """A message without the assents and thanks around what it asks."""
    return without_openers(_folded(text))


@lru_cache(maxsize=4096)
def is_generic(word: str) -> bool:
    """Whether a folded word fits any subject."""
    return bool(_GENERIC.match(word)) or word.isdigit()


_ASSENT = rf"(?:{one_of('assents')})"
_POLITE = rf"(?:{one_of('politeness')})"
_COURTESY = re.compile(rf"^(?:{_POLITE}(?:[\s,.!:;-]+|$))+")
_OPENERS = re.compile(rf"^(?:(?:{_POLITE}|{_ASSENT})(?:[\s,.!:;-]+|$))+")
#: "As well" is no assent.
_CLOSERS = re.compile(rf"(?:[\s,.!-]+(?<!\bas )(?:{_POLITE}|{_ASSENT}))+[\s.!]*$")
_PART = re.compile(rf"^(?:{one_of('parts')})$")
#: « est-elle », « peut-on », « y a-t-il »: of the verbs with a subject behind them, those that say nothing.
_INVERTED = re.compile(rf"^(?:{one_of('common_verbs')})-(?:t-)?(?:je|il|elle|on|nous|vous|ils|elles|ce)$")
_OF = frozenset(("de", "d'", "du", "des", "of"))
_COPULAS = word_class("copulas")
_CHOICES = word_class("choices")
_UNIQUE = word_class("unique")
_DEFINITE_HEADS = word_class("definite")
_INDEFINITE = word_class("indefinite")
_POSSESSIVE = word_class("possessive")
_DETERMINERS = _DEFINITE_HEADS | _INDEFINITE | _POSSESSIVE
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
_ASKS = re.compile(
    rf"\b(?:{one_of('asking')})\b|-(?:t-)?(?:je|il|elle|on|nous|vous|ils|elles)\b|"
    # As it is typed: « est il », « peut on ».
    r"\b(?:est|sont|sera|peut|peuvent|doit|doivent|faut|puis|avez|pouvez)(?: t)? (?:il|elle|on|ils|elles|je|vous)\b"
)
_CORRECTION = re.compile(rf"^(?:{one_of('corrections')})(?=[\s,]|$)")
_TOKENS = re.compile(r"[^\W_]+(?:-[^\W_]+)*'?")
#: Capitals that begin no sentence, and names in capitals; not "I".
_NAME = re.compile(r"(?<![.?!:]\s)(?<!^)\b(?!I\b)[A-ZÀ-Ý][\w’-]+|\b[A-Z]{2,}\w*")
_NO_NAME = word_class("no_names")
#: A reply has few words; a longer message tells something of its own.
_REPLY_WORDS = 10
#: From here on a message says enough to be understood by itself.
_MOST_SPECIFIC = 3
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


def names_new_things(core: str, raw: str, said: str) -> bool:
    """Whether the message has two content words that were not said before, or one and a name.

    Two are enough for a new question after « et » or "also".
    """
    given = _stems(said)
    new = {_stem(token) for token in _tokens(core) if _is_specific(token)} - given
    return len(new) >= 2 or (bool(new) and _has_name(raw))


def is_part_of_another(core: str) -> bool:
    """Whether the message says what its part belongs to: « Prix d'une carte de pêche », "canoe hire prices"."""
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
    return token in _CHOICES | _DEFINITE_HEADS | _INDEFINITE or token.isdigit() or len(token) == 1


def _has_name(raw: str) -> bool:
    """Whether the message holds a proper name; capitals show none where the whole message is in capitals."""
    if raw.isupper():
        return False
    return any(fold(name) not in _NO_NAME for name in _NAME.findall(raw))


def _is_comparison(core: str) -> bool:
    return bool(_COMPARISON.search(core) or _ONE.search(core))


def topic_is_part(topic: str) -> bool:
    """Whether the topic before the comma is a part of something unnamed: « Le tarif réduit, c'est pour qui ? »."""
    tokens = _tokens(topic)
    return len(tokens) > 1 and tokens[0] in _DEFINITE_HEADS and _is_part(tokens[1])


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
    heads = [at + 1 for at, token in enumerate(tokens[:-1]) if token in _DEFINITE_HEADS]
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
