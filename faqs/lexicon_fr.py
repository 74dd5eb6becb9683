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
        aient ait ais ions iez ons ez ent er ir re ees ee es e s x is it ies ie i
        """.split(),
        key=len,
        reverse=True,
    )
)
_KEPT = words(
    """
    plus moins sans pas fin avis pays mois fils prix temps cours corps tiers taux choix voix proces acces
    succes deces permis depuis apres tres avant vers sous hors alors pendant enfant autre autres
    """
)
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
            break
    if len(word) > 4 and word[-1] == word[-2]:
        word = word[:-1]
    # « modifi(er) », « resili(er) » and « modifi(cation) » meet on the same letter.
    return word[:-1] if len(word) > 5 and word[-1] == "i" else word


_PREFACE = (
    r"(?:bonjour|bonsoir|salut|hello|coucou|madame|monsieur|excusez moi|pardon|desolee?|alors|euh|ok|donc|bon|et|"
    r"s il vous plait|s il te plait|svp|stp|merci(?: (?:d avance|beaucoup))?|petite question|j ai une question|"
    r"question|dites moi|dis moi|en fait|au fait|je me permets de vous demander|c est pour savoir)"
)
_ASKING = (
    r"(?:(?:est ce que )?(?:vous )?(?:pouvez|pourriez|pourrais|peux|saurais|sauriez|voulez|voudriez)(?: vous| tu)? (?:bien )?"
    r"(?:me |m |nous )(?:dire|expliquer|indiquer|renseigner sur|preciser|informer sur|aider a savoir|aider a comprendre|rappeler)"
    r"|(?:je |j )?(?:voudrais|aimerais|souhaite|souhaiterais|veux|desire|cherche a|aurais aime|besoin de)(?: bien)? "
    r"(?:savoir|connaitre|comprendre)|(?:je )?me demande|(?:je )?ne sais pas|(?:savez|sais|sauriez)(?: vous| tu)"
    r"|merci de me dire|indiquez moi|expliquez moi)"
)

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
    rewrites=(
        (rf"^(?:{_PREFACE}[ ,;:.!?]*)+", ""),
        (rf"^{_ASKING}[ ,:]*", ""),
        (rf"^(?:{_PREFACE}[ ,;:.!?]*)+", ""),
        (rf"(?:[ ,;.!?]+(?:{_PREFACE}|a votre avis|au juste|exactement))+[ .!?]*$", " ?"),
        (r"\b(?:svp|stp|s il vous plait|s il te plait|euh|hein)\b", " "),
        (r"^(?:coment|commen|komment)\b", "comment"),
        (r"^(?:pourqoi|pourkoi|pourquoii)\b", "pourquoi"),
        (r"^s (?=ils? )", "si "),
        (r"(?:^|(?<=[:,] ))(a|de|par|pour|avec|chez|contre) qui\b", r"qui \1_qui"),
        (r"\bquelles (?:sont les )?personnes(?: qui)?\b", "qui"),
        (r"\bc est qui\b", "qui"),
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
            r"\bquel(?:le)? est (?:le |la |l )?(?:delai|duree)s?(?: d attente)? (?:pour |de |du |des |d )",
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
            r"\bquels? (?:sont )?(?:les |vos |l )?(?:horaires?|heures?)(?: d ouverture)? (?:de |du |des |d )",
            "quand ouvrir ",
        ),
        (
            r"\b(?:a |en )?quel (?:endroit|lieu)|\bdans quel (?:endroit|lieu)|\ba quelle adresse|\bou est ce qu[e ]?",
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
        (r"\bau moins\b", "minimum"),
        (r"\bau plus\b", "maximum"),
        (r"\ben ligne\b|\bsur internet\b|\bpar internet\b|\bsur le web\b", "en_ligne"),
        (r"\be mails?\b|\bmails?\b|\bcourriels?\b|\bcourriers? electroniques?\b", "courriel"),
        (r"\b(?:toutes|tous) (?:les|mes|nos|vos|ses|leurs)\b", "tous"),
    ),
    kinds=(
        (r"(?:(?:a|de|par|pour|avec|chez|contre) )?qui\b", "who"),
        (r"(?:depuis |jusqu a |a partir de )?quand\b", "when"),
        (r"(?:d )?ou\b", "where"),
        (r"pourquoi\b", "why"),
        (r"comment\b", "how"),
        (r"(?:pendant |en |sous |dans )?combien de temps\b", "how_long"),
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
        (r"\b(?:quel|quelle|quels|quelles|quoi)\b", "what"),
        (
            r"\best ce (?:que|qu)\b|\b\w+ (?:t il|t elle|t on|t ils|t elles)\b|\b(?:puis|peux|dois|suis|ai|vais|serai|aurai|pourrai|devrai) je\b|\b(?:faut|peut|doit|est|sont|ont|doivent|peuvent|sera|seront) (?:il|elle|on|ils|elles)\b|\b(?:avez|pouvez|etes|acceptez|proposez|faites|livrez|prenez|remboursez) vous\b",
            "yes_no",
        ),
    ),
    modalities=(
        (
            r"\b(?:dois|doit|doivent|devons|devez|faut|obligatoire|obligatoires|obligee?s?|necessaire|tenue?s? de|exige|imperatif)\b",
            "obligation",
        ),
        (
            r"\b(?:puis|peut|peux|peuvent|pouvons|pouvez|possible|le droit|autorisee?s?|permis de|permet)\b",
            "permission",
        ),
        (
            r"\b(?:devrais|devrait|faudrait|conseillee?|recommandee?|vaut mieux|ferais mieux)\b",
            "advice",
        ),
    ),
    past=r"\b(?:etait|etaient|etais|avait|avaient|avais|fut|furent|ont ete|a ete)\b",
    present=r"\b(?:est|sont|suis|sera|seront|serai|serait|va|vont)\b(?! ce)",
    ignored=words(
        """
        le la les l un une des du d de au aux a et ou y en ce cet cette ces c ca cela ceci que qu quoi qui quel quelle
        quels quelles lequel laquelle lesquels lesquelles dont comment quand combien pourquoi je j tu il elle on nous
        vous ils elles me m te t se s lui leur leurs moi toi soi eux mon ma mes ton ta tes son sa ses notre nos votre
        vos si est es sont suis sommes etes etre ete etait etaient serait sera seront soit ai as avons avez ont avoir
        aura avait aurait eu puis peut peux peuvent pouvez pouvons pourrait pourrais pouvoir dois doit doivent devez devons devoir
        devrais devrait faut faudrait falloir fait faire fais font faites va vais vont aller vas pour par dans sur sous chez avec vers
        entre lors pendant afin comme donc or car mais alors ainsi tres bien vraiment juste simplement
        exactement actuellement concretement generalement normalement habituellement normal procedure procedures demarche
        demarches marche suivre etape etapes formalite formalites effectuer accomplir entreprendre proceder necessaire necessaires
        possible obligatoire obligatoires voudrais veux veut souhaite souhaiterais aimerais besoin vouloir souhaiter
        existe exister concernant propos cas niveau lorsque quelque chose svp merci bonjour la-bas ici ci
        toujours permis_de gens personnes personne quelqu autorise autorisee
        obligee oblige tenu tenue obligation droit_de moyen facon maniere afin lequelle limite_de
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
        Marker.PLACE: "dans en sur sous chez pres lors pendant entre",
        Marker.CLAUSE: "si quand lorsque afin que qu et ou mais qui dont",
    },
    directional=words(
        """
        virer virement transferer transfert passer passage migrer migration vol train trajet voyage voyager billet
        convertir conversion vendre donner don lettre envoyer basculer echanger aide bus navette route distance
        """
    ),
    synonyms="""
        ouvrir | ouvert | ouverte | ouverts | ouvertes | ouverture | ouvre | ouvrent
        fermer | fermeture | clore | cloturer | cloture | fermee
        payer | paye | paie | paiement | paiements | regler | reglement de facture
        perdre | perdu | perdue | perdus | perte | egarer | egare | egaree
        voler | vole | volee | derober | derobe
        vendre | vendu | vente | ventes | revendre
        acheter | achat | achats
        recevoir | recu | recue | recus | reception | recoit | recevra
        inscrire | inscription | inscriptions | inscrit | inscrite | inscrits | inscrivez
        obtenir | obtient | obtenu | obtenue | obtention | avoir droit
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
        consulter | consultation
        reporter | report
        demenager | demenagement
        demissionner | demission
        enfant | enfants | gosse
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
        beneficier | benefice | toucher | percevoir
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
        autoriser | autorise | autorisation | autorisee
        duree
        valable | valide | validite
        gratuit | gratuite | gratuitement | gratuits
        payant | payante
        premier | premiere | 1er | 1ere
        dernier | derniere | derniers | dernieres
        tous | tout | toute | toutes | chaque
        certains | certaines | quelques
        seulement | uniquement | exclusivement | ne que
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
        prevenir | avertir | informer | information
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
        rompre | rupture
        declencher | declenchement
        proprietaire | bailleur
        locataire
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
        "tous certains seulement aussi plus moins minimum maximum premier dernier adulte enfant encore deja meme autre jamais mineur"
    ),
    temporal=words(
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre lundi mardi mercredi jeudi "
        "vendredi samedi dimanche demain hier aujourdhui matin soir nuit ete hiver printemps automne"
    ),
    lookalikes=words(
        "prescription proscription infraction effraction allocation allocution collision collusion conversion "
        "conversation eruption irruption evocation revocation affection infection adoption adaptation "
        "acception acceptation inclinaison inclination attention intention"
    ),
)
