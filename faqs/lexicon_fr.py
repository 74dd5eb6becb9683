"""French words of the second key: data only, and the light stemmer that makes them match.

Everything is folded (lower case, no accents, elisions expanded: « l'impôt » is « l impot »). Groups of synonyms are
kept narrow on purpose: a missing synonym costs a direct answer, a wrong one serves a wrong answer.
"""

from faqs.lexicon import Kind, LexiconData, Marker, words

_SUFFIXES = tuple(
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
_KEPT = words(
    """
    plus moins sans pas fin avis pays mois fils prix temps cours corps tiers taux choix voix proces acces
    preter prete pretent preteur emprunter emprunte empruntent emprunteur
    succes deces permis depuis apres tres avant vers sous hors alors pendant enfant autre autres
    """
)
#: « vendre », « vendez »; « enregistre », « enregistrer »: what is left before « re » is the stem.
_INFINITIVES = frozenset(("dre", "tre", "vre", "uire", "crire"))
_KEPT_STEMS = words("montr")
_ENDINGS = (
    ("eaux", "eau"),
    ("trices", "teur"),
    ("trice", "teur"),
    ("euses", "eur"),
    ("euse", "eur"),
)


def stem(word: str) -> str:
    """The part of a French word that its plural, feminine, conjugation and noun of action share."""
    if word in _KEPT or len(word) < 4 or not word.isalpha():
        return word
    for ending, replacement in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + replacement
    if word.endswith("aux") and len(word) > 5:
        return word[:-3] + "al"
    if word.endswith("s") and len(word) > 4 and not word.endswith(("is", "us", "ss", "ons", "eas")):
        word = word[:-1]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            word = word[: -len(suffix)]
            if suffix.startswith("fic"):
                word += "fi"
            elif suffix in _INFINITIVES:
                word += suffix[:-2]
            break
    if len(word) > 4 and word[-1] == "r" and word[-2] in "tdv" and word not in _KEPT_STEMS:
        word = word[:-1]
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    # « modifi(er) », « resili(er) » and « modifi(cation) » meet on the same letter.
    return word[:-1] if len(word) > 5 and word[-1] == "i" else word


_GREETED = r"(?: (?:a tous|a toutes|tout le monde|l equipe|a l equipe|madame|monsieur|messieurs|docteur|le support|le service))*"
_PREFACE = (
    rf"(?:(?:re ?)?(?:bonjour|bonsoir|salut|hello|hey|coucou|bjr|bsr|slt|cc){_GREETED}|madame|monsieur|chers? collegues?|"
    r"excusez moi(?: de vous deranger)?|desolee?(?: de vous deranger| pour le derangement)?|pardon|alors|euh|ok|donc|bon|et|voila|"
    r"s il (?:vous|te) plait|svp|stp|(?:un grand )?merci(?: (?:d avance|par avance|beaucoup|bien|a vous|infiniment))*(?: (?:pour|de) (?:votre|vos|ton) \w+)?|"
    r"(?:petite |une |j ai une |j aurais une |une petite |j ai une petite )?question(?: simple| bete| rapide)?|"
    r"dites moi|dis moi|dites|en fait|au fait|je me permets de vous (?:demander|contacter|ecrire)|c est pour savoir|"
    r"je (?:vous|te) (?:ecris|contacte) (?:pour|car|afin de) (?:savoir)?)"
)
_CLOSING = (
    rf"(?:{_PREFACE}|a votre avis|au juste|exactement|(?:bien )?cordialement|bien a vous|cdlt|bonne (?:journee|soiree|reception)|"
    r"bonne fin de (?:journee|semaine)|dans l attente de votre (?:reponse|retour)|a bientot|sinceres salutations)"
)
_TELLING = (
    r"(?:dire|expliquer|indiquer|preciser|renseigner(?: sur)?|informer(?: sur| de)?|rappeler|confirmer|communiquer|"
    r"eclairer sur|faire savoir|aider a (?:savoir|comprendre|trouver))"
)
_WISHING = (
    r"(?:voudrais|voudrait|aimerais|souhaite|souhaiterais|souhaitais|voulais|veux|desire|desirerais|cherche a|cherche|"
    r"tiens a|ai besoin de|aurais besoin de|besoin de|aurais (?:voulu|aime|souhaite)|aurai voulu|essaie de|essaye de)"
)
_ASKING = (
    r"(?:(?:est ce que |serait il possible (?:de|que) )?(?:vous |tu |quelqu un )?(?:pouvez|pourriez|pourrais|pourrait|peux|peut|saurais|"
    r"sauriez|saurait|voulez|voudriez|auriez)(?: vous| tu| t on)? (?:bien )?(?:vouloir )?(?:l (?:amabilite|obligeance) de |la gentillesse de )?"
    rf"(?:me |m |nous )?{_TELLING}"
    rf"|(?:je |j )?{_WISHING}(?: bien)? (?:savoir|connaitre|comprendre|demander|avoir des (?:informations|precisions|infos|renseignements) sur)"
    r"|(?:je )?me (?:demande|demandais)|(?:je )?(?:ne )?sais (?:pas|plus)|(?:est ce que )?(?:vous savez|savez vous|tu sais|sais tu|sauriez vous|saurais tu|quelqu un sait)"
    rf"|(?:(?:un grand )?merci )?de (?:bien vouloir )?(?:me |m |nous ){_TELLING}|(?:je (?:vous|te) (?:prie|remercie|serais reconnaissante?) de |priere de |veuillez )(?:bien )?(?:vouloir )?(?:me |m |nous ){_TELLING}"
    r"|(?:indiquez|expliquez|precisez|indique|explique|rappelez|rappelle|renseignez) moi|(?:avez vous|auriez vous|vous avez|as tu) une idee(?: de)?)"
)
_UNTOLD = (
    r"(?:on (?:ne )?m a (?:pas|jamais|rien) (?:dit|explique|precise|indique)|personne (?:ne )?m a (?:jamais )?(?:dit|explique|precise|indique)"
    r"|je ne (?:comprends|trouve|vois) pas)(?= (?:comment|combien|quand|ou_|pourquoi|qui|quel|quelle|quels|quelles|si)\b)"
)
#: « contraint de », « astreint à »: before a verb all of them say « doit ».
_BOUND = r"(?:obligee?|tenue?|contrainte?|astreinte?|forcee?)s?"
_ASKER = r"(?:je|j|on|nous)"
_HAVE = r"(?:ai|a|as|avons|avez|ont|aurai|aura|aurons|auront)"
_ANYONE = r"(?:je|tu|on|nous|vous|ils?|elles?)"
_HOW_LONG = r"\b(?:combien (?:de |d )(?:temps|jours?|semaines?|mois|annees?|heures?|minutes?)|quels? delais?)\b"
_NOUN_AHEAD = r"(?=(?:le|la|les|l|mon|ma|mes|vos|votre|nos|notre) )"

LEXICON_FR = LexiconData(
    language="fr",
    stem=stem,
    signature=words(
        """
        le la les des du un une est sont ce que qui quoi quel quelle quels quelles comment quand combien ou pourquoi
        je tu il elle nous vous ils elles mon ma mes ton ta son sa ses votre vos notre nos leur pour avec sans dans
        sur par faut peut puis dois doit peux avoir etre faire pas ne au aux et mais si chez
        """
    ),
    abbreviations={
        "qd": "quand",
        "kel": "quel",
        "kels": "quels",
        "kelle": "quelle",
        "kelles": "quelles",
        "koi": "quoi",
        "ki": "qui",
        "cest": "c est",
        "jai": "j ai",
        "jpeux": "je peux",
        "jdois": "je dois",
        "keske": "qu est ce que",
        "appart": "appartement",
        "apparts": "appartements",
        "resto": "restaurant",
        "restos": "restaurants",
        "frigo": "refrigerateur",
        "cine": "cinema",
        "ophtalmo": "ophtalmologue",
        "ophtalmologiste": "ophtalmologue",
        "kine": "kinesitherapeute",
        "dispo": "disponible",
        "perso": "personnel",
        "persos": "personnels",
        "pro": "professionnel",
        "pros": "professionnels",
        "asso": "association",
        "assos": "associations",
        "labo": "laboratoire",
        "profs": "professeurs",
    },  # fmt: skip
    rewrites=(
        (rf"^(?:{_PREFACE}\b[ ,;:.!?]*)+", ""),
        (rf"(?:[ ,;.!?]+{_CLOSING})+[ .!?]*$", " ?"),
        (rf"^{_ASKING}[ ,:]*{_NOUN_AHEAD}", "quel est "),
        (rf"^{_UNTOLD} (.*?)\bje pouvais\b", r"\1je peux"),
        (rf"^{_UNTOLD} ", ""),
        (rf"^{_ASKING}\b[ ,:]*", ""),
        (
            rf"[,;:.] (?:et |donc |alors )?{_ASKING} (?=comment|combien|quand|ou_|pourquoi|qui|quel)",
            ", ",
        ),
        (rf"^(?:{_PREFACE}\b[ ,;:.!?]*)+", ""),
        (r"\b(?:svp|stp|s il vous plait|s il te plait|euh|hein)\b", " "),
        (r"\b(?:coment|commen|komment|commant|cmt)\b", "comment"),
        (r"\b(?:pourqoi|pourkoi|pourquoii|pk|pq)\b", "pourquoi"),
        (
            r"\b(?:conbien|combient|combiens|cb|cbien|combein|conbient)(?= (?:de|d|ca|coute|est|faut|je|on|dure|par)\b)",
            "combien",
        ),
        (r"\b(?:kan|quant)(?= (?:est|dois|puis|on|je|va|faut|le|la|mon|ma)\b)", "quand"),
        (r"\b(?:es|esce|est|et) ce (?=que |qu )", "est ce "),
        (r"\b(?:y ?a|ya) (?:t )?(?:il|t il)\b", "y a t il"),
        (
            r"^(?:est ce qu )?(?:il )?(?:ya|y a|y aurait il|existe t il|il existe)(?: t il)? ",
            "y a t il ",
        ),
        (r"\bsi y a\b", "s il y a"),
        (r"\bquel (?=sont\b)", "quels "),
        (
            r"\bca veut dire quoi\b|\bca signifie quoi\b|\bc est quoi\b|\bqu est ce que veut dire\b|\bque (?:veut|veulent) dire\b|\bque signifient?\b",
            "quoi ",
        ),
        (
            rf"^(?:je |j )?{_WISHING}(?: bien)? (?=(?:me |m |se |s |le |la |les |l |faire |etre )?\w+(?:er|ir|re|oir)\b)",
            "comment ",
        ),
        (
            r"(?<!\bet)(?<!\bou)(?<!\bpuis)(?:[ ,;:.?]+)(?:comment|je fais comment|on fait comment|comment (?:je )?(?:fais|faire|proceder|proceder?)|comment (?:dois|puis) je (?:faire|proceder)|comment (?:on|je) (?:fait|fais))[ ?.]*$",
            " comment_faire ?",
        ),
        (r"^(.*?)[ ,;:?]*(?: comment_faire \?)$", r"comment \1 ?"),
        (r"^comment comment\b", "comment"),
        (r"^comment (?:pour|afin de|afin d) ", "comment "),
        (
            r"\bje fais quoi\b|\bon fait quoi\b|\bqu est ce que je (?:fais|dois faire)\b|\bqu est ce qu on (?:fait|doit faire)\b|\bque (?:faut il|doit on|dois je|puis je|peut on) faire\b|\bquoi faire\b|\bqu est ce qu il faut faire\b|\bque fait on\b|\bquelle est la conduite a tenir\b",
            "que faire",
        ),
        (r"\b(?:en cas de|en cas d|dans le cas d une?|dans le cas ou|dans l hypothese ou)\b", "si"),
        (
            r"\b(?:lorsqu[e ]|quand|lorsque)(?= (?:on|je|un|une|mon|ma|le|la|les|l|il|elle)\b.*\b(?:que faire|que se passe|que risque))",
            "si",
        ),
        (r"\bque faire (?:quand|lorsque|lorsqu) ", "que faire si "),
        (
            r"\b(?:que se passe t il|qu est ce qui se passe|que va t il se passer|qu arrive t il|il se passe quoi|quelles sont les consequences (?:de |d |du |des )|quelle est la consequence (?:de |d |du |des ))",
            "quoi consequence si ",
        ),
        (r"\bsi si\b", "si"),
        (
            r"\bquelle est l utilite (?:de |d |du |des )|\ba quoi (?:ca )?sert(?:ent)?\b|\bca sert a quoi\b",
            "pourquoi_sert ",
        ),
        (r"\ba combien (?:s eleve|s elevent|se monte|se chiffre)\b", "combien "),
        (r"\bc est combien\b|\bca coute combien\b|\bca gagne combien\b", "combien "),
        (r"^j ai (?=combien\b)", ""),
        (
            r"\ba quel(?:le)? age\b|\ba partir de quel(?:le)? age\b|\bquel est l age (?:minimum|minimal|requis|legal)\b|\bquel age faut il avoir\b|\bdes quel age\b",
            "quel age_requis ",
        ),
        (r"(?<=\bquel age_requis ) ?(?:pour|afin de) ", ""),
        (
            r"\bage_requis (?:pour )?(?:peut on|puis je|est ce qu on peut|on peut|faut il avoir pour)\b",
            "age_requis",
        ),
        (r"^(?:on peut|peut on) (.*) (?:quel age_requis) ?\??$", r"quel age_requis \1 ?"),
        (r"^s (?=ils? )", "si "),
        (r"(?:^|(?<=[:,] ))(a|de|par|pour|avec|chez|contre) qui\b", r"qui \1_qui"),
        (r"\bquelles (?:sont les )?personnes(?: qui)?\b", "qui"),
        (r"\bc est qui\b", "qui"),
        (
            r"\b(?:ai|as|a|ont|avons|avez|aurai|aura|auront|aurons|aurez) (?:t )?(je|tu|il|elle|on|nous|vous|ils|elles) droit (?=au |aux |a |de )",
            r"est ce que \1 obtenir_droit ",
        ),
        (
            r"\b(?:ai|as|a|ont|avons|avez|aurai|aura|auront|avoir) droit (?=au |aux |a )",
            "obtenir_droit ",
        ),
        (r"\bobtenir_droit aux? ", "obtenir le "),
        (r"\bobtenir_droit (?:a )?", "obtenir "),
        (r"\b(?:a|ont) (?:t )?(il|elle|on|ils|elles) le droit (?:de |d )", r"peut \1 "),
        (r"\b(?:a|ont) le droit (?:de |d )", "peut "),
        (r"\best ce possible d[e ]", "est il possible de "),
        (r"^(?:c est|ce serait|serait ce|est ce) possible d[e ]? ?", "puis je "),
        (
            r"\best il possible (?:de |d )|\by a t il moyen (?:de |d )|\ba t on le droit (?:de |d )|\bai je le droit (?:de |d )",
            "puis je ",
        ),
        (
            r"\best on autorisee? a |\bsuis je autorisee? a |\best il (?:permis|autorise) (?:de |d )",
            "puis je ",
        ),
        (
            rf"\b(?:est|sont|suis|sommes) (?:t )?({_ANYONE}) (?:\w+ment )?{_BOUND} (?:de|d|a) ",
            r"doit \1 ",
        ),
        (rf"\best (?:\w+ment )?{_BOUND} (?:de|d|a) (?=\w+(?:er|ir|re|oir)\b)", "doit "),
        (rf"\bsont (?:\w+ment )?{_BOUND} (?:de|d|a) (?=\w+(?:er|ir|re|oir)\b)", "doivent "),
        (
            rf"\b({_HAVE}) (?:t )?({_ANYONE}) (?:dans )?l obligation (?:de|d) ",
            r"doit \2 ",
        ),
        (r"\b(mon|un|cet|votre|son|mes|des|vos) avoirs?\b", r"\1 bon_avoir"),
        (r"\b(mon|un|le|ce|votre|son|du|au|mes|des|les) recus?\b", r"\1 quittance"),
        (r"^ou_? et quand\b", "quand et ou_"),
        (
            r"^qui par_qui (.+?) (?:est|sont) (?:t )?(?:ils?|elles?) (\w{3,}(?:e|i|u|it|is|ert)e?s?)(?= ?\??$| (?:le|la|en|dans|pendant|chez|sur) )",
            r"qui \2 \1",
        ),
        (
            r"^qui par_qui (?:est|sont) (\w{3,}(?:e|i|u|it|is|ert)e?s?) (?=(?:le|la|les|l|mon|ma|mes|un|une|ce|cette|ces) )",
            r"qui \1 ",
        ),
        (
            r"\bpourquoi (?:est il |m est il |c est |est ce )?impossible (?:de |d )",
            "pourquoi je ne peux pas ",
        ),
        (
            r"\bne? (?:arrive|parviens|reussis|arrivons|parvenons) pas a (?=(?:(?:me|m|se|s|nous|le|la|l|les|y) )?\w+(?:er|ir|re|oir)\b)",
            "ne peux pas ",
        ),
        (r"^(?:prix|tarifs?|couts?) (?:de |du |des |d |pour )", "combien coute "),
        (
            r"^(?:les )?horaires?(?: d ouverture)? (?!de travail|et\b)(?:(?:de|du|des|d|pour) )?",
            "quand ouvrir ",
        ),
        (
            r"\b(?:dans les|sous(?: un delai d[e ])?|dans un delai d[e ]) ?(?=(?:\d+|une?|deux|trois|quatre|cinq|six|sept|huit|dix|quinze|vingt|trente|quarante) (?:jours?|semaines?|mois|heures?|h|ans?|annees?|minutes?)\b)",
            "sous_delai ",
        ),
        (r"\bpersonnes? a mobilite reduite\b", "pmr"),
        (
            r"\b(?:authentification a (?:deux|2) facteurs|double authentification|a2f|2fa)\b",
            "authentification_double",
        ),
        (r"^(ou_?|quand|combien) et comment\b", r"comment et \1"),
        (
            r"(?<!\bau )\b(?:juste|simplement|purement|strictement) (?!pour (?:savoir|demander|dire|info|verifier|confirmer|etre)\b)"
            r"(?=(?:le|la|les|l|une?|des?|du|mon|ma|mes|ton|ta|tes|son|sa|ses|notre|nos|votre|vos|leurs?|ce|cet|cette|ces|pour|a|au|aux|en|dans|sur|avec|par|pendant|chez|"
            r"quand|si|lors|sans|vers|entre|apres|moi|lui|nous|ceux|celles?|celui|besoin|deux|trois|quatre|cinq|dix|\d+)\b)",
            "seulement ",
        ),
        (
            r"\bn[e ] ?((?:(?!(?:pas|jamais|plus|rien|aucune?|ni|point|personne|guere|quoi|ce|est ce|savoir|sais|pense|crois|dit)\b)\w+ ){1,4}?)qu[e ] ?"
            r"(?=(?:le|la|les|l|une?|des?|du|mon|ma|mes|ton|ta|tes|son|sa|ses|notre|nos|votre|vos|leurs?|ce|cet|cette|ces|pour|a|au|aux|en|dans|sur|avec|par|pendant|chez|"
            r"quand|si|lors|sans|vers|entre|apres|moi|lui|nous|ceux|celles?|celui|deux|trois|quatre|cinq|dix|\d+)\b)",
            r"\1seulement ",
        ),
        (
            r"\best il obligatoire (?:de |d )|\best on obligee?s? (?:de |d )|\bsuis je (?:obligee?|tenue?) (?:de |d )|\bai je l obligation (?:de |d )",
            "dois je ",
        ),
        (
            r"\b(?:de quelle (?:maniere|facon)|par quel moyen|comment (?:faire|proceder|m y prendre|s y prendre|fait on|faut il faire|dois je faire|puis je faire|fais je)(?: pour| afin de| afin d)?)\b",
            "comment ",
        ),
        (
            r"\bquelles? (?:est|sont) (?:la |les |l )?(?:procedures?|demarches?|marche a suivre|etapes?|formalites?|facons?|manieres?)(?: a (?:suivre|faire|effectuer|accomplir|entreprendre))?(?: pour| de| d| afin de| afin d)?\b",
            "comment ",
        ),
        (
            r"\bquelles? (?:procedures?|demarches?|etapes?|formalites?)(?: (?:dois je|faut il|doit on|puis je))?(?: (?:suivre|faire|effectuer|accomplir|entreprendre))?(?: pour| de| d)?\b",
            "comment ",
        ),
        (
            r"\bcomment (?:dois je|puis je|peut on|doit on|faut il|pourrais je|est ce que je peux|est ce que je dois|est ce qu on peut|je peux|je dois|on peut|on doit|faire pour) ",
            "comment ",
        ),
        (
            r"\bquel(?:le)?s? (?:est|sont|serait|sera) (?:le |la |les |l )?(?:prix|tarifs?|couts?) (?:pour |de |du |des |d )",
            "combien coute ",
        ),
        (r"\bquel(?:le)? est (?:le |la |l )?(?:montant|somme) (?:de |du |des |d )", "combien "),
        (r"\bquel (?:prix|tarif|montant|cout)\b", "combien"),
        (
            r"\bcombien (?:(?:est ce que )?(?:ca |cela )?(?:coute|coutent)(?: t il| t elle)?|faut il payer|dois je payer|doit on payer|vais je payer|est ce qu il faut payer)(?: pour)?\b",
            "combien coute ",
        ),
        (
            r"\bquel(?:le)? est (?:le |la |l )?(?:delai|duree?)s?(?: d attente)? (?:pour |de |du |des |d )",
            "combien de temps ",
        ),
        (
            r"\b(?:quels? delais?|quelle duree|en combien de temps|sous combien de temps|sous quel delai|dans quel delai|pendant combien de temps|au bout de combien de temps|combien d (?:annees|heures)|combien de (?:mois|jours|semaines|minutes))\b",
            "combien de temps",
        ),
        (
            r"\bcombien de temps (?:faut il|prend|prennent|dure|durent|est ce que ca prend|cela prend|ca prend|met|mettent)(?: t il| t elle| t on)?(?: pour)?\b",
            "combien de temps ",
        ),
        (
            r"\b(?:a|vers) quelle (?:date|heure|periode)|\bquel jour|\ba quel moment|\bquelle est la date (?:de |du |des |d )|\bquand est ce qu[e ]?",
            "quand ",
        ),
        (r"\ba partir de quand|\bdepuis quand|\bdes quand", "quand depuis"),
        (
            r"\bjusqu a quand|\bavant quand|\bavant quelle date|\bquelle est la date limite (?:pour |de |du |des |d )",
            "quand limite ",
        ),
        (
            r"\bquels? (?:sont |est )?(?:les |vos |l )?(?:horaires?|heures?)(?: d ouverture)? (?:de |du |des |d )",
            "quand ouvrir ",
        ),
        (
            r"\b(?:a |en )?quel(?:le)? (?:endroit|lieu)|\bdans quel(?:le)? (?:endroit|lieu)|\ba quel(?:le)? adresse|\bou est ce qu[e ]?",
            "ou",
        ),
        (
            r"\b(?:pour quelles? raisons?|pour quel motif|comment se fait il que|quelles? (?:est|sont) (?:la |les )?raisons? (?:de |du |des |d ))",
            "pourquoi ",
        ),
        (r"\bpourquoi est ce qu[e ]?", "pourquoi "),
        (r"\bqui est ce qui|\bquelle (?:est la )?personne(?: qui)?", "qui"),
        (r"\bqu est ce que (?:c est que |c est )?", "quoi "),
        (
            r"\b(?:c est quoi|que signifie|que veut dire|quelle est la definition (?:de |du |des |d ))",
            "quoi ",
        ),
        (r"\bque (?:dois je|puis je|peut on|doit on|faut il) faire", "que faire"),
        (r"\bquoi faire", "que faire"),
        (r"\bn est ce pas\b", " "),
        (r"\bqu en est il (?:de |du |des |d )", "quoi "),
        (
            r"\breglement europeen(?! (?:sur|relatif|concernant|pour|ia|intelligence|numero|\d))",
            "rgpd",
        ),
        (
            r"\bquel(?:le)?s? (?:est|sont|serait) (?:le |la |les )?(?:meilleure?s? )?(?:moyens?|solutions?|methodes?) (?:pour|de|d) ",
            "comment ",
        ),
        (r"\bsoit (.+?) soit\b", r"\1 ou"),
        (r"\bmettre (?:un terme|fin) (?:a|au|aux) ", "resilier "),
        (r"\bcomment (?:ca |cela )?marche(?:nt)?\b", "comment fonctionne"),
        (r"\bdifferences? entre\b", "difference de"),
        (
            r"\b(quels? (?:documents?|papiers?|justificatifs?)|quelles? pieces?)((?: \w+){0,3}? )(?:fournir|presenter|apporter|joindre|produire)\b",
            r"\1\2",
        ),
        (
            r"\b(?:deposer|formuler|effectuer|adresser|introduire|emettre) (?=(?:une|ma|sa|notre|la) (?:demande|reclamation|declaration)\b)",
            "faire ",
        ),
        (
            r"\ba quelles? conditions? (?:peut on|puis je|est ce qu on peut|est ce que je peux)\b",
            "quelles sont les conditions pour",
        ),
        (r"\bqui est eligible (?:a|au|aux) ", "qui peut obtenir "),
        (r"\b(?:suis je|est ce que je suis) eligible (?:a|au|aux) ", "puis je obtenir "),
        (
            r"\b(?:l )?une? (?:seule? )?(?:des|de (?=(?:mes|nos|vos|tes|ses|ces)\b))",
            "un_parmi les ",
        ),
        (r"\bau moins\b", "minimum"),
        (r"\bau plus\b", "maximum"),
        (r"\ben ligne\b|\bsur internet\b|\bpar internet\b|\bsur le web\b", "en_ligne"),
        (r"\be mails?\b|\bmails?\b|\bcourriels?\b|\bcourriers? electroniques?\b", "courriel"),
        (r"\b(?:toutes|tous) (?:les|mes|nos|vos|ses|leurs)\b", "tous"),
    ),
    kinds=(
        (r"(?:(?:a|de|par|pour|avec|chez|contre) )?qui\b", "who"),
        (r"(?:depuis |jusqu a |a partir de )?quand\b", "when"),
        (r"(?:d )?ou_?\b", "where"),
        (r"pourquoi\b", "why"),
        (r"comment\b", "how"),
        (r"(?:pendant |en |sous |dans |de |depuis )?combien de temps\b", "how_long"),
        (r"combien de fois\b|a quelle frequence\b|tous les combien\b", "how_often"),
        (r"combien (?:de|d)\b", "how_many"),
        (r"(?:a |pour |de )?combien\b", "how_much"),
        (r"que faire\b", "how"),
        (
            r"(?:(?:a|de|par|pour|avec|dans|en|sur|sous|contre|vers) )?(?:quel|quelle|quels|quelles|quoi|lequel|laquelle|lesquels|lesquelles)\b",
            "what",
        ),
        (r"(?:que|qu)\b", "what"),
        (
            r"est ce (?:que|qu)\b|(?:puis|peut|peux|pouvez|pouvons|peuvent|dois|doit|doivent|devez|faut|suis|est|sont|ai|a|ont|avez|existe|y a|sera|seront|etes) (?:je|il|elle|on|vous|nous|ils|elles|t il|t elle|t on|t ils|ce)\b",
            "yes_no",
        ),
        (r"si\b", "yes_no"),
        (r"c (?:est|etait|sera) (?!quoi|qui|combien|ou\b|quand|comment|pourquoi).*\?", "yes_no"),
        (
            r"(?!.*\b(?:comment|combien|quand|pourquoi|quoi|quels?|quelles?|que)\b)(?:je|j|on|il|vous|le|la|les|l|mon|ma|mes|un|une) .*\?",
            "yes_no",
        ),
    ),
    loose_kinds=(
        (r"\bcombien de temps\b", "how_long"),
        (r"\bcombien de fois\b", "how_often"),
        (r"\bcombien (?:de|d)\b", "how_many"),
        (r"\bcombien\b", "how_much"),
        (r"\bpourquoi\b", "why"),
        (r"\bcomment\b", "how"),
        (r"\bque faire\b", "how"),
        (r"\bquand ?\??$", "when"),
        (r"\b(?:ou ?\??$|ou_)", "where"),
        (r"\bqui ?\??$", "who"),
        (r"\b(?:quel|quelle|quels|quelles|quoi)\b", "what"),
        (
            r"\best ce (?:que|qu)\b|\b\w+ (?:t il|t elle|t on|t ils|t elles)\b|\b(?:puis|peux|dois|suis|ai|vais|serai|aurai|pourrai|devrai) je\b|\b(?:faut|peut|doit|est|sont|ont|doivent|peuvent|sera|seront) (?:il|elle|on|ils|elles)\b|\b(?:avez|pouvez|etes|acceptez|proposez|faites|livrez|prenez|remboursez) vous\b",
            "yes_no",
        ),
    ),
    asks_again=(
        r"(?:^comment (?=(?:quand|ou_|combien|qui|pourquoi|quoi|quel(?:le)?s?)\b)"
        r"|(?<=[\w,] )(?:et|ou|puis|mais|ensuite) (?:(?:et|puis|aussi|surtout|ensuite|alors|enfin|si oui|si possible|dans ce cas) )*"
        r"(?=(?:(?:a|de|d|par|pour|avec|chez|contre|en|sous|dans|sur|vers|avant|depuis|jusqu a|pendant|a partir de) )?"
        r"(?:qui|quand|ou_|ou(?= (?:quand|comment|combien))|pourquoi|comment|combien|quoi|(?:le|la|les)?quel(?:le)?s?)\b"
        r"|qu(?:e|elles)? (?:faire|faut|dois|doit|doivent|se|risque|puis|peut)\b|quoi consequence|est ce\b|c est (?:obligatoire|possible|necessaire|payant|gratuit)"
        rf"|(?:puis|peut|peux|peuvent|pouvez|pouvons|dois|doit|doivent|devez|devons|faut|faudra|est|sont|sera|seront|{_HAVE}|suis) (?:t )?(?:{_ANYONE}|ce)\b"
        r"|(?:c|ca|cela|je|j|on|il|elle|tu|vous|nous|ils|elles) [^,:;.?!]*\b(?:combien|comment|quand|ou_|quoi|pourquoi|quel(?:le)?s?)\b))"
    ),
    leading_on=words("et ou puis mais ensuite comment"),
    question_words={
        "comment": frozenset((Kind.HOW,)),
        "pourquoi": frozenset((Kind.WHY,)),
        "combien": frozenset((Kind.HOW_MUCH, Kind.HOW_MANY, Kind.HOW_LONG, Kind.HOW_OFTEN)),
    },
    spans=(
        (
            rf"{_HOW_LONG} (?:est ce qu[e ]? ?)?(?:me |nous |il (?:me |nous )?)?(?:reste (?:t il )?(?!valable|valide)|(?:dispose|disposons|disposent)\b)",
            "deadline",
        ),
        (
            rf"{_HOW_LONG} (?:est ce qu[e ]? ?)?(?:{_HAVE} (?:t )?{_ANYONE}|{_ANYONE} {_HAVE})\b(?! (?:attendu|mis))",
            "deadline",
        ),
        (
            rf"{_HOW_LONG} (?:(?:le|la|les|l|un|une|mon|ma|mes) (?:\w+ ){{1,3}}?){_HAVE} (?:t )?{_ANYONE} pour\b",
            "deadline",
        ),
        (
            r"\b(?:dans|sous|avant|en) (?:quels? delais?|combien de (?:temps|jours|semaines|mois)|combien d heures)\b[^,;.?!]*"
            r"\b(?:dois|doit|doivent|devons|devez|faut|(?:puis|peut|peux|peuvent|pouvons)(?! (?:\w+ )?(?:esperer|obtenir|recevoir|avoir|compter|toucher|recuperer|attendre)))\b",
            "deadline",
        ),
        (
            r"\bquelle (?:est|sera|serait|etait) (?:la |l )?duree\b|\bcombien de temps faut il\b|"
            rf"{_HOW_LONG}(?: est ce qu[e ]?)?[^,;.?!]*\b(?:dure|durent|durera|dureront|durer|prend|prennent|prendra|prendre|met|mettent|mettra|mettre|faut)\b",
            "duration",
        ),
    ),
    modalities=(
        (
            r"\b(?:dois|doit|doivent|devons|devez|devra[is]?|devront|devrons|devrez|faut|faudra|obligatoire|obligatoires|necessaire|indispensable|exige|imperatif|"
            rf"{_BOUND} (?:de|d|a|au)|obligee?s?|obligation (?:de|d)|{_HAVE} (?:t )?{_ANYONE} besoin|est ce qu[e ]? ?{_ANYONE} {_HAVE} besoin)\b(?!(?<=devrais))",
            "obligation",
        ),
        (
            r"\b(?:puis|peut|peux|peuvent|pouvons|pouvez|pourra[is]?|pourrait|pourront|pourrons|pourrez|possible|le droit|en droit|autorisee?s?|permis de|permet|libres? de|libres? d)\b",
            "permission",
        ),
        (
            r"\b(?:devrais|devrait|faudrait|conseillee?|recommandee?|vaut mieux|ferais mieux)\b",
            "advice",
        ),
    ),
    imperfect=(
        r"\b(?:etait|etaient|etais|avait|avaient|avais|fallait|valait|ouvrait|ouvraient|couvrait|couvraient|offrait|"
        r"offraient|souffrait|entrait|rentrait|durait|duraient|montrait|assurait|tirait|retirait|"
        r"(?!\w*r(?:ait|aient|ais)\b)(?!(?:parfait|souhait|portrait|retrait|extrait|forfait|satisfait|imparfait|"
        r"refait|defait|bienfait|surfait|distrait|jamais|francais|anglais|delais|desormais|palais|relais|essais|mauvais|"
        r"marais|irlandais|japonais|polonais|portugais|hollandais|ecossais|engrais|rabais|biais|laquais|souhaitais|voulais|voulait)\b)"
        r"\w{3,}(?:ait|aient|ais))\b"
    ),
    future=(
        r"\b(?:sera[is]?|seront|serons|serez|aura[is]?|auront|aurons|aurez|(?:va|vais|vont|vas|allons|allez) (?:\w+ )?\w+(?:er|ir|re|oir)|"
        r"(?:va|vont|vais) (?:t )?(?:il|elle|on|ils|elles|je) (?:\w+ )?\w+(?:er|ir|re|oir))\b"
    ),
    acts=(
        (r"\bje vous (?=\w)", "me>you"),
        (r"\b(?:vous|tu) (?:me|m|nous) (?=\w)", "you>me"),
        (r"\b(?:ils?|elles?|qui) (?:me|m|nous) (?=\w)", "it>me"),
        (r"\bje (?:lui|leur) |\bje \w+ quelqu un\b", "me>it"),
        # « Devoir de l'argent »: before a noun the verb is no obligation.
        (r"\bje (?:\w+ )?dois (?:de|d|des|du|une?|le|la|les|mon|ma|mes|\d+) ", "me>it"),
        (r"\b(?:me|m|nous) (?:doit|doivent|devait|devaient|devra|devront)\b", "it>me"),
        (
            r"\b(?:peut|doit|va|a|veut|faut|pourrait) (?:t )?(?:ils?|elles?|on) (?:me|m|nous) ",
            "it>me",
        ),
        (r"\bmoi qui\b", "me>it"),
    ),
    past=(
        r"\b(?:fut|furent|"
        # « Pourquoi a-t-on fermé »; without its accent only the inversion tells a participle.
        r"(?<!y )(?:a|ont|ai|as|avons|avez) (?:t )?(?:il|elle|on|ils|elles|je|tu|nous|vous) "
        r"(?!(?:acces|une?|les?|des?|deja|autre|toujours|encore|lieu|envie|affaire|confiance|connaissance|priorite|vue|partie)\b)\w{2,}[eiu]e?s?|"
        r"(?:a|ont|ai|as|avons|avez) (?:t )?(?:(?:il|elle|on|ils|elles|je|tu|nous|vous) )?(?:(?:deja|pas|bien) )?(?:ete|eu|pu))\b"
    ),
    present=r"\b(?:est|sont|suis|y a)\b(?! ce)",
    ignored=words(
        """
        le la les l un une des du d de au aux a et ou y en ce cet cette ces c ca cela ceci que qu quoi qui quel quelle
        quels quelles lequel laquelle lesquels lesquelles dont comment quand combien pourquoi je j tu il elle on nous
        vous ils elles me m te t se s lui leur leurs moi toi soi eux mon ma mes ton ta tes son sa ses notre nos votre
        vos si est es sont suis sommes etes etre ete etait etaient serait sera seront soit ai as avons avez ont avoir
        aura avait aurait eu puis peut peux peuvent pouvez pouvons pourrait pourrais pouvoir dois doit doivent devez devons devoir
        devrais devrait faut faudrait falloir fait faire fais font faites va vais vont aller vas pour par dans sur sous chez avec vers
        entre lors pendant durant afin comme donc or car mais alors ainsi tres bien vraiment juste simplement
        exactement actuellement concretement generalement normalement habituellement normal procedure procedures demarche
        demarches marche suivre etape etapes formalite formalites effectuer accomplir entreprendre proceder necessaire necessaires
        possible obligatoire obligatoires voudrais veux veut souhaite souhaiterais aimerais besoin vouloir souhaiter
        existe exister concernant propos cas niveau lorsque quelque chose svp merci bonjour la-bas ici ci
        toujours permis_de gens personnes personne quelqu autorise autorisee
        obligee oblige tenu tenue obligation droit_de moyen facon maniere afin lequelle limite_de
        aupres dire ds dc bcp qd ac pr ou_ aussi_ besoins veuillez aurais voulu obligatoirement oblig eventuellement
        a_ puisse puissent pourrai pourra pourront devra devront devrai faudra serai aurai auront etant ayant suivant selon
        """
    )
    - words("personne normal droit toujours autorise autorisee"),
    negations=words("pas jamais sans aucun aucune aucuns non rien ni nullement guere"),
    negation_openers=words("ne n"),
    concordant=words("aucun aucune aucuns rien jamais ni nullement guere"),
    has_inversion=True,
    subjects=words("je j"),
    objects=words("me m moi"),
    addressees=words("vous tu"),
    mine=words("mon ma mes notre nos"),
    yours=words("votre vos ton ta tes"),
    theirs=words("son sa ses"),
    others=words("leur leurs"),
    third_person=(
        r"\b(?=ils?\b|elles?\b)(?<!\bfaut )(?<!\bvaut )(?<!\by a t )(?<!\bexiste t )(?<!\bagit )(?<!\breste t )(?<!\bsuffit )(?<!\bconvient )"
        r"(?<!\bfaudra t )(?<!\bfaudrait )(?<!\bqu )(?<!\bs )(?<!^)"
        r"(?:il(?! faut| y a| est | existe| vaut| reste| suffit| convient| s agit| possible| obligatoire| interdit| permis| necessaire| normal| legal| utile| autorise)|elle|ils|elles)\b"
    ),
    determiners=words(
        "le la les l un une des du au aux mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce cet cette ces d"
    ),
    markers={
        Marker.FROM: "depuis provenance",
        Marker.OF: "de d du des",
        Marker.TO: "vers destination jusqu",
        Marker.AT: "a au aux",
        Marker.FOR: "pour",
        Marker.BY: "par",
        Marker.WITH: "avec",
        Marker.PLACE: "dans en sur sous chez pres lors pendant durant entre des_le",
        Marker.CLAUSE: "si quand lorsque afin que qu et ou mais qui dont",
    },
    relations={
        "of": "de d du des",
        "at": "a au aux aupres",
        "for": "pour",
        "by": "par",
        "with": "avec",
        "into": "dans",
        "in": "en",
        "on": "sur",
        "under": "sous",
        "home": "chez",
        "near": "pres",
        "during": "pendant lors durant",
        "between": "entre",
        "towards": "vers destination",
        "since": "depuis provenance",
        "until": "jusqu",
        "from": "des_le",
        "according": "selon suivant",
        "and": "et",
        "but": "mais",
        "if": "si",
        "when": "quand lorsque lorsqu",
        "because": "parce car puisque",
    },
    alike="""
        none and
        none but
        none if when
        none because
        during when
        none of for
        none in into on
        none by
        none during
        of on in into
        at in into on
        at home
        by with in
        during in
    """,
    alike_before_numbers="""
        none of at for in
        none during
    """,
    bounds="""
        over | plus de | plus d | au dessus | superieur a | superieure a | superieurs a | superieures a | au dela | depassant | depasse | depassent | excedant | excede | excedent | sign_over
        under | moins de | moins d | au dessous | en dessous | inferieur a | inferieure a | inferieurs a | inferieures a | en deca | sous | sign_under
        min | des_le | a partir | a compter | superieur ou egal a | superieure ou egale a | sign_min
        within | sous_delai
        max | jusqu | jusqu a | jusqu au | jusqu aux | jusqu en | inferieur ou egal a | inferieure ou egale a | sign_max
        about | environ | presque | quasi | quasiment | autour | approximativement | a peu pres | pres
        exact | exactement | precisement
    """,
    bounds_after="""
        min | sign_more | et plus | ou plus | et au dela | et au dessus
        max | et moins | ou moins | et au dessous | et en dessous
        exact | pile | exactement
        about | environ | approximativement | a peu pres
    """,
    governing=words("droit"),
    before_auxiliary=words("m t s l y n qui"),
    after_auxiliary=words("ete eu pu t"),
    sequence=r"\b(?:puis(?! je| t )|ensuite)\b",
    joining=words("et"),
    choosing=words("ou"),
    directional=words(
        """
        virer virement transferer transfert passer passage migrer migration vol train trajet voyage voyager billet
        convertir conversion vendre donner don lettre envoyer basculer echanger aide bus navette route distance
        """
    ),
    synonyms="""
        ouvrir | ouvert | ouverte | ouverts | ouvertes | ouverture | ouvre | ouvrent
        fermer | fermeture | clore | cloturer | cloture | fermee
        payer | paye | paie | paiement | paiements | payement | payements | regler | reglement de facture
        perdre | perdu | perdue | perdus | perte | egarer | egare | egaree
        voler | vole | volee | vol | vols | voles | derober | derobe | derobee
        vendre | vendu | vente | ventes | revendre
        acheter | achat | achats
        inscrire | inscription | inscriptions | inscrit | inscrite | inscrits | inscrivez
        obtenir | obtient | obtenu | obtention | avoir droit | procurer | recevoir | recu | recue | recus | reception | recoit | recevra | recevrai | toucher | percevoir | perception | beneficier | beneficie
        demander | demande | demandes | solliciter | faire une demande
        renouveler | renouvellement | renouvelle
        creer | creation | creations | cree
        supprimer | suppression | effacer | effacement
        resilier | resiliation
        annuler | annulation
        modifier | modification | changer | changement | change
        louer | location | locations
        envoyer | envoi | envoie | expedier | expedition
        prolonger | prolongation | prolongement
        rembourser | remboursement | se faire rembourser
        declarer | declaration
        contester | contestation
        consulter | consultation | voir | visualiser | visionner
        reporter | report
        demenager | demenagement
        demissionner | demission
        enfant | enfants | gosse | gosses | gamin | gamins | fiston
        logement | domicile | habitation
        voiture | automobile | vehicule
        telephone | portable | smartphone | mobile
        mot_de_passe | mot de passe | mots de passe
        carte_identite | carte identite | carte nationale identite | cni | piece identite
        permis_conduire | permis conduire
        carte_grise | carte grise | certificat immatriculation
        employeur | patron
        salarie | salaries | salariee | employe | employee | employes
        medecin | docteur
        impot | impots
        revenu | revenus
        document | documents | piece | pieces | justificatif | justificatifs | papier | papiers
        delai | delais
        jour | jours | journee
        mois
        an | annee | annees | ans | annuel | annuelle
        covid | covid19 | coronavirus | sars_cov2
        dpo | delegue protection donnees
        rgpd | reglement general protection donnees | reglement europeen protection donnees
        donnees_personnelles | donnees personnelles | donnees caractere personnel
        site | site internet | site web
        photo | photographie | photos
        mineur | mineurs | mineure
        naitre | naissance | ne | nee
        mourir | deces | mort | morte | decede | decedee | decedes
        marier | mariage | marie | mariee
        divorcer | divorce | divorcee
        travail | emploi | boulot | job | travaux_emploi
        travaux
        voter | vote
        conduire | conduite
        installer | installation | pose
        utiliser | utilisation | servir
        choisir | choix
        aide | aides | allocation | prestation
        benefice | benefices
        beneficiaire | beneficiaires
        recours | faire appel
        plainte | porter plainte | deposer plainte
        signaler | signalement
        ajouter | ajout | rajouter
        retirer | retrait | recuperer
        desactiver | desactivation
        activer | activation
        connecter | connexion | se connecter
        deconnecter | deconnexion
        refuser | refus
        accepter | acceptation
        interdire | interdit | interdite | interdiction
        autoriser | autorise | autorisation | autorisee | admettre | admis | admise | admises
        lire | lu | lue | lus | lues
        interrompre | interrompu | interrompue
        transmettre | transmis | transmise | transmises
        detruire | detruit | detruite | detruits | detruites
        conclure | conclu | conclue | conclus
        exclure | exclu | exclue | exclus
        inclure | inclus | incluse | incluses
        soumettre | soumis | soumise | soumises
        construire | construit | construite | construits
        traduire | traduit | traduite | traduits
        defendre | defendu | defendue
        attendre | attendu | attendue
        resoudre | resolu | resolue
        subir | subi | subie
        restreindre | restreint | restreinte
        atteindre | atteint | atteinte
        maintenir | maintenu | maintenue
        entretenir | entretenu | entretenue
        abattre | abattu | abattue | abattus
        produire | produite
        poursuivre | poursuivi | poursuivie
        duree
        valable | valide | validite
        gratuit | gratuite | gratuitement | gratuits
        payant | payante
        premier | premiere | 1er | 1ere
        dernier | derniere | derniers | dernieres
        tous | tout | toute | toutes | chaque
        certains | certaines | quelques
        seulement | uniquement | exclusivement | purement | strictement | ne que
        aussi | egalement
        avant | prealable
        apres | suite
        plus
        moins
        minimum | minimal | minimale | mini
        maximum | maximal | maximale | maxi
        courriel
        colis | paquet
        commande | commandes
        livrer | livraison | livre_a
        facture | factures
        etranger | etrangere | hors france
        temps_partiel | temps partiel | mi temps
        temps_plein | temps plein | temps complet
        prevenir | avertir | informer | information | info | infos | renseignement | renseignements
        donner | fournir | fourniture
        rectifier | rectification | corriger | correction
        entreprise | societe
        rendez_vous | rendez vous | rdv
        conge | conges | vacances
        bebe | nourrisson
        chien | chiens
        chat | chats
        voisin | voisins | voisine
        mairie | hotel ville
        majorite | majeur | majeure
        adulte | adultes
        boire | boit
        manger | mange
        couter | cout | prix | tarif | tarifs | couts | coute | coutent
        durer | dure
        savoir | sait
        lire | lecture
        ecrire | ecriture
        mettre_a_jour | mettre a jour | mise jour | mettre jour | actualiser
        pret | credit | emprunt
        rompre | rupture | rompu | rompue | rompus
        declencher | declenchement
        proprietaire | bailleur
        locataire
        preter | prete | pretent
        emprunter | emprunte | empruntent
        absent | absente | absents | absence | absences
        fiche | bulletin
        fiche_paie | fiche paie | bulletin paie | bulletin salaire | fiche salaire | feuille paie
        cookie | cookies | temoin connexion
        cdd | contrat duree determinee
        cdi | contrat duree indeterminee
        rib | releve identite bancaire | coordonnees bancaires
        caf | caisse allocations familiales
        cpam | caisse primaire assurance maladie
        vpn | reseau prive virtuel
        smic | salaire minimum | salaire minimum interprofessionnel croissance
        pme | petite moyenne entreprise | petites moyennes entreprises
        tpe | tres petite entreprise
        cnil | commission nationale informatique libertes
        rtt | reduction temps travail
        rh | ressources humaines
        drh | direction ressources humaines | directeur ressources humaines
        dsi | direction systemes information
        dsn | declaration sociale nominative
        secu | securite sociale
        numero | num | no | nos_num
        tva | taxe valeur ajoutee
        apl | aide personnalisee logement | allocation logement
        rsa | revenu solidarite active
        aah | allocation adulte handicape
        ars | agence regionale sante
        cse | comite social economique
        csp | complementaire sante solidaire | css
        aipd | analyse impact | analyse impact relative protection donnees | pia | dpia
        sncf | societe nationale chemins fer
        irm | imagerie resonance magnetique
        ordonnance
        ordinateur | ordi | pc | ordis
        application | appli | app | applis | applications
        abonnement | abo | abonnements
        telephone | tel | portable | smartphone | mobile | telephones
        appartement
        velo | bicyclette
        professeur | prof
        wc | toilettes
        newsletter | newsletters | infolettre
        mot_de_passe | mot passe | mdp | password | mots passe
        temperature | temp
        rendez_vous | rendez vous | rdv | rdvs
        week_end | week end | weekend | we
        teletravail | travail distance | travail domicile
        document | doc | docs
        prelevement | prelevements
        assurance | assurances
        mutuelle | complementaire sante
        carte_bancaire | carte bancaire | carte bleue | cb | carte paiement
        carte_vitale | carte vitale
        compte_bancaire | compte bancaire | compte banque
        joindre | contacter | contact
        garder | conserver | conservation | stocker | stockage | detenir
        remettre | deposer | depot | depose
        rectifier | rectification | corriger | correction
        suspendre | suspendu | suspension | bloquer | bloque | bloquee | blocage
        debloquer | deblocage
        desactiver | desactivation | couper | coupe
        activer | activation | mettre en service | mise service | mise route
        supprimer | suppression | effacer | effacement | enlever
        resilier | resiliation | mettre fin | rompre
        signaler | signalement | declarer | declaration
        acheter | achat | achats
        installer | installation
        commencer | debuter | demarrer | commence | debute | demarre
        terminer | finir | achever | termine
        arreter | stopper | cesser
        verifier | verification | controler | controle
        chercher | rechercher | recherche
        trouver | situe | situee
        aider | assister
        souscrire | souscription
        adherer | adhesion
        remplacer | remplacement
        partager | partage
        proteger | protection | securiser
        sauvegarder | sauvegarde
        restaurer | restauration
        connaitre | connaissance
        calculer | calcul
        justifier
        proposer | offrir
        exiger | imposer
        ameliorer | amelioration
        reparer | reparation
        respecter | respect
        gerer | gestion
        financer | financement
        former | formation
        sanction | sanctions
        amende | amendes | contravention | contraventions
        penalite | penalites
        probleme | souci | ennui | difficulte | problemes | soucis
        panne | dysfonctionnement
        erreur | erreurs
        marcher | fonctionner | fonctionnement
        incident | incidents
        client | clients | cliente | clientele
        usager | usagers
        collegue | collegues
        argent | fric | sous_argent | thune
        salaire | paie | paye | remuneration | remunerations
        metier | profession
        bail | contrat location
        loyer | loyers
        caution | depot garantie
        mensuel | mensuelle | mensuellement
        hebdomadaire
        quotidien | quotidienne | quotidiennement
        urgent | urgente | urgence
        obligation | obligations
        interdiction
        avantage | avantages
        inconvenient | inconvenients
        conseiller
        medicament | medicaments
        maladie | maladies
        malade | malades | souffrant
        hopital | hopitaux | hosto
        voyager | voyage | voyages
        train | trains
        avion | avions
        bagage | bagages | valise | valises
        billet | ticket | tickets | billets
        horaire | horaires
        tarif | tarifs
        gratuit | gratos
        especes | liquide | cash
        virement | virements
        cheque | cheques
        agence | agences
        banque | bancaire | banques
        pret_immobilier | pret immobilier | credit immobilier
        courrier | lettre | courriers | lettres
        mail | courriel | email
        video | videos
        videosurveillance | camera surveillance | cameras surveillance
        sous_traitant | sous traitant | sous traitants
        responsable_traitement | responsable traitement
        fichier | fichiers
        dossier | dossiers
        donnees | donnee
        droit_acces | droit acces
        violation | violations
        consentement | consentir
        mineurs
        parent | parents
        conjoint | conjointe | epoux | epouse
        conge_maternite | conge maternite
        conge_paternite | conge paternite
        arret_maladie | arret maladie | arret travail
        accident_travail | accident travail
        service_client | service client | service clients | service clientele
        espace_client | espace client | espace personnel
        en_ligne
        important | importante
        necessaire
        different | differente | differents | differentes | difference
        nouveau | nouvelle | nouveaux | nouvelles
        ancien | ancienne | anciens | anciennes
        eleve | elevee
        rapide | rapidement | vite
        facile | facilement | simplement
        adresse | adresses
        condition | conditions
        plafond | plafonds
        voyant | voyants
        reclamation | reclamations
        historique
        photocopie | copie | copies
        duplicata
        attestation | attestations
        certificat | certificats
        visiteur | visiteurs
        stagiaire | stagiaires | stage
        apprenti | apprentis | apprentissage
        alternance | alternant | alternants
        """,
    antonyms="""
        ouvrir | fermer
        activer | desactiver
        avant | apres
        minimum | maximum
        plus | moins
        acheter | vendre
        autoriser | interdire
        accepter | refuser
        ajouter | supprimer
        ajouter | retirer
        entrer | sortir
        entree | sortie
        connecter | deconnecter
        augmenter | diminuer
        augmenter | baisser
        hausse | baisse
        debut | fin
        debuter | terminer
        commencer | terminer
        commencer | arreter
        gratuit | payant
        premier | dernier
        tous | certains
        adulte | enfant
        majorite | mineur
        recevoir | envoyer
        donner | recevoir
        gagner | perdre
        perdre | trouver
        temps_partiel | temps_plein
        public | prive
        monter | descendre
        arrivee | depart
        arriver | partir
        marier | divorcer
        naitre | mourir
        embaucher | licencier
        recruter | licencier
        emprunter | preter
        importer | exporter
        brut | net
        avantage | inconvenient
        bloquer | debloquer
        creer | supprimer
        installer | desinstaller
        interieur | exterieur
        haut | bas
        jour | nuit
        dessus | dessous
        matin | soir
        locataire | proprietaire
        salarie | employeur
        vendeur | acheteur
        debit | credit
        inclure | exclure
        inclus | exclu
        court | long
        neuf | occasion
        possible | impossible
        droite | gauche
        homme | femme
        pere | mere
        fils | fille
        frere | soeur
        afficher | masquer
        montrer | cacher
        verrouiller | deverrouiller
        allumer | eteindre
        chiffrer | dechiffrer
        coder | decoder
        abonner | desabonner
        inscrire | desinscrire
        adherer | quitter
        embarquer | debarquer
        charger | decharger
        brancher | debrancher
        monter | demonter
        legal | illegal
        complet | incomplet
        positif | negatif
        actif | inactif
        national | international
        ancien | nouveau
        facile | difficile
        rapide | lent
        chaud | froid
        plein | vide
        lourd | leger
        riche | pauvre
        jeune | vieux
        client | fournisseur
        medecin | patient
        vente | achat
        envoi | reception
        aller | retour
        tot | tard
        meilleur | pire
        proche | loin
        sur | dangereux
        reussite | echec
        reussir | echouer
        succes | echec
        elargir | reduire
        augmenter | reduire
        prolonger | raccourcir
        autoriser | bloquer
        demander | repondre
        question | reponse
        permanent | temporaire
        definitif | provisoire
        volontaire | involontaire
        direct | indirect
        individuel | collectif
        titulaire | contractuel
        """,
    negative_prefixes=("in", "im", "il", "ir", "des", "de", "dis", "anti", "a", "mal", "non"),
    answers_in_kind={
        Kind.HOW_MUCH: words("couter prix tarif cout montant revient"),
        Kind.HOW_LONG: words("temps delai duree durer prendre prend mettre met"),
        Kind.WHEN: words("date heure moment jour"),
        Kind.WHERE: words("endroit lieu adresse trouve trouver situe situee"),
        Kind.WHO: words("personne"),
    },
    scope=words(
        "tous certains seulement aussi plus moins minimum maximum premier dernier adulte enfant encore deja meme autre jamais mineur un_parmi"
    ),
    temporal=words(
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre lundi mardi mercredi jeudi "
        "vendredi samedi dimanche demain hier aujourdhui matin soir nuit ete hiver printemps automne"
    ),
    not_slips=words(
        "pedant mache enter marie maire fair dans donc cour court mont sot sort etat etats guerre guerres note notes noter "
        "gere gerent faits devait devais commet combine veillez puise pourri pisse"
    ),
    linking=words("de d du des la le l les au aux a en et"),
    weak=words("obtenir avoir remplir disposer posseder disponible figurer apparaitre"),
    lookalikes=words(
        "prescription proscription infraction effraction allocation allocution collision collusion conversion "
        "conversation eruption irruption evocation revocation affection infection adoption adaptation "
        "poison poisson desert dessert cousin coussin base basse ruse russe baiser baisser conte compte comte signe singe "
        "maire marie mairie salaire salarie marin martin poste posture loyer loyal vision version parti partie mission "
        "emission omission admission demission remission cotisation "
        "dessus dessous acception acceptation inclinaison inclination attention intention"
    ),
)
