"""Light stemmers of French and English."""

import re


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


fr_SUFFIXES = tuple(
    sorted(
        """
        issements issement issaient issait issant issons issez issent
        fications fication ations ation ements ement
        eraient erait erais erions eriez erons eront erez eras erai era
        iraient irait irais irons iront irez iras irai ira
        aient ait ais ions iez ons ez ent er ir dre tre vre uire crire ees ee es e s x is it ies ie i
        """.split(),
        key=len,
        reverse=True,
    )
)
fr_KEPT = words(
    """
    plus moins sans pas fin avis pays mois fils prix temps cours corps tiers taux choix voix proces acces
    preter prete pretent preteur emprunter emprunte empruntent emprunteur
    succes deces permis depuis apres tres avant vers sous hors alors pendant enfant autre autres
    """
)
#: « vendre », « vendez »; « enregistre », « enregistrer »: what is left before « re » is the stem.
fr_INFINITIVES = frozenset(("dre", "tre", "vre", "uire", "crire"))
fr_KEPT_STEMS = words("montr")
fr_ENDINGS = (
    ("eaux", "eau"),
    ("trices", "teur"),
    ("trice", "teur"),
    ("euses", "eur"),
    ("euse", "eur"),
)


def frstem(word: str) -> str:
    """The part of a French word that its plural, feminine, conjugation and noun of action share."""
    if word in fr_KEPT or len(word) < 4 or not word.isalpha():
        return word
    for ending, replacement in fr_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + replacement
    if word.endswith("aux") and len(word) > 5:
        return word[:-3] + "al"
    if word.endswith("s") and len(word) > 4 and not word.endswith(("is", "us", "ss", "ons", "eas")):
        word = word[:-1]
    for suffix in fr_SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            word = word[: -len(suffix)]
            if suffix.startswith("fic"):
                word += "fi"
            elif suffix in fr_INFINITIVES:
                word += suffix[:-2]
            break
    if len(word) > 4 and word[-1] == "r" and word[-2] in "tdv" and word not in fr_KEPT_STEMS:
        word = word[:-1]
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    # « modifi(er) », « resili(er) » and « modifi(cation) » meet on the same letter.
    return word[:-1] if len(word) > 5 and word[-1] == "i" else word


en_KEPT = words(
    """
    training housing building wedding evening morning clothing earring string bring during nothing something
    anything everything speed need indeed hundred less news always previous business this was has does united
    department apartment document his its us plus minus yes bus gas address access process
    """
)
en_RULES = (
    ("ications", "ify"),
    ("ication", "ify"),
    ("ations", ""),
    ("ation", ""),
    ("ements", "e"),
    ("ement", "e"),
    ("ments", ""),
    ("ment", ""),
    ("ating", ""),
    ("ated", ""),
    ("ates", ""),
    ("ate", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("ings", ""),
    ("ing", ""),
    ("ed", ""),
    ("wal", "w"),
    ("vals", "v"),
    ("val", "v"),
    ("es", ""),
    ("s", ""),
    ("e", ""),
)


en_SPELLINGS = (
    (re.compile(r"(?<=\w{3})is(?=(?:e|ed|es|ing|ation|ations|er|ers)$)"), "iz"),
    (re.compile(r"(?<=\w{2})ys(?=(?:e|ed|es|ing)$)"), "yz"),
    (re.compile(r"(?<=\w{3})our(?=(?:s|ed|ing|ite|ites|able|al|hood)?$)"), "or"),
    (re.compile(r"(?<=\w{2}[tb])re(?=s?$)"), "er"),
    (re.compile(r"(?<=\w{2})ogue(?=s?$)"), "og"),
    (re.compile(r"(?<=[aeiou])ll(?=(?:ed|ing|er|ers|ery)$)"), "l"),
)
en_AMERICAN = {
    "programme": "program", "programmes": "programs", "licence": "license",
    "licences": "licenses", "defence": "defense", "grey": "gray", "tyre": "tire", "tyres": "tires", "aeroplane": "airplane",
    "jewellery": "jewelry", "mum": "mom", "maths": "math", "practise": "practice", "enrol": "enroll",
    "fulfil": "fulfill", "instalment": "installment", "instalments": "installments",
}  # fmt: skip
#: Words in which these letters are no British spelling.
en_ALIKE_SPELLED = words(
    """
    exercise advise advised advises promise promised surprise otherwise likewise raise raised rise arise wise noise
    disease purchase praise cruise advertise advertised supervise revise revised televise comprise franchise precise
    concise expertise merchandise paradise enterprise premise premises bruise disguise excise devise franchised
    """
)


def en_american(word: str) -> str:
    """One spelling for both sides of the ocean: « centre » and « center »."""
    if word in en_AMERICAN:
        return en_AMERICAN[word]
    if len(word) < 5 or word in en_ALIKE_SPELLED:
        return word
    for pattern, replacement in en_SPELLINGS:
        word = pattern.sub(replacement, word)
    return word


def enstem(word: str) -> str:
    """The part of an English word that its plural, conjugation and noun of action share."""
    word = en_american(word)
    if word in en_KEPT or len(word) < 4 or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ly") and len(word) > 5:
        word = word[:-3] + "y" if word.endswith("ily") else word[:-2]
    for suffix, replacement in en_RULES:
        if word.endswith(suffix) and len(word) - len(suffix) >= (
            3 if suffix in ("s", "e", "es", "ed", "ing") else 4
        ):
            word = word[: -len(suffix)] + replacement
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


STEMMERS = {"fr": frstem, "en": enstem}
