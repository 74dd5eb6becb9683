"""The second key: what it must tell apart, what it must forgive, and that it has no direction."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faqs.second_key.agreement import compare_questions
from faqs.second_key.reading import MAX_CHARACTERS
from faqs.second_key.text import prepare, quantities, tokens
from tests.waiting import little_work

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).resolve().parents[3] / "pairs" / "everyday_fr.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]

SAME = [
    ("Quel délai pour un bail de 12 mois ?", "Quel délai pour un bail d'un an ?"),
    ("A 12 month contract, how much is it?", "How much is a one year contract?"),
    ("Le plafond de 1 000 € est-il valable ?", "Le plafond de mille euros est-il valable ?"),
    ("Faut-il un test COVID-19 ?", "Faut-il un test covid ?"),
    ("Comment renouveler mon passeport ?", "bonjour, comment renouveller mon passeport svp ?"),
    ("Combien coûte un passeport ?", "Quel est le prix d’un passeport ?"),
    ("Quand ouvre la mairie ?", "À quelle heure la mairie ouvre-t-elle ?"),
    ("C'est quoi un cookie ?", "Qu'est-ce qu'un cookie ?"),
    ("DMP (dossier médical personnel) : qui peut le lire ?", "Qui peut lire le DMP ?"),
    ("Combien de temps conserver un relevé ?", "Quel est le délai pour conserver un relevé ?"),
    ("Comment est calculée la prime ?", "Comment la prime est-elle calculée ?"),
    ("Puis-je partir sans aucun bagage ?", "Puis-je partir sans bagage ?"),
    ("Est-ce ouvert à 14h30 ?", "Est-ce ouvert à 14:30 ?"),
    ("Where can I park near the town hall?", "Near the town hall, where can I park?"),
    ("How do I cancel my order?", "Hi, could you tell me how to cancel my order, please?"),
    ("Is the shop open at 7am?", "Is the shop open at 7 am?"),
    ("Why isn't my card working?", "why is my card not working"),
    ("How do I read my electricity meter?", "How do I read my electricty meter?"),
    ("What's the price of a ticket?", "How much is a ticket?"),
]

DIFFERENT = [
    ("number", "Quelle aide pour 2 enfants ?", "Quelle aide pour 3 enfants ?"),
    ("number", "What is 15% of 200?", "What is 50% of 200?"),
    ("date", "Quel est le barème 2023 ?", "Quel est le barème 2024 ?"),
    ("date", "Is it open on Monday?", "Is it open on Friday?"),
    ("unit", "Le préavis est-il de 3 jours ?", "Le préavis est-il de 3 mois ?"),
    ("negation", "Puis-je voyager avec un visa ?", "Puis-je voyager sans visa ?"),
    ("negation", "Is the deposit refundable?", "Is the deposit non-refundable?"),
    ("negation", "Peut-on payer et ne pas voyager ?", "Peut-on ne pas payer et voyager ?"),
    ("polarity", "Comment activer le son ?", "Comment désactiver le son ?"),
    ("polarity", "Is this drug suitable?", "Is this drug unsuitable?"),
    ("polarity", "Que faire avant un accident ?", "Que faire après un accident ?"),
    ("name", "Comment aller à Lyon ?", "Comment aller à Lille ?"),
    ("name", "Does IT reset passwords?", "Does HR reset passwords?"),
    ("question_kind", "Quand payer la taxe ?", "Où payer la taxe ?"),
    ("question_kind", "Can I adopt a cat?", "How do I adopt a cat?"),
    ("modality", "Dois-je assurer mon vélo ?", "Puis-je assurer mon vélo ?"),
    ("tense", "When did the shop open?", "When does the shop open?"),
    ("scope", "Turn the heating on?", "Turn the heating off?"),
    ("content", "Comment résilier mon assurance ?", "Comment résilier mon assurance auto ?"),
    ("role", "Do cats chase dogs?", "Do dogs chase cats?"),
    ("role", "Is a tomato a fruit?", "Is a fruit a tomato?"),
    ("role", "Can my employer sue me?", "Can I sue my employer?"),
    ("role", "Qui a nommé le préfet ?", "Qui le préfet a-t-il nommé ?"),
    ("role", "Passer du permis B au permis C ?", "Passer du permis C au permis B ?"),
    ("role", "Puis-je boire avant de conduire ?", "Puis-je conduire avant de boire ?"),
    ("role", "La reliure à Caen, la typographie à Paris ?", "La reliure à Paris, la typographie à Caen ?"),
    ("role", "Reserve for 2 adults and 3 children", "Reserve for 3 adults and 2 children"),
    ("tense", "When should I change the oil?", "When did I change the oil?"),
    ("content", "Is C++ free?", "Is C# free?"),
]

LOOKALIKES = [
    ("Quel est le tarif annuel ?", "Quel est le tarif annulé ?"),
    ("Mon billet annuel est-il remboursable ?", "Mon billet annulé est-il remboursable ?"),
    ("Peut-on élever des poules en ville ?", "Peut-on enlever des poules en ville ?"),
    ("Comment élever une barrière ?", "Comment enlever une barrière ?"),
    ("Comment ficher un client ?", "Comment fichier un client ?"),
    ("Comment devenir employeur ?", "Comment devenir employé ?"),
    ("Do employers pay the tax?", "Do employees pay the tax?"),
    ("Quel délai de prescription ?", "Quel délai de proscription ?"),
    ("How to export contacts?", "How to import contacts?"),
    ("Un enfant né à l'étranger ?", "Un enfant, pas à l'étranger ?"),
    ("Le gel tient à -5 degrés ?", "Le gel tient à 5 degrés ?"),
    ("Can I cancel his card?", "Can I cancel my card?"),
    ("Le juge peut-il condamner l'État ?", "L'État peut-il condamner le juge ?"),
    ("Qui finance la guerre ?", "Qui finance ?"),
    ("Comment noter un élève ?", "Comment voir notre élève ?"),
    ("Where is the water tank?", "Where is the water, thank you?"),
]

_WORDS = st.sampled_from(
    "comment puis je payer ne pas sans 2 trois 2024 € % mois Lyon COVID-19 le la de à vers avant après "
    "how can i not pay from to the 7am a one year Paris ? , : ( ) ' - né IT".split()
)
_TEXTS = st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=10).map(" ".join))


@pytest.mark.parametrize(("stored", "asked"), SAME)
def test_the_same_question_in_other_words_agrees(stored: str, asked: str) -> None:
    agreement = compare_questions(stored, asked)
    assert agreement.agrees, agreement.disagreements


@pytest.mark.parametrize(("kind", "stored", "asked"), DIFFERENT)
def test_a_trap_disagrees_and_says_why(kind: str, stored: str, asked: str) -> None:
    assert kind in {each.kind for each in compare_questions(stored, asked).disagreements}


@pytest.mark.parametrize(("stored", "asked"), LOOKALIKES)
def test_words_that_look_alike_are_not_typing_errors(stored: str, asked: str) -> None:
    assert not compare_questions(stored, asked).agrees


def test_an_explanation_shows_both_sides() -> None:
    explanation = compare_questions("Le barème 2023 ?", "Le barème 2024 ?").explain()
    assert "2023 ≠ 2024" in explanation
    assert compare_questions("Le barème ?", "Le barème ?").explain() != explanation


def test_french_and_english_never_agree_by_accident() -> None:
    assert not compare_questions("Comment payer la taxe ?", "How do I pay the tax?").agrees


@pytest.mark.parametrize("text", ["Est-elle ?", "sont", "Are they?", "?", ""])
def test_a_question_of_small_words_alone_agrees_with_itself(text: str) -> None:
    assert compare_questions(text, text).agrees


@settings(max_examples=300, deadline=None)
@given(_TEXTS)
def test_a_question_agrees_with_itself(text: str) -> None:
    assert compare_questions(text, text).agrees


@settings(max_examples=300, deadline=None)
@given(_TEXTS, _TEXTS)
def test_agreement_has_no_direction(one: str, two: str) -> None:
    assert compare_questions(one, two).agrees == compare_questions(two, one).agrees


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PAIRS), st.integers(min_value=2, max_value=9000))
def test_an_added_number_always_disagrees(pair: dict[str, str], number: int) -> None:
    asked = pair["a"].rstrip(" ?") + f" numéro {number} ?"
    assert not compare_questions(pair["a"], asked).agrees


def test_french_pairs_keep_their_floor() -> None:
    hits = [compare_questions(p["a"], p["b"]).agrees for p in PAIRS if p["same_answer"]]
    traps = [compare_questions(p["a"], p["b"]).agrees for p in PAIRS if not p["same_answer"]]
    assert len(hits) + len(traps) >= 120
    assert sum(hits) / len(hits) >= 0.80
    assert sum(traps) / len(traps) <= 0.02


@pytest.mark.parametrize("gap", ["\n" * MAX_CHARACTERS, " bonjour" * 300, "?" * MAX_CHARACTERS])
def test_nothing_behind_the_bound_is_ignored(gap: str) -> None:
    stored = "Quel est le montant de la prime ?"
    agreement = compare_questions(stored, f"{stored}{gap} Quelle est la pénalité de retard ?")
    assert not agreement.agrees
    assert not agreement.is_open_to_verification


def test_a_long_text_is_compared_in_reasonable_time() -> None:
    text = ("Comment payer 1 000 € en 12 mois, sans frais ? " * 200)[: MAX_CHARACTERS - 10]
    with little_work(2):
        compare_questions(text, text + " jamais")


_CLEAN = [
    "Comment renouveler mon passeport ?",
    "Quel est le délai de livraison d'un colis ?",
    "Puis-je payer ma facture en plusieurs fois ?",
    "Qui peut consulter mon dossier médical ?",
    "La piscine est-elle ouverte le samedi ?",
    "How do I change my delivery address?",
    "Is the gym open on Sundays?",
    "Where can I collect my parcel?",
    "What documents do I need to open an account?",
]
_POLITE = {
    "fr": ("bonjour, {}", "{} svp", "Bonsoir, {} Merci d'avance", "excusez-moi, {}"),
    "en": ("hi, {}", "{} please", "Hello, {} Thanks in advance", "excuse me, {}"),
}


def _language(text: str) -> str:
    return "en" if text.split()[0] in {"How", "Is", "Where", "What"} else "fr"


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(_CLEAN), st.integers(0, 3), st.sampled_from(("", "lower", "upper")))
def test_accents_case_and_politeness_change_nothing(text: str, polite: int, case: str) -> None:
    asked = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    asked = getattr(asked, case)() if case else asked
    asked = _POLITE[_language(text)][polite].format(asked)
    assert compare_questions(text, asked).agrees, compare_questions(text, asked).disagreements


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PAIRS), st.integers(2, 90_000), st.integers(2, 90_000), st.booleans())
def test_another_number_always_disagrees(pair: dict[str, str], one: int, two: int, unit: bool) -> None:
    text = pair["a"].rstrip(" ?") + (" pour {} euros ?" if unit else " dossier {} ?")
    agrees = compare_questions(text.format(one), text.format(two)).agrees
    assert agrees == (one == two)


_AFFIRMATIONS = [
    ("Puis-je payer ma facture ?", "Puis-je ne pas payer ma facture ?"),
    ("Quels soins sont remboursés ?", "Quels soins ne sont pas remboursés ?"),
    ("Que faire si le colis arrive ?", "Que faire si le colis n'arrive jamais ?"),
    ("Peut-on voyager avec un visa ?", "Peut-on voyager sans visa ?"),
    ("Can I pay by card?", "Can I not pay by card?"),
    ("Which fees are included?", "Which fees aren't included?"),
    ("Do staff have access?", "Do staff have no access?"),
    ("Can I enter with a ticket?", "Can I enter without a ticket?"),
]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(_AFFIRMATIONS), st.integers(0, 3), st.booleans())
def test_negating_always_disagrees(pair: tuple[str, str], polite: int, swapped: bool) -> None:
    language = "en" if pair[0].startswith(("Can", "Which", "Do")) else "fr"
    stored, asked = reversed(pair) if swapped else pair
    assert not compare_questions(stored, _POLITE[language][polite].format(asked)).agrees


HARD_TRAPS = [
    ("Quel est le débit de 100 Mb/s ?", "Quel est le débit de 100 Mo/s ?"),
    ("Une remise de 10 %", "Une remise de 10 €"),
    ("Un prêt de 150 k€ ?", "Un prêt de 150 M€ ?"),
    ("Le magasin ouvrait à 9h ?", "Le magasin ouvre à 9h ?"),
    ("Mon dossier est-il traité ?", "Mon dossier sera-t-il traité ?"),
    ("Qui peut signer le contrat ?", "Qui doit signer le contrat ?"),
    ("Puis-je vous envoyer le dossier ?", "Pouvez-vous m'envoyer le dossier ?"),
    ("Comment payer mes parents ?", "Comment mes parents paient-ils ?"),
    ("Quels sont vos horaires de livraison ?", "Quels sont mes horaires de livraison ?"),
    ("Le directeur est-il nommé par le conseil ?", "Le directeur nomme-t-il le conseil ?"),
    ("Comment exercer mon droit d'accès ?", "Comment exercer mon accès ?"),
    ("Can I send you the file?", "Can you send me the file?"),
    ("Comment mon fils peut-il m'héberger ?", "Comment puis-je héberger mon fils ?"),
    ("How can my doctor contact me?", "How can I contact my doctor?"),
    ("How do you call me back?", "How do I call you back?"),
    ("What do you want to call me?", "What may I call you?"),
    ("Who lends money to banks?", "Who do banks lend money to?"),
    ("Who do I contact?", "Who contacts me?"),
    ("Pourquoi a-t-on fermé la piscine ?", "Pourquoi va-t-on fermer la piscine ?"),
    ("Do you send gift cards?", "Are gift cards sent to you?"),
    ("Do I pay council tax?", "Is council tax paid?"),
]


@pytest.mark.parametrize(("stored", "asked"), HARD_TRAPS)
def test_a_finer_trap_disagrees(stored: str, asked: str) -> None:
    assert not compare_questions(stored, asked).agrees


SAME_SINCE = [
    ("Puis-je verser un quart de mon salaire ?", "Puis-je verser 25 % de mon salaire ?"),
    ("Le rendez-vous de janvier 2025 ?", "Le rendez-vous de 01/2025 ?"),
    ("Un colis peut-il être retiré par un proche ?", "Un proche peut-il retirer un colis ?"),
    ("Que dois-je faire en cas de vol ?", "En cas de vol, que dois-je faire ?"),
    ("Le remboursement arrive quand ?", "Quand arrive le remboursement ?"),
    ("Où acheter un titre de transport ?", "On achète où un titre de transport ?"),
    ("Comment joindre la CAF ?", "Comment contacter la caisse d'allocations familiales ?"),
    ("Quel est le délai de livraison ?", "Je souhaiterais connaître le délai de livraison svp"),
    ("Is my data encrypted?", "Do you encrypt my data?"),
    ("What is the fastest land animal?", "Which land animal is the fastest?"),
    ("Where is the sports center?", "Where is the sports centre?"),
    ("How long should I boil pasta?", "For how long should pasta be boiled?"),
    ("Do you accept credit cards?", "Are credit cards accepted?"),
    ("Who is eligible for the discount?", "Who can get the discount?"),
    ("Qui est éligible à l'aide au logement ?", "Qui a droit à l'aide au logement ?"),
    ("Quand la fête a-t-elle lieu ?", "Quand la fête aura-t-elle lieu ?"),
    ("Comment marche le tri ?", "Comment fonctionne le tri ?"),
    ("Comment mettre fin à mon bail ?", "Comment résilier mon bail ?"),
    ("Quelle est la différence entre un CDD et un CDI ?", "CDD et CDI : quelle différence ?"),
    ("Quels papiers faut-il pour voter ?", "Quels papiers faut-il fournir pour voter ?"),
    ("Comment faire une réclamation ?", "Comment déposer une réclamation ?"),
    ("Un bail peut-il être rompu par le locataire ?", "Le locataire peut-il rompre un bail ?"),
    ("Quelles sont les conditions pour adopter ?", "À quelles conditions peut-on adopter ?"),
]


@pytest.mark.parametrize(("stored", "asked"), SAME_SINCE)
def test_more_ways_of_asking_the_same_agree(stored: str, asked: str) -> None:
    agreement = compare_questions(stored, asked)
    assert agreement.agrees, agreement.disagreements


FLOORS = [
    ("fr_dev", 0.75),
    ("en_dev", 0.55),
    ("fr_operators_dev", 0.75),
    ("en_operators_dev", 0.75),
    ("adversarial_first", 0.70),
    ("adversarial_second", 0.80),
    # Written independently of the rules; what the first measurement, before any rule was changed for them, gave:
    # `benchmarks/thresholds`.
    ("independent_fr", 0.60),
    ("independent_en", 0.64),
    ("frames", 0.86),
]


@pytest.mark.parametrize(("name", "floor"), FLOORS)
def test_newer_pairs_keep_their_floor(name: str, floor: float) -> None:
    """The development halves; the others are measured by `benchmarks/thresholds` and never read by a rule's author."""
    lines = (Path(__file__).resolve().parents[3] / "pairs" / f"{name}.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in lines.splitlines()]
    agrees = [(row["same_answer"], compare_questions(row["a"], row["b"]).agrees) for row in rows]
    hits = [agreed for same, agreed in agrees if same]
    assert sum(hits) / len(hits) >= floor
    assert not any(agreed for same, agreed in agrees if not same)


OPPOSITES = [
    json.loads(line)
    for name in ("operators_review", "operators_probe", "operators_fresh", "rephrasing_traps")
    for line in (Path(__file__).resolve().parents[3] / "pairs" / f"{name}.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


@pytest.mark.parametrize("pair", OPPOSITES, ids=lambda pair: pair["a"])
def test_no_pair_of_opposite_meaning_agrees(pair: dict[str, str]) -> None:
    if pair["category"] == "known error":
        pytest.xfail("« changer d'adresse » is « changer son adresse »; « manquer de » is not known")
    assert not compare_questions(pair["a"], pair["b"]).agrees
    assert not compare_questions(pair["b"], pair["a"]).agrees


OPERATORS = [
    ("number", "What is the price under 10 kg?", "What is the price over 10 kg?"),
    ("number", "Quel tarif au-dessus de 10 kg ?", "Quel tarif au-dessous de 10 kg ?"),
    ("number", "Quel tarif sous 10 kg ?", "Quel tarif sur 10 kg ?"),
    ("number", "Quel prix dès 5 articles ?", "Quel prix pour 5 articles ?"),
    ("number", "Faut-il un âge > 18 ans ?", "Faut-il un âge < 18 ans ?"),
    ("number", "Faut-il un âge ≥ 18 ans ?", "Faut-il un âge > 18 ans ?"),
    ("number", "Les + de 65 ans paient-ils ?", "Les - de 65 ans paient-ils ?"),
    ("number", "Is it free at 65 and over?", "Is it free at 65 and under?"),
    ("scope", "Faut-il la carte et le permis ?", "Faut-il la carte ou le permis ?"),
    ("scope", "Do I need a passport and a visa?", "Do I need a passport or a visa?"),
    ("negation", "Is cash or card accepted?", "Is neither cash nor card accepted?"),
    ("role", "Peut-on vendre à un mineur ?", "Peut-on vendre un mineur ?"),
    ("role", "Can I sell a dog?", "Can I sell to a dog?"),
    ("role", "combien paul doit-il à marie ?", "combien marie doit-elle à paul ?"),
    ("role", "Combien la banque doit-elle au client ?", "Combien le client doit-il à la banque ?"),
    ("role", "Que faire si on me doit une prime ?", "Que faire si je dois une prime ?"),
    ("role", "Il me doit de l'argent, que faire ?", "Je lui dois de l'argent, que faire ?"),
    ("role", "Mon employeur peut-il lire mes courriels ?", "Puis-je lire les courriels de mon employeur ?"),
    ("role", "Mon employeur peut-il lire son courrier ?", "Mon employeur peut-il lire mon courrier ?"),
    ("role", "Mon voisin garde-t-il ma clé ?", "Je garde la clé de mon voisin ?"),
    ("role", "Mon fils a 10 ans, peut-il voter ?", "Mon fils a 10 ans, puis-je voter ?"),
    ("role", "Les parents et les enfants paient-ils ?", "Les parents des enfants paient-ils ?"),
    ("role", "Can I cancel because I moved?", "Can I cancel if I moved?"),
    ("role", "Can I see their invoices?", "Can I see my invoices?"),
    ("role", "Louer la voiture de mon frère ?", "Louer la voiture pour mon frère ?"),
    ("role", "Puis-je payer en deux fois ?", "Puis-je payer deux fois ?"),
    ("role", "Puis-je dénoncer quelqu'un ?", "Quelqu'un peut-il me dénoncer ?"),
    ("role", "Le loyer peut-il augmenter de 5 % ?", "Le loyer peut-il augmenter à 5 % ?"),
    ("role", "Do I pay for delivery?", "Do I pay on delivery?"),
    ("role", "Dois-je payer puis signer ?", "Dois-je signer puis payer ?"),
    ("role", "Do I sign and then pay?", "Do I pay and then sign?"),
    ("scope", "Faut-il soit un diplôme soit un stage ?", "Faut-il un diplôme et un stage ?"),
    ("scope", "Faut-il les deux parents ?", "Faut-il un des deux parents ?"),
    ("scope", "Should I bring my photos?", "Should I bring one of my photos?"),
    ("polarity", "Un revenu au-dessus du seuil ?", "Un revenu au-dessous du seuil ?"),
    ("role", "Peut-on tirer sur un loup ?", "Peut-on tirer un loup ?"),
    ("role", "Can I pay rent to my brother?", "Can I pay rent for my brother?"),
    ("role", "Is everything free but drinks?", "Is everything free and drinks?"),
    ("role", "Is the report due in May?", "Is the report due by May?"),
    ("scope", "Is it paid every 3 months?", "Is it paid for 3 months?"),
]


@pytest.mark.parametrize(("kind", "stored", "asked"), OPERATORS)
def test_a_small_word_that_turns_the_meaning_is_a_clash(kind: str, stored: str, asked: str) -> None:
    for one, two in ((stored, asked), (asked, stored)):
        agreement = compare_questions(one, two)
        assert kind in {each.kind for each in agreement.disagreements}, agreement.disagreements
        assert not agreement.is_open_to_verification


SAME_OPERATORS = [
    ("Quel est le tarif au-dessous de 10 kg ?", "Quel est le tarif sous 10 kg ?"),
    ("Is the fee less than 5%?", "Is the fee under 5%?"),
    ("Les 65 ans et plus paient-ils ?", "Les 65 ans et + paient-ils ?"),
    ("Faut-il un âge > 18 ans ?", "Faut-il un âge supérieur à 18 ans ?"),
    ("Qui peut bénéficier de la prime ?", "Qui a droit à la prime ?"),
    ("Que faire en cas de vol de mon vélo ?", "On m'a volé mon vélo, que faire ?"),
    ("Comment contacter le service client ?", "Comment joindre le service client ?"),
    ("How do I contact the support?", "How do I get in touch with the support?"),
    ("Faut-il soit un diplôme soit un stage ?", "Faut-il un diplôme ou un stage ?"),
    ("Où payer le loyer ou la caution ?", "À quel endroit payer le loyer ou la caution ?"),
]


@pytest.mark.parametrize(("stored", "asked"), SAME_OPERATORS)
def test_small_words_that_say_the_same_agree(stored: str, asked: str) -> None:
    agreement = compare_questions(stored, asked)
    assert agreement.agrees, agreement.disagreements


SAID_BESIDES = [
    ("modality", "Un locataire peut-il avoir une assurance ?", "Un locataire est-il tenu d'avoir une assurance ?"),
    ("modality", "Un stagiaire peut-il avoir un badge ?", "Un stagiaire est-il contraint d'avoir un badge ?"),
    ("modality", "Les salariés peuvent-ils porter un casque ?", "Les salariés sont-ils astreints à porter un casque ?"),
    ("modality", "Peut-on répondre le dimanche ?", "Est-on forcé de répondre le dimanche ?"),
    ("modality", "Puis-je accepter l'offre ?", "Ai-je l'obligation d'accepter l'offre ?"),
    ("modality", "Le bailleur peut-il fournir un reçu ?", "Le bailleur a-t-il l'obligation de fournir un reçu ?"),
    ("modality", "Un élève pourra-t-il rester à la cantine ?", "Un élève devra-t-il rester à la cantine ?"),
    ("modality", "Mon fils peut-il porter l'uniforme ?", "Mon fils est-il dans l'obligation de porter l'uniforme ?"),
    ("modality", "Puis-je avoir un visa pour l'Espagne ?", "Ai-je besoin d'un visa pour l'Espagne ?"),
    ("modality", "Can a tenant have insurance?", "Is a tenant obligated to have insurance?"),
    ("modality", "Can staff wear a badge?", "Are staff bound to wear a badge?"),
    ("modality", "Can I get a visa for Spain?", "Do I need a visa for Spain?"),
    ("modality", "May pupils stay for lunch?", "Are pupils forced to stay for lunch?"),
    ("modality", "Can visitors have a pass?", "Are visitors supposed to have a pass?"),
    ("question_kind", "Comment demander l'APL ?", "Comment demander l'APL et combien vais-je toucher ?"),
    ("question_kind", "Où payer ma facture ?", "Où et quand payer ma facture ?"),
    ("question_kind", "Comment obtenir un badge ?", "Comment obtenir un badge et pourquoi ?"),
    ("question_kind", "Qui peut obtenir la prime ?", "Qui peut obtenir la prime et de combien est-elle ?"),
    ("question_kind", "Comment déclarer un don ?", "Comment déclarer un don et est-ce obligatoire ?"),
    ("question_kind", "Quand renouveler ma carte ?", "Quand renouveler ma carte, et comment ?"),
    ("question_kind", "Combien coûte un passeport ?", "Combien coûte un passeport puis comment l'obtenir ?"),
    ("question_kind", "Comment avoir un visa ?", "Comment avoir un visa et c'est combien ?"),
    ("question_kind", "Combien d'aides puis-je avoir ?", "Comment avoir des aides et combien ?"),
    ("question_kind", "Comment avoir l'aide ?", "combien d'aide et je fais comment ?"),
    ("question_kind", "Quand et où payer ma facture ?", "Comment, quand et où payer ma facture ?"),
    ("question_kind", "Combien d'APL ?", "Comment avoir l'APL ? Combien ?"),
    ("question_kind", "How do I get a badge?", "How do I get a badge and how long will it take?"),
    ("question_kind", "How do I get a refund?", "How do I get a refund and when?"),
    ("question_kind", "Where can I pay my bill?", "Where and when can I pay my bill?"),
    ("question_kind", "Who can get the discount?", "Who can get the discount and how much is it?"),
    ("question_kind", "How do I get a permit?", "How do I get a permit, and then when does it end?"),
    ("question_kind", "How do I get a permit?", "How do I get a permit and why would I need it?"),
    ("question_kind", "How do I report a birth?", "How do I report a birth and do I have to?"),
    ("question_kind", "How do I report a birth?", "How or when do I report a birth?"),
    ("question_kind", "What is a permit?", "What is a permit and where do I get one?"),
    ("scope", "La garantie couvre-t-elle la batterie ?", "La garantie couvre-t-elle juste la batterie ?"),
    ("scope", "Le tarif vaut-il pour les adultes ?", "Le tarif vaut-il juste pour les adultes ?"),
    ("scope", "Faut-il une photo ?", "Faut-il simplement une photo ?"),
    ("scope", "Faut-il une photo ?", "Faut-il juste 1 photo ?"),
    ("scope", "Le contrat couvre-t-il le vol ?", "Le contrat ne couvre-t-il que le vol ?"),
    ("scope", "Est-ce ouvert le lundi ?", "Est-ce ouvert juste le lundi ?"),
    ("scope", "Le prix comprend-il le repas ?", "Le prix comprend-il purement le repas ?"),
    ("scope", "La carte est-elle valable à Lyon ?", "La carte n'est-elle valable qu'à Lyon ?"),
    ("scope", "Does the policy cover theft?", "Does the policy cover just theft?"),
    ("scope", "Does the price include my meal?", "Does the price include just my meal?"),
    ("scope", "Is it open on Mondays?", "Is it open just on Mondays?"),
    ("scope", "Does the ticket cover two zones?", "Does the ticket cover just two zones?"),
    ("scope", "Is the pool for members?", "Is the pool merely for members?"),
    ("scope", "Is the pool for members?", "Is the pool simply for members?"),
    ("scope", "Does the warranty cover the screen?", "Does the warranty just cover the screen?"),
    ("scope", "Is the discount for students?", "Is the discount purely for students?"),
    ("question_kind", "Combien de temps dure la réclamation ?", "Combien de temps ai-je pour une réclamation ?"),
    (
        "question_kind",
        "Combien de temps faut-il pour contester une amende ?",
        "Combien de temps a-t-on pour contester une amende ?",
    ),
    ("question_kind", "Combien de temps prend un recours ?", "Dans quel délai puis-je faire un recours ?"),
    ("question_kind", "Quelle est la durée d'une contestation ?", "Sous quel délai faut-il contester ?"),
    (
        "question_kind",
        "Combien de temps met-on pour déclarer une naissance ?",
        "De combien de temps dispose-t-on pour déclarer une naissance ?",
    ),
    (
        "question_kind",
        "Combien de jours faut-il pour renvoyer un colis ?",
        "Combien de jours ai-je pour renvoyer un colis ?",
    ),
    ("question_kind", "How long is the appeal process?", "How long do I have to appeal?"),
    ("question_kind", "How long does a return take?", "How long do I have to make a return?"),
    ("question_kind", "How long will the complaint be?", "How long do we have to complain?"),
    ("question_kind", "How many days does it take to appeal?", "How many days do I have to appeal?"),
    ("question_kind", "How long does a claim last?", "How long have I got to make a claim?"),
    ("question_kind", "How much time does it take to return a parcel?", "How much time do I have to return a parcel?"),
]


@pytest.mark.parametrize(("kind", "stored", "asked"), SAID_BESIDES)
def test_what_is_said_besides_is_a_clash(kind: str, stored: str, asked: str) -> None:
    """A duty, a second question, « juste » before what it restricts, the time that one has: words once passed over."""
    for one, two in ((stored, asked), (asked, stored)):
        agreement = compare_questions(one, two)
        assert kind in {each.kind for each in agreement.disagreements}, agreement.disagreements


SAME_BESIDES = [
    ("Quand et où payer ma facture ?", "Où et quand payer ma facture ?"),
    ("Where and when can I pay my bill?", "When and where can I pay my bill?"),
    (
        "Comment demander l'aide et combien vais-je toucher ?",
        "bonjour, comment demander l'aide et combien vais-je toucher ?",
    ),
    ("Puis-je juste annuler ma commande ?", "Puis-je annuler ma commande ?"),
    ("Can I just cancel my order?", "Can I cancel my order?"),
    ("La garantie couvre-t-elle juste la batterie ?", "La garantie couvre-t-elle seulement la batterie ?"),
    ("Does it cover just the battery?", "Does it cover only the battery?"),
    ("Quel est le délai pour contester une amende ?", "Combien de temps ai-je pour contester une amende ?"),
    ("Quel est le délai pour contester une amende ?", "Combien de temps faut-il pour contester une amende ?"),
    ("Dans quel délai faut-il déclarer une naissance ?", "Dans quel délai doit-on déclarer une naissance ?"),
    ("How long do I have to keep invoices?", "How long should I keep invoices?"),
    ("How long does a refund take?", "How long is a refund?"),
    ("Est-on tenu d'avoir une assurance ?", "Faut-il avoir une assurance ?"),
]


@pytest.mark.parametrize(("stored", "asked"), SAME_BESIDES)
def test_what_is_said_besides_on_both_sides_agrees(stored: str, asked: str) -> None:
    agreement = compare_questions(stored, asked)
    assert agreement.agrees, agreement.disagreements


def test_two_kinds_and_a_time_to_act_are_explained_in_words() -> None:
    double = compare_questions("Où payer ?", "Où et quand payer ?").explain()
    assert "où ≠ quand + où" in double
    assert (
        "délai pour agir ≠ durée"
        in compare_questions("Combien de temps ai-je pour un recours ?", "Combien de temps dure un recours ?").explain()
    )


SAME_REPHRASED = [
    ("Par qui le dossier est-il instruit ?", "Qui instruit le dossier ?"),
    ("Par qui est nommé le préfet ?", "Qui nomme le préfet ?"),
    ("Pourquoi mon colis a-t-il été refusé par le gardien ?", "Pourquoi le gardien a refusé mon colis ?"),
    ("Quand les primes sont-elles versées aux agents ?", "Quand verse-t-on les primes aux agents ?"),
    ("Le jeudi, à quelle heure ferme le guichet ?", "À quelle heure le guichet ferme-t-il le jeudi ?"),
    ("Puis-je annuler dans les trois semaines ?", "Puis-je annuler sous 21 jours ?"),
    ("Combien coûte le badge ?", "prix du badge"),
    ("Quels sont les horaires du musée ?", "horaires musée"),
    ("Pourquoi je ne peux pas me connecter ?", "Pourquoi impossible de me connecter ?"),
    ("Je ne peux pas ouvrir mon compte, que faire ?", "Je n'arrive pas à ouvrir mon compte, que faire ?"),
    ("Combien de valises puis-je emporter ?", "On ne m'a pas dit combien de valises je pouvais emporter."),
    ("Pourquoi ma carte est-elle refusée ?", "Je ne comprends pas pourquoi ma carte est refusée"),
    ("Comment obtenir un badge ?", "Je voudrais un badge, pouvez-vous me dire comment faire ?"),
    ("Quand ouvre la piscine ?", "qd ouvre la piscine"),
    ("Comment fermer mon compte professionnel ?", "comment fermer mon compte pro"),
    ("Le bailleur doit-il fournir une quittance ?", "Le bailleur est-il tenu de fournir une quittance ?"),
    ("Le bailleur doit-il fournir une quittance ?", "Le bailleur est-il dans l'obligation de fournir une quittance ?"),
    ("La carte est-elle valable uniquement à Lyon ?", "La carte n'est-elle valable qu'à Lyon ?"),
    ("Quelle aide pour les personnes à mobilité réduite ?", "Quelle aide pour les PMR ?"),
    ("Comment activer la double authentification ?", "Comment activer l'authentification à deux facteurs ?"),
    ("Où garer mon vélo ?", "Où garer ma bicyclette ?"),
    ("Who trains the volunteers?", "By whom are the volunteers trained?"),
    ("Why was my claim rejected by the insurer?", "Why did the insurer reject my claim?"),
    ("How is the annual fee calculated by the housing board?", "How does the housing board calculate the annual fee?"),
    ("Is parking included in the room rate?", "Does the room rate include parking?"),
    ("What is the deadline for the form?", "Hello, could you tell me the deadline for the form please?"),
    ("How do I close my account?", "Sorry to disturb you, would you mind telling me how to close my account?"),
    ("Where is the first aid room?", "Any chance you could tell me where the first aid room is?"),
    ("How do I get a parking permit?", "I'd like a parking permit, could you explain how to get one?"),
    ("Why did my rent go up?", "Nobody has told me why my rent went up."),
    ("Why can't I log in?", "I am unable to log in, why is that?"),
    ("Where can I pay my rent?", "where can i pay my rent pls"),
    ("How long do you keep my data?", "how long do u keep my data"),
    ("How do I book an appointment with the doctor?", "how do i book an appt with the dr"),
    ("How much does a new key cost?", "cost of a new key"),
    ("When is the library open?", "opening times for the library"),
    ("Can I keep a dog in my flat?", "Can I keep a dog in my apartment?"),
    ("How many flats are free?", "How many apartments are free?"),
    ("Where is the car park?", "Where is the parking lot?"),
    ("How do I renew my driving licence?", "How do I renew my driver's license?"),
    ("Where is the nearest cash machine?", "Where is the nearest ATM?"),
    ("How old must children be to swim alone?", "At what age can children swim alone?"),
    ("How do I enable two-factor authentication?", "How do I enable 2FA?"),
    ("Who collects the trash?", "Who collects the garbage?"),
    ("Puis-je être remboursé ?", "Puis-je me faire rembourser ?"),
]


@pytest.mark.parametrize(("stored", "asked"), SAME_REPHRASED)
def test_wrappers_short_forms_and_the_passive_agree(stored: str, asked: str) -> None:
    agreement = compare_questions(stored, asked)
    assert agreement.agrees, agreement.disagreements


ACTING_OR_NOT = [
    ("When do students pay?", "When are students paid?"),
    ("How do nurses train?", "How are nurses trained?"),
    ("Can tenants charge?", "Can tenants be charged?"),
    ("Am I charged for parking?", "Do I charge for parking?"),
    ("Comment les clients remboursent-ils ?", "Comment les clients sont-ils remboursés ?"),
    ("Quand le professeur est-il payé ?", "Quand le professeur paie-t-il ?"),
    ("Who pays?", "Who is paid?"),
    ("By whom is it paid?", "Who is paid?"),
    ("Qui rembourse ?", "Qui est remboursé ?"),
    ("Qui peut être remboursé ?", "Qui peut rembourser ?"),
    ("Puis-je payer ?", "Puis-je être payé ?"),
    ("Un client peut-il rembourser ?", "Un client peut-il être remboursé ?"),
    ("Je n'arrive pas à payer, que faire ?", "Je n'ai pas payé, que faire ?"),
    ("I can't open my account, what do I do?", "I haven't opened my account, what do I do?"),
]


@pytest.mark.parametrize(("stored", "asked"), ACTING_OR_NOT)
def test_to_act_and_to_be_acted_upon_are_two_things(stored: str, asked: str) -> None:
    assert not compare_questions(stored, asked).agrees
    assert not compare_questions(asked, stored).agrees


@pytest.mark.parametrize(
    ("text", "value"), [("$5 an hour", 5), ("€1,250 a year", 1250), ("a £5 charge", 5), ("vingt et un euros", 21)]
)
def test_article_beside_a_price_is_no_part_of_it(text: str, value: int) -> None:
    found = [quantity for _start, _end, quantity in quantities(tokens(prepare(text)))]
    assert found[0].value == value
