"""A tidy question typed in other ways: capitals, bare, faults, polite, story, SMS, oral. Pure; drawn by lot from a
fixed seed.

What is said in any of them is the same question, so the same passage is right for all.
"""

import random
import re
from collections.abc import Callable

from knowledge.language.words import fold, language_of

_APOSTROPHES = re.compile(r"['’]")
_LETTERS = re.compile(r"[^\W\d_]{5,}")
_SMALL_FIRST = re.compile(r"^(?:[A-ZÀ-Ý][a-zà-ÿ'’]|À |A )")
#: What stands before a question and after it, by language.
_GREETINGS = {
    "fr": ("Bonjour, ", "Bonsoir, ", "Bonjour Madame, Monsieur, ", "Hello, "),
    "en": ("Hello, ", "Hi there, ", "Good morning, ", "Hi, "),
}
_THANKS = {
    "fr": (" Merci d'avance.", " Merci beaucoup !", " Merci d'avance pour votre réponse.", " Merci."),
    "en": (" Thanks in advance.", " Thank you very much!", " Many thanks.", " Thanks."),
}
_STORIES = {
    "fr": (
        "Je viens d'emménager avec mon compagnon et nous sommes un peu perdus dans nos papiers. ",
        "Ma sœur m'a parlé de votre site hier soir au téléphone. ",
        "Cela fait trois semaines que je cherche sans rien trouver de clair. ",
        "J'ai reçu un courrier la semaine dernière et je ne sais pas quoi en faire. ",
        "Mon employeur m'a dit de m'adresser directement à vous. ",
    ),
    "en": (
        "We have just moved in with my partner and we are a bit lost in our papers. ",
        "My sister told me about your site on the phone last night. ",
        "I have been looking for three weeks without finding anything clear. ",
    ),
}
_SMS = {
    "pourquoi": "pk", "quoi": "koi", "que": "ke", "qui": "ki", "est-ce que": "esk", "c'est": "c", "j'ai": "g",
    "dans": "ds", "pour": "pr", "toujours": "tjs", "quand": "qd", "beaucoup": "bcp", "avec": "avc", "vous": "vs",
    "nous": "ns", "tout": "tt", "quel": "kel", "quelle": "kel", "quels": "kels", "quelles": "kels", "qu'": "k ",
    "please": "plz", "you": "u", "are": "r",
}  # fmt: skip
_ORAL_HEADS = {
    "fr": ("Euh dites, ", "Ben en fait, ", "Alors voilà, ", "Dites-moi, ", "Bah je voulais savoir, "),
    "en": ("Um, ", "Well, actually, ", "So basically, ", "Hey, ", "Uh, right, "),
}
_ORAL_TAILS = {"fr": ", s'il vous plaît ?", "en": ", please?"}
_ORAL = (
    (re.compile(r"\bje ne\b", re.I), "je"),
    (re.compile(r"\bil y a\b", re.I), "y a"),
    (re.compile(r"\bnous\b", re.I), "on"),
    (re.compile(r"\bcela\b", re.I), "ça"),
)


def in_capitals(question: str, _lot: random.Random) -> str:
    return question.upper()


def bare(question: str, _lot: random.Random) -> str:
    """No accents, no apostrophes, no capital, no mark at the end."""
    return fold(_APOSTROPHES.sub("", question)).rstrip(" ?!.")


def with_faults(question: str, lot: random.Random) -> str:
    """A slip of the finger in every third longer word, at least in one."""
    found = list(_LETTERS.finditer(question))
    chosen = lot.sample(found, max(1, len(found) // 3)) if found else []
    for word in sorted(chosen, key=lambda each: -each.start()):
        question = question[: word.start()] + _slip(word.group(), lot) + question[word.end() :]
    return question


def _slip(word: str, lot: random.Random) -> str:
    at = lot.randrange(1, len(word) - 1)
    kind = lot.choice(("swapped", "doubled", "dropped", "other"))
    if kind == "swapped":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == "doubled":
        return word[:at] + word[at] + word[at:]
    if kind == "dropped":
        return word[:at] + word[at + 1 :]
    return word[:at] + lot.choice("aeinrst") + word[at + 1 :]


def polite(question: str, lot: random.Random) -> str:
    return (
        lot.choice(_GREETINGS[_language(question)]) + _small_first(question) + lot.choice(_THANKS[_language(question)])
    )


def with_story(question: str, lot: random.Random) -> str:
    return lot.choice(_STORIES[_language(question)]) + question


def as_sms(question: str, _lot: random.Random) -> str:
    text = question.lower()
    for written, short in sorted(_SMS.items(), key=lambda each: -len(each[0])):
        end = "" if written.endswith("'") else r"\b"
        text = re.sub(rf"\b{written}{end}", short, text.replace("’", "'"))
    return fold(_APOSTROPHES.sub("", text)).rstrip(" ?!.")


def as_spoken(question: str, lot: random.Random) -> str:
    for written, said in _ORAL:
        question = written.sub(said, question)
    code = _language(question)
    return lot.choice(_ORAL_HEADS[code]) + _small_first(question).rstrip(" ?") + _ORAL_TAILS[code]


def _language(question: str) -> str:
    return language_of(question) or "fr"


def _small_first(question: str) -> str:
    return question[0].lower() + question[1:] if _SMALL_FIRST.match(question) else question


WAYS: dict[str, Callable[[str, random.Random], str]] = {
    "clean": lambda question, _lot: question,
    "CAPITALS": in_capitals,
    "bare": bare,
    "faults": with_faults,
    "polite": polite,
    "story": with_story,
    "SMS": as_sms,
    "oral": as_spoken,
}


def typed(question: str, way: str) -> str:
    """The question typed that way; the same each time."""
    return WAYS[way](question, random.Random(f"{way}:{question}"))  # noqa: S311 - a sample
