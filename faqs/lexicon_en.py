"""English words of the second key: data only, and the light stemmer that makes them match.

Everything is folded (lower case, contractions expanded: "isn't" is "is not"). Groups of synonyms are kept narrow on
purpose: a missing synonym costs a direct answer, a wrong one serves a wrong answer.
"""

import re

from faqs.lexicon import Kind, LexiconData, Marker, words

_KEPT = words(
    """
    training housing building wedding evening morning clothing earring string bring during nothing something
    anything everything speed need indeed hundred less news always previous business this was has does united
    department apartment document his its us plus minus yes bus gas address access process
    """
)
_RULES = (
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


_SPELLINGS = (
    (re.compile(r"(?<=\w{3})is(?=(?:e|ed|es|ing|ation|ations|er|ers)$)"), "iz"),
    (re.compile(r"(?<=\w{2})ys(?=(?:e|ed|es|ing)$)"), "yz"),
    (re.compile(r"(?<=\w{3})our(?=(?:s|ed|ing|ite|ites|able|al|hood)?$)"), "or"),
    (re.compile(r"(?<=\w{2}[tb])re(?=s?$)"), "er"),
    (re.compile(r"(?<=\w{2})ogue(?=s?$)"), "og"),
    (re.compile(r"(?<=[aeiou])ll(?=(?:ed|ing|er|ers|ery)$)"), "l"),
)
_AMERICAN = {
    "programme": "program", "programmes": "programs", "licence": "license",
    "licences": "licenses", "defence": "defense", "grey": "gray", "tyre": "tire", "tyres": "tires", "aeroplane": "airplane",
    "jewellery": "jewelry", "mum": "mom", "maths": "math", "practise": "practice", "enrol": "enroll",
    "fulfil": "fulfill", "instalment": "installment", "instalments": "installments",
}  # fmt: skip
#: Words in which these letters are no British spelling.
_ALIKE_SPELLED = words(
    """
    exercise advise advised advises promise promised surprise otherwise likewise raise raised rise arise wise noise
    disease purchase praise cruise advertise advertised supervise revise revised televise comprise franchise precise
    concise expertise merchandise paradise enterprise premise premises bruise disguise excise devise franchised
    """
)


def _american(word: str) -> str:
    """One spelling for both sides of the ocean: « centre » and « center »."""
    if word in _AMERICAN:
        return _AMERICAN[word]
    if len(word) < 5 or word in _ALIKE_SPELLED:
        return word
    for pattern, replacement in _SPELLINGS:
        word = pattern.sub(replacement, word)
    return word


def stem(word: str) -> str:
    """The part of an English word that its plural, conjugation and noun of action share."""
    word = _american(word)
    if word in _KEPT or len(word) < 4 or not word.isalpha() or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ly") and len(word) > 5:
        word = word[:-3] + "y" if word.endswith("ily") else word[:-2]
    for suffix, replacement in _RULES:
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


_PREFACE = (
    r"(?:hello|hi|hey|good (?:morning|evening|afternoon)|there|dear team|sorry to (?:bother|trouble|disturb) you|sorry|excuse me|pardon me|"
    r"please|kindly|(?<=[,.;!?] )ta\b|thanks(?: in advance)?|thank you(?: in advance| so much| very much)?|so|well|um|uh|er|erm|ok|okay|"
    r"just wondering|(?:quick|silly|stupid|dumb|random) question|(?:morning|afternoon|evening)(?= ?[!,.])|a question|one question|question|but|and|cheers|by the way|any idea|asap|"
    r"just checking|just curious|out of curiosity)"
)
_TELLING = (
    r"(?:(?:(?:is there )?any chance )?(?:can|could|would|will) (?:you|someone|anyone|somebody)(?: please| kindly| possibly)? "
    r"(?:tell me|let me know|remind me|explain(?: to me)?)(?: please)?"
    r"|(?:(?:is there )?any chance )?(?:you|someone) could (?:tell me|let me know|remind me|explain(?: to me)?)"
    r"|would you mind (?:telling me|reminding me|explaining(?: to me)?)"
    r"|(?:please )?(?:tell me|let me know)|do you (?:happen to )?know|i (?:would like|want|need|would love) to know"
    r"|i was hoping you could tell me|i would be grateful if you could tell me)"
)
_UNTOLD = (
    r"(?:(?:nobody|no one) (?:has |ever |has ever )?(?:told me|explained(?: to me)?|informed me)|i (?:was|have) (?:not|never) (?:been )?told"
    r"|i (?:do not understand|have no idea|can not (?:find(?: out)?|work out|figure out)))(?= (?:how|what|where|when|who|why|which|if|whether)\b)"
)
_ASKING = (
    r"(?:(?:can|could|would|will) (?:you|someone|anyone|somebody)(?: please| kindly| possibly)? "
    r"(?:tell me|explain(?: to me)?|let me know|advise(?: me)?(?: on)?|remind me|clarify|help me (?:understand|find out))(?: please)?"
    r"|(?:please )?(?:tell me|let me know|explain)|(?:i )?(?:was |am |im )?(?:just )?wondering|i wonder"
    r"|do you (?:happen to )?know|i (?:would like|want|need|would love|am trying|wish) to (?:know|understand|find out|ask)"
    rf"|{_TELLING}|{_UNTOLD}"
    r"|(?:i )?do not know|i am not sure|(?:do )?you know)"
)
_I_CAN = (
    r"(?:can|do|could|should|would|must|may|shall|might) (?:i|we|you|one|someone|people|anyone)"
)
_HOWTO = rf"how (?:{_I_CAN}|to|does one|am i able to|is it possible to|i can|i|you|we can|would i go about|do i go about)"

_ANYONE = r"(?:i|we|you|they|he|she|it|one|someone|people|(?:(?:the|a|an|my|our|your|their|his|her) )?\w+)"
_AUXILIARY = r"(?:can|could|do|does|did|is|are|was|were|will|would|should|must|may|have|has|am)"

LEXICON_EN = LexiconData(
    language="en",
    stem=stem,
    signature=words(
        """
        the of and is are was were do does did what when where who why how which can could should would will my your
        his her their our this that these those i you he she it we they to for with from in at by if not have has
        there be an get much many long
        """
    ),
    abbreviations={
        "u": "you",
        "ur": "your",
        "dept": "department",
        "appt": "appointment",
        "appts": "appointments",
        "flats": "apartments",
        "apt": "apartment",
        "apts": "apartments",
        "dr": "doctor",
        "pls": "please",
        "plz": "please",
        "thx": "thanks",
        "acct": "account",
        "qty": "quantity",
        "wat": "what",
        "wen": "when",
        "wich": "which",
        "wher": "where",
        "whre": "where",
        "hwo": "how",
    },  # fmt: skip
    rewrites=(
        (rf"^(?:{_PREFACE}[ ,;:.!?]*)+\b", ""),
        (rf"^{_TELLING}[ ,:]*(?=(?:the|my|your|our) )", "what is "),
        (rf"^{_ASKING}[ ,:]*(?:if|whether)\b", "if"),
        (rf"^{_ASKING}[ ,:]*", ""),
        (rf"[,;:.] (?:so |and )?{_TELLING} (?=how|what|where|when|who|why|which)", ", "),
        (rf"^(?:{_PREFACE}[ ,;:.!?]*)+\b", ""),
        (rf"(?:[ ,;.!?]+{_PREFACE})+[ .!?]*$", " ?"),
        (r"\b(?:for|in|within|after) how (?=long|many|much)", "how "),
        (r"\b(?:please|um|uh|er|erm|kindly)\b", " "),
        (r"\b(?:am|are|is|was|were) unable to\b", "can not"),
        (r"\b2 ?fa\b|\b(?:two|2) factor authentication\b", "authentication_double"),
        (r"^((?:i|we|my) .*?)[ ,.;:]+why (?:is (?:that|this|it)|so)?[ ?]*$", r"why \1 ?"),
        (
            r"^by whom (?:is|are) (.+?) (\w{2,}(?:ed|en|wn|ught|aid|ilt|ade|old|ept)) ?\??$",
            r"who \2 \1 ?",
        ),
        (r"^by whom\b", "who by_whom"),
        (r"^(?:cost|price) (?:of|for|to) ", "how much is "),
        (r"^opening (?:hours|times) (?:of|for|at) ", "when open "),
        (
            r"\b((?:an?|the|my|our|your|his|her|their|this|rented|furnished|council|studio) (?:\w+ )?)flat"
            r"(?= (?:in|at|with|without|for|if|when|to|was|has|from|and|or|that|which|after|before|while|as|by|near)\b| ?[.,;:?!]| ?$)",
            r"\1apartment",
        ),
        (
            r"\b(?:at|from) what age (?:can|may|(?:are|is)(?= .*\b(?:allowed|permitted|able) to\b)) ((?:\w+ ){1,3}?)(?:(?:allowed|permitted|able) to )?",
            r"what age_required \1",
        ),
        (
            r"\bhow old (?:do|does|must|should) ((?:\w+ ){1,3}?)(?:have to |need to )?be to\b",
            r"what age_required \1",
        ),
        (
            r"\b(?:how come|what is the reason (?:for|why|that)|for what reason|what is the cause of|what causes|what makes|what is (?:making|causing))\b",
            "why ",
        ),
        (
            r"\b(?:what is|is there|are there) (?:the |a |an |any )?(?:best |right |correct |easy |easiest |quickest )?(?:way|process|procedure|method|steps?)s?(?: i can| for me)? (?:to|for|of)\b",
            "how to ",
        ),
        (
            r"\bwhat (?:are the |is the )?(?:steps?|procedures?|process)(?: do i (?:need|have) to (?:take|follow))?(?: to| for)?\b",
            "how to ",
        ),
        (
            r"\bi (?:would like|want|need|wish|am trying|would love) to\b(?=.*\bhow (?:do|can|should) i (?:do|go about) (?:that|it|this))",
            "how to ",
        ),
        (rf"\b{_HOWTO} (?:go about )?", "how "),
        (r"\bhow (?:do i|can i|should i|to) (?:go about )?", "how "),
        (r"\bwhat do i (?:need|have) to do to\b|\bwhat (?:should|must|can|do) i do to\b", "how "),
        (
            r"\bwhat (?:is|are) the (?:price|cost|rate|fare|fee|charge)s? (?:of|for|to)\b",
            "how much is ",
        ),
        (
            r"\bwhat do you charge (?:to|for)\b|\bhow much do you charge (?:to|for)\b|\bhow much (?:does|do|will|would) (?:it|that) cost (?:me )?to\b",
            "how much is ",
        ),
        (r"\bwhat (?:price|cost)\b", "how much"),
        (
            r"\bhow many (?:days|weeks|months|hours|minutes)\b|\bhow much time\b|\bwhat is the (?:duration|waiting time|processing time) (?:of|for)\b|\bhow soon\b|\bhow quickly\b|\bhow fast\b",
            "how long ",
        ),
        (
            r"\b(?:at |on |by |from )?what (?:time|day|date)s?\b|\bwhat is the (?:date|time) (?:of|for)\b|\bon which day\b",
            "when ",
        ),
        (
            r"\bby when\b|\bwhat is the deadline (?:for|to)\b|\bwhen is the deadline (?:for|to)\b",
            "when deadline ",
        ),
        (r"\bsince when\b|\bfrom when\b", "when since"),
        (
            r"\bwhat (?:are|is) (?:the |your )?(?:opening hours|opening times|hours)(?: of| for| at)?\b",
            "when open ",
        ),
        (
            r"\b(?:in |at )?what (?:place|location|address)\b|\bwhereabouts\b|\bwhat is the (?:address|location) of\b",
            "where ",
        ),
        (r"\bwhat (?:person|people)\b|\bwhich person\b", "who"),
        (
            r"\bis it (?:possible|allowed|permitted|okay|ok) (?:for me )?to\b|\bam i (?:able|allowed|permitted) to\b|\bmay i\b|\bare (?:we|you) allowed to\b|\bis there any chance i can\b",
            "can i ",
        ),
        (
            r"\b(?:do i (?:have|need) to|must i|am i (?:required|obliged) to|is it (?:mandatory|compulsory|required|necessary) to|have i got to)\b",
            "must i ",
        ),
        (
            r"\b(?:what is|what are) the (?:meaning|definition|definitions)s? of\b|\bwhat is meant by\b",
            "what is ",
        ),
        (r"\bwhat (?:do|does) (.+?) (?:mean|stand for)\b", r"what is \1"),
        (r"\bwhat is the (?:total )?(?:number|amount) of (?=\w+s\b)", "how many "),
        (
            r"\b(?:in the event of|in case of|in the event that|in case|if there is|should there be)\b",
            "if",
        ),
        (r"\bwhat (?:should|do|can|must|shall) (?:i|we|you|one) do\b", "what to do"),
        (
            r"\bwhat is the minimum age (?:to|for)\b|\bhow old (?:do|must|should) (?:you|i|one|we) (?:have to |need to )?be to\b|\bhow old do (?:you|i) (?:have|need) to be to\b",
            "what age_required ",
        ),
        (
            r"\b(every \w+|everyone|everybody|everything|everywhere|all|anything|anyone|nothing|nobody|none) but (?=\w)",
            r"\1 except ",
        ),
        (r"\bone of (?=(?:the|my|your|his|her|our|their|these|those)\b)", "one_of "),
        (r"\bat least\b", "minimum"),
        (r"\bat most\b", "maximum"),
        (
            r"\b(?:in fact|as a matter of fact|of course|at all|right now|at the moment|in general|in reality|for real)\b",
            " ",
        ),
        (
            r"\b(can|could|to|should|would|will|i|we|how) up (?=my|the|our|your|his|her|a)",
            r"\1 increase ",
        ),
        (r"\bno matter\b", "whatever"),
        (
            r"(?<!\bin )\b(?:just|simply|merely|purely) "
            r"(?=(?:the|an?|my|your|his|her|our|their|its|this|that|these|those|one|two|three|four|five|ten|\d+|for|in|on|at|by|with|from|when|if|during|once|because|me|us|them|him)\b)",
            "only ",
        ),
        (
            r"(?<=\w )(?<!\bi )(?<!\bwe )(?<!\bto )(?<!\bcan )(?<!\bcould )(?<!\bplease )(?<!\band )(?<!\bwould )(?<!\bhave )(?<!\bhas )(?<!\bhad )(?<!\bam )(?<!\bnot )"
            r"just (?!in case|about|as\b|like\b|before\b|after\b|wondering|checking|curious)",
            "only ",
        ),
        (r"\b(do|will|would) (i|we) just ", r"\1 \2 only "),
        (r"^where and when\b", "when and where"),
        (r"^(where|when) and how\b(?! (?:much|many|long|often))", r"how and \1"),
        # "Who do banks lend to" is not "who lends to banks".
        (r"\bwho (?:do|does|did) (?!(?:i|we|you|they|one)\b)", "who whom_ "),
        (r"\bdifferences? between\b", "difference of"),
        (r"\bwho (?:is|are) eligible for\b", "who can get"),
        (r"\bam i eligible for\b", "can i get"),
        (r"\bused? to be\b", "formerly"),
        (r"\be mails?\b|\bemail address\b", "email"),
        (r"\bonline\b|\bon the (?:internet|web)\b|\bover the internet\b", "online"),
        (r"\bwhy do you not\b|\bwhy not\b", "why not"),
    ),
    kinds=(
        (r"(?:(?:to|by|with|for|from) )?(?:who|whom|whose)\b", "who"),
        (r"(?:since |until |from |by )?when\b", "when"),
        (r"(?:from )?where\b", "where"),
        (r"why\b", "why"),
        (r"how long\b", "how_long"),
        (r"how often\b|how frequently\b|how many times\b", "how_often"),
        (r"how many\b", "how_many"),
        (r"how (?:much|expensive)\b", "how_much"),
        (r"how (?:old|far|big|large|tall|high|hot|late|early|heavy|fast)\b", "what"),
        (r"(?:how|what) about\b", "none"),
        (r"how\b|what (?:do|should|can|must) i do\b|what to do\b", "how"),
        (r"(?:(?:to|by|with|for|from|in|at|on|under) )?(?:what|which)\b", "what"),
        (
            r"(?:is|are|am|was|were|do|does|did|can|could|should|would|will|may|might|must|has|have|had|shall|if|whether)\b",
            "yes_no",
        ),
    ),
    loose_kinds=(
        (r"\bhow long\b", "how_long"),
        (r"\bhow often\b", "how_often"),
        (r"\bhow many\b", "how_many"),
        (r"\bhow much\b", "how_much"),
        (r"\b(?:how|what) (?:do|can|should|to)\b", "how"),
        (r"\bwhy\b", "why"),
        (r"\bhow\b", "how"),
        (r"\b(?:what|which)\b", "what"),
    ),
    asks_again=(
        r"\b(?:and|or|but|then) (?:(?:and|then|also|if so|if yes|especially|in that case) )*"
        r"(?=(?:(?:to|by|with|for|from|in|at|on|since|until|within|after) )?(?:who|whom|whose|when|where|why|how|what|which)\b"
        rf"|{_AUXILIARY} (?:i|we|you|they|he|she|it|there|one|the|my|our|your|their|this|that|a|an)\b)"
    ),
    leading_on=words("and or but then"),
    question_words={
        "how": frozenset(
            (Kind.HOW, Kind.HOW_MUCH, Kind.HOW_MANY, Kind.HOW_LONG, Kind.HOW_OFTEN, Kind.WHAT)
        ),
        "why": frozenset((Kind.WHY,)),
    },
    spans=(
        (
            rf"\bhow (?:long|much (?:more |longer )?time|many (?:more )?(?:days|weeks|months|years|hours|minutes)) "
            rf"(?:(?:do|does|did|will|would) {_ANYONE} (?:have|get)|have {_ANYONE} got|has {_ANYONE} got|is there|are there|left)(?: left)? (?:to|before|for)\b"
            r"(?! (?:\w+ )?(?:wait|keep|stay|pay|work|live|hold|store|retain|remain|be|own|serve|study|take|wear|rest|fast|isolate|quarantine|commit|sit|stand)\b)",
            "deadline",
        ),
        (
            r"\b(?:within|by|in) how (?:long|many (?:days|weeks|months|hours))\b[^,;.?!]*\b(?:must|should|(?:have|has|need|needs) to|can|may)\b",
            "deadline",
        ),
        (
            rf"\bhow (?:soon|quickly) (?:must|should|(?:do|does) {_ANYONE} (?:have|need) to)\b",
            "deadline",
        ),
        (
            r"\bhow (?:long|much time|many (?:days|weeks|months|years|hours|minutes))\b(?! (?:is|was|are) (?:\w+ ){0,3}(?:deadline|limit|window|period|allowed)\b)"
            r"(?=[^,;.?!]*\b(?:take|takes|took|last|lasts|lasted|long|be|run|needed|required)\b| (?:is|are|was|were)\b(?! (?:there|it (?:valid|ok)))|"
            rf" (?:do|does|must|should) {_ANYONE} (?:(?:have|need) to )?(?:wait|keep|stay|pay|work|live|hold|store|retain|remain|be|own|serve|study|wear|rest|isolate|quarantine)\b)",
            "duration",
        ),
        (
            r"\bwhat (?:is|was|will be) the (?:duration|length|processing time|waiting time)\b",
            "duration",
        ),
    ),
    modalities=(
        (
            r"\b(?:must|mandatory|compulsory|obligatory|required|obliged|obligated|bound to|forced to|supposed to|necessary|have to|need to|has to|needs to|"
            rf"(?:do|does|did|will|would) {_ANYONE} need)\b",
            "obligation",
        ),
        (r"\b(?:can|may|allowed|permitted|possible|could|able to|free to)\b", "permission"),
        (r"\b(?:should|ought|advisable|recommended|had better)\b", "advice"),
    ),
    imperfect=r"(?!)",
    future=r"\b(?:will|going to|shall)\b",
    acts=(
        (r"\b(?:i|we) (?!\w* ?if )\w+ (?:\w+ )?you\b", "me>you"),
        (r"\b(?:i|we) (?:\w+ ){1,3}(?:myself|ourselves)\b", "me>me"),
        (r"\byou (?:\w+ ){1,3}yourself\b", "you>you"),
        (
            r"\byou (?:please )?(?:(?:want|need|have|like|wish) to )?\w+ (?:\w+ )?(?:me|us)\b",
            "you>me",
        ),
        (r"\b(?:i|we) (?:\w+ )?\w+ (?:him|her|them)\b", "me>it"),
        (r"\b(?:he|she|they) (?:\w+ )?\w+ (?:me|us)\b", "it>me"),
    ),
    past=r"\b(?:was|were|did|had)\b",
    present=r"\b(?:(?:when|how|where|what) to|is|are|am|do|does|should|must|can|may)\b",
    ignored=words(
        """
        a an the this that these those there here it its i you we they me us them my your our their
        mine yours ours theirs one ones myself yourself is are am was were be been being do does did done doing has
        have had having can could should would will may might must shall ought and or but so if then than as of to
        for in on at by with from into onto about over under per via within through towards what which who whom whose
        when where why how much many long please get gets getting got go goes going make makes making made take takes
        taking took went gone want wants need needs would like able possible know way ways process procedure steps step really
        truly actually exactly currently usually normally generally basically simply just very quite also_filler
        literally honestly indeed someone somebody anyone any some im ive ill thing things stuff kind sort
        let lets um uh er hello hi thanks thank up set way's whether else required obliged
        """
    ),
    negations=words("not no never without none cannot neither nor nobody nothing nowhere non"),
    negation_openers=frozenset(),
    concordant=frozenset(),
    has_inversion=False,
    subjects=words("i we"),
    objects=words("me us"),
    addressees=words("you"),
    mine=words("my our"),
    yours=words("your"),
    theirs=words("its"),
    others=words("their"),
    third_person=r"(?!)",
    determiners=words("a an the this that these those my your our their its any some"),
    markers={
        Marker.FROM: "from",
        Marker.OF: "of",
        Marker.TO: "to into onto towards",
        Marker.FOR: "for",
        Marker.BY: "by",
        Marker.WITH: "with",
        Marker.PLACE: "in on at near via within under over through during about",
        Marker.CLAUSE: "if when while because that and or but than as who which where whether",
    },
    relations={
        "from": "from",
        "of": "of",
        "to": "to into onto towards",
        "for": "for",
        "by": "by",
        "with": "with",
        "in": "in on at",
        "near": "near",
        "through": "via through",
        "under": "under",
        "over": "over",
        "within": "within",
        "during": "during",
        "about": "about",
        "per": "per",
        "and": "and",
        "but": "but",
        "if": "if",
        "when": "when while",
        "because": "because",
    },
    alike="""
        none and
        none but
        none if when
        none because
        none per
        during when
        none of for
        none in
        none by
        none to
        none about
        of in about
        in within
        in during
        in by with
        by through
    """,
    alike_before_numbers="""
        none of in for
        in within
    """,
    bounds="""
        over | over | above | more than | greater than | higher than | older than | longer than | exceeding | exceeds | exceed | beyond | in excess of | upwards of | sign_over
        under | under | below | less than | fewer than | lower than | smaller than | younger than | shorter than | sign_under
        min | from | starting at | starting from | sign_min
        max | up to | until | not exceeding | sign_max
        about | about | around | approximately | roughly | nearly | almost
        exact | exactly | precisely
    """,
    bounds_after="""
        min | sign_more | or more | or over | or above | or older | and over | and above | and older | and up | and more
        max | or less | or fewer | or under | or below | or younger | and under | and below | and younger | and less
    """,
    governing=words("touch"),
    before_auxiliary=frozenset(),
    after_auxiliary=frozenset(),
    sequence=r"\b(?:then|afterwards)\b",
    joining=words("and"),
    choosing=words("or"),
    directional=words(
        "transfer move flight train ticket travel convert migrate send upgrade downgrade"
    ),
    synonyms="""
        buy | bought | purchase | purchased | buying
        sell | sold | sale
        send | sent | post | mail it
        pay | paid | payment | payments | pays
        lose | lost | losing | loss
        find | found | locate
        reset
        change | update | amend | modify | edit | switch | alter
        install | set up | setup | configure | configuration | fit
        cancel | cancellation | cancelled
        delete | erase
        remove | get rid
        child | children | kid | kids | childrens
        baby | babies | infant
        parcel | package
        deliver | delivery | deliveries | shipping | ship
        price | cost | costs | charge
        fee | fees
        refund | refunded | get money back | money back
        return | returns
        register | registration | registered | sign up
        subscribe | subscription | subscriptions
        begin | start | commence
        end | finish
        close | closed | closing | shut
        open | opened | opening
        enable | turn on | switch on | activate | activation
        disable | turn off | switch off | deactivate
        log in | login | sign in | log into | sign into | logging in
        log out | logout | sign out
        password | passcode
        mobile | phone | smartphone | cellphone | telephone | cell phone
        photo | photograph | picture | pictures
        car | vehicle
        doctor | gp | physician
        house | home
        apartment | apartments
        driving_licence | driving license | driver license | drivers license
        number_plate | number plate | license plate
        car_park | car park | parking lot
        cash_machine | cash machine | cashpoint | atm
        postcode | zip code
        launderette | laundromat
        takeaway | takeout
        nappy | nappies | diaper | diapers
        pharmacy | pharmacies | drugstore
        university | uni | universities
        dpia | data protection impact assessment
        holiday | vacation
        quote | quotation
        broken | break | broke
        mute | silence
        dispute | challenge | contest
        apply | application | applications
        renew | renewal
        contact | get in touch | reach
        fix | repair
        wheelchair | wheelchairs
        pregnant | pregnancy
        email
        invoice | invoices
        document | documents | paperwork
        landlord
        tenant | renter
        rent
        hire
        boss | manager
        error
        internet | broadband
        bin | rubbish bin | trash can | garbage can
        rubbish | trash | garbage
        covid | covid19 | coronavirus
        symptom | symptoms
        side_effects | side effect
        allow | permit | allowed | permitted
        ban | prohibit | forbidden | banned | prohibited
        all | every | each | everyone | everything
        only | solely | exclusively | merely | purely
        first | 1st
        last | final
        more
        less | fewer
        minimum | minimal | min
        maximum | maximal | max
        before | prior
        until | till
        after | following
        adult | adults | grown up
        increase | raise
        decrease | reduce | lower
        include | included | includes
        exclude | excluded | excludes
        download
        upload
        export
        import
        author | write | wrote | written | writer
        annual | yearly | annually
        month | monthly
        week | weekly
        day | daily
        year | years
        choose | choice | pick
        arrive | arrival
        depart | departure | leave | left
        receive | received | receipt of
        give | gave | given
        tell | told
        eat | ate | eaten
        drink | drank
        drive | drove | driven
        fly | flew | flown
        wear | worn
        hurt
        grow | grown
        couch | sofa
        purse | handbag
        luggage | baggage | suitcase
        cabin | hand
        swimming_pool | pool | swimming pool
        store | shop
        job
        fast | quick | quickly
        big | large
        happy | glad
        sick | ill
        smart | intelligent | clever
        brave | courageous
        thankful | grateful
        humble | modest
        secular
        he | him | his
        she | her | hers
        religious
        request | ask for | asking for
        obtain | receive | received | receipt of | acquire
        make_appointment | book appointment | make appointment | schedule appointment
        terminate | end
        upset | angry
        safe | safely | safety
        quick | fast | rapid | speedy
        vpn | virtual private network
        hr | human resources
        it_dept | it department
        gdpr | general data protection regulation
        vat | value added tax
        id | identification | identity card | id card
        pc | computer | computers
        laptop | laptops | notebook
        tv | television
        app | application_software | apps
        info | information
        ad | advertisement | advert | ads
        exam | examination | exams
        maths | mathematics
        lab | laboratory
        gym | gymnasium | fitness centre
        fridge | refrigerator
        flu | influenza
        movie | film | movies
        salary | wage | wages | pay cheque | paycheck
        payslip | pay slip | pay stub
        payday | pay day
        company | firm | business_firm
        complaint | complain | complaints
        freeze | freezing | frozen
        boil | boiled | boiling
        cook | cooked | cooking
        die | death | died | dead
        born | birth
        marry | married | marriage
        grow | growth | grown
        know | knowledge
        sleep | slept | sleeping
        speak | spoke | spoken | talk
        teach | taught
        learn | learnt | learning | study
        build | built
        keep | kept | retain | store_data
        hold | held
        bring | brought
        think | thought
        feel | felt
        meet | met | meeting
        see | saw | seen | view
        steal | stole | stolen
        wake | woke
        win | won
        begin | began | begun
        run | ran
        swim | swam
        ring | rang
        choose | chose | chosen
        forget | forgot | forgotten
        hide | hidden | hid
        bite | bitten
        lend | lent
        spend | spent
        stop | quit
        help | assist | assistance
        enough | sufficient
        need_be | necessary
        improve | better_v | enhance
        decide | decision
        prove | proof
        erase | clear
        verify | check
        create | creation
        complete | fill in | fill out | fill
        submit | file | hand in | filing
        postpone | defer | put off
        entitled | eligible | qualify | eligibility | entitlement
        reserve | reservation | reservations
        take_part | take part | participate
        deadline | due date | closing date
        colleague | coworker | coworkers
        timetable | schedule
        wifi | wireless internet | wireless
        headquarters | head office | hq
        debit_card | debit card | bank card
        lunch | midday meal
        ticket | tickets
        throw_away | throw away | dispose of | discard
        look_after | look after | take care of | care for
        rid
        earn | make money
        woman | women
        man | men
        person | people
        foot | feet
        tooth | teeth
        mouse | mice
        life | lives
        knife | knives
        wife | wives
        country | countries
        city | cities | town | towns
        street | road
        film
        autumn | fall
        petrol | gasoline
        lift | elevator
        queue
        trousers | pants
        lawyer | attorney | solicitor
        police | cops
        student | students | pupil
        teacher | teachers
        abroad | overseas | foreign country
        near | close to | nearby
        """,
    antonyms="""
        buy | sell
        open | close
        enable | disable
        before | after
        more | less
        minimum | maximum
        first | last
        allow | ban
        include | exclude
        increase | decrease
        arrive | depart
        log in | log out
        upload | download
        import | export
        adult | child
        begin | end
        best | worst
        send | receive
        give | receive
        accept | refuse
        accept | reject
        add | remove
        on | off
        in | out
        win | lose
        lose | find
        compulsory | optional
        mandatory | optional
        safe | dangerous
        safe | unsafe
        public | private
        employee | employer
        landlord | tenant
        lock | unlock
        block | unblock
        install | uninstall
        subscribe | unsubscribe
        single | joint
        single | return
        hot | cold
        cheap | expensive
        cheapest | expensive
        early | late
        inside | outside
        internal | external
        borrow | lend
        hire | fire
        male | female
        man | woman
        positive | negative
        good | bad
        new | old
        day | night
        weekday | weekend
        domestic | international
        follow | unfollow
        gain | lose
        upgrade | downgrade
        approve | reject
        deposit | withdraw
        push | pull
        left | right
        legal | illegal
        connect | disconnect
        """,
    not_slips=words(
        "cold three quiet wold thing tings abut aboard wile thee thorough though tough goes does their honesty noting tank tanks trough bing ting"
    ),
    linking=words("the a an of my your our it some any"),
    weak=words("obtain available offer cause"),
    negative_prefixes=("un", "in", "im", "il", "ir", "dis", "de", "non", "mis", "anti"),
    answers_in_kind={
        Kind.HOW_MUCH: words("price be"),
        Kind.HOW_LONG: words("time day days take"),
        Kind.WHEN: words("time date day moment"),
        Kind.WHERE: words("place location find located"),
        Kind.WHO: words("person people"),
    },
    scope=words(
        "all only first last more less minimum maximum adult child also too even still already again twice both most least "
        "off out down before after other another one_of"
    ),
    temporal=words(
        "january february march april june july august september october november december monday tuesday wednesday "
        "thursday friday saturday sunday tomorrow yesterday today tonight morning evening night afternoon summer "
        "winter spring autumn weekend"
    ),
    lookalikes=words(
        "prescription proscription conversion conversation adoption adaption perception reception deception "
        "statutory statuary military maternity paternity prenatal postnatal interstate intrastate inclusive "
        "exclusive import export employer employee deposit deport insure ensure principal principle complement "
        "angel angle trial trail diary dairy quiet quite casual causal united untied martial marital desert dessert "
        "diner dinner later latter moral morale human humane county country flight fight friend fiend planet plane "
        "breath breathe loose lose statute statue stature heroin heroine carton cartoon coral corral patent patient "
        "patents patients coma comma super supper debit debt mission omission emission admission billing biling "
        "compliment stationary stationery personal personnel economic economical descent decent"
    ),
)
