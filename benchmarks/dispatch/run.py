"""Measure dispatch: how often the right one of three agents is chosen, and how often the default is.

    python -m benchmarks.dispatch.run [--model universal-sentence-encoder-multilingual-3] [--cache FOLDER]

Three agents as staff would describe them: the CNIL's FAQ, the sheets of service-public.fr, and the covid FAQ of public
bodies (its answers only, so that no question of it is in the index), from the folder named by REPONDANT_DATA.
Questions: those of `benchmarks/retrieval` and `benchmarks/followups` for the first two, a sample of the covid FAQ's own
for the third. Each falls into one of two halves by lot: a margin is chosen on the first and reported on the second.
Writes nothing but `--cache`.
"""

import argparse
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.utils.module_loading import import_string

from benchmarks.retrieval.run import (
    DATA,
    HERE,
    MODELS,
    REFORMULATIONS,
    Corpus,
    Vectorizer,
    best_relevance,
    embed_payloads,
    fill_matrix,
    read_cnil,
    read_jsonl,
    read_service_public,
)
from chat.turn.dispatch import Margins, choose_agent, description_lines, margins_of, nearness
from knowledge.embeddings.base import Embedder, Purpose
from knowledge.thresholds import Rate, threshold_profile

#: Written from what each body says of itself, without looking at a question.
DESCRIPTIONS = {
    "cnil": """\
Protection des données personnelles, RGPD, cookies et vie privée sur internet
Fichiers (FICP, FICOBA, TAJ, casier judiciaire), droit d'accès et de rectification
Surveillance des salariés, caméras, géolocalisation, recrutement
Démarchage commercial, spam, piratage, usurpation d'identité
Données de santé, dossier médical, numéro de sécurité sociale
Déclarations et formalités à la CNIL, délégué à la protection des données""",
    "service_public": """\
Démarches administratives : carte d'identité, passeport, acte de naissance, carte grise, permis de conduire
Famille : mariage, pacs, naissance, allocations familiales, congé maternité
Logement : location, préavis, aides au logement, permis de construire, logement social
Travail : contrat, démission, licenciement, congés payés, salaire, chômage
Impôts, retraites, épargne et prestations sociales
Élections, nationalité française, étrangers, justice""",
    "covid": """\
Épidémie de Covid-19 : symptômes, dépistage, masques, gestes barrières, confinement
Attestation de déplacement, déconfinement, fermetures d'écoles et de commerces
Aides aux entreprises, activité partielle, fonds de solidarité, report de cotisations pendant la crise sanitaire
Médicaments et traitements pendant l'épidémie de coronavirus
Handicap, établissements médico-sociaux et culture pendant la crise sanitaire""",
}
#: The first agent is the default one.
DESCRIPTIONS = {name: DESCRIPTIONS[name] for name in ("service_public", "cnil", "covid")}
_SAMPLE = 200
_MARGINS = tuple(round(step / 100, 2) for step in range(21))
#: The chosen margin sends at most this share of questions to the default.
_MOST_DEFAULT = 0.08
_NEVER = 9.0
_TAGS = re.compile(r"<[^>]+>")


@dataclass(frozen=True, slots=True)
class Asked:
    question: str
    agent: str
    is_dev: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wrong`: a specialist was chosen and is not the right one. `default`: the margin was too small."""

    right: Rate
    wrong: Rate
    default: Rate


def read_questions(folder: Path) -> list[Asked]:
    chooser = random.Random(20)  # noqa: S311 - a sample, not a secret
    texts: dict[str, list[str]] = {name: [] for name in DESCRIPTIONS}
    for path in (HERE.parent / "thresholds" / REFORMULATIONS, HERE / REFORMULATIONS):
        texts["cnil"] += [row["question"] for row in read_jsonl(path)]
    texts["service_public"] = [row["question"] for row in read_jsonl(HERE / "service_public_questions.jsonl")]
    corpora = {"cnil_faq": "cnil", "service_public": "service_public"}
    for row in read_jsonl(HERE.parent / "followups" / "dialogues.jsonl"):
        texts[corpora[row["corpus"]]].append(row["standalone"])
    covid = [row["question"] for row in read_jsonl(folder / "covid_faq_fr.jsonl")]
    texts["covid"] = chooser.sample([text for text in covid if "?" in text], _SAMPLE)
    return [
        Asked(question, agent, chooser.random() < 0.5)
        for agent, questions in texts.items()
        for question in dict.fromkeys(questions)
    ]


def read_covid(folder: Path) -> Corpus:
    corpus = Corpus()
    for chunk, row in enumerate(read_jsonl(folder / "covid_faq_fr.jsonl")):
        corpus.add_chunk(chunk, _TAGS.sub(" ", row["answer_html"]), title="covid")
    return corpus


READERS = {"cnil": read_cnil, "service_public": read_service_public, "covid": read_covid}


@dataclass(frozen=True, slots=True)
class Signs:
    """For each question: the relevance of the three indexes and the nearness of the three descriptions."""

    asked: list[Asked]
    relevance: list[list[float]]
    near: list[list[float]]

    def outcome(self, margins: Margins, *, is_dev: bool, agent: str = "") -> Outcome:
        names = list(DESCRIPTIONS)
        right = wrong = default = total = 0
        for each, relevance, near in zip(self.asked, self.relevance, self.near, strict=True):
            if each.is_dev is not is_dev or agent not in ("", each.agent):
                continue
            choice = choose_agent(relevance, near, margins)
            is_right = names[choice.position] == each.agent
            total += 1
            right += is_right
            default += choice.by == "default"
            wrong += choice.by != "default" and not is_right
        return Outcome(Rate(right, total), Rate(wrong, total), Rate(default, total))


def read_signs(model: str, vectors: Vectorizer, folder: Path) -> Signs:
    profile = threshold_profile(model)
    weight = (profile.lexical_weight if profile else None) or 0.0
    asked = read_questions(folder)
    questions = vectors([each.question for each in asked], Purpose.QUERY, "questions")
    lines = [description_lines(name, text) for name, text in DESCRIPTIONS.items()]
    rows = [vectors(each, Purpose.QUERY, "descriptions") for each in lines]
    indexes = []
    for name in DESCRIPTIONS:
        corpus = READERS[name](folder)
        matrix, _taken = fill_matrix(corpus.payloads, embed_payloads(vectors, corpus.payloads))
        indexes.append((matrix.snapshot(), corpus.payloads))
    relevance = [
        [best_relevance(index, payloads, each.question, row, weight) for index, payloads in indexes]
        for each, row in zip(asked, questions, strict=True)
    ]
    return Signs(asked, relevance, [nearness(row, rows) for row in questions])


def proposed(signs: Signs, description: float) -> float:
    """The widest margin that leaves few questions to the default, on the first half."""
    return max(
        margin
        for margin in _MARGINS
        if margin == 0.0 or signs.outcome(Margins(margin, description), is_dev=True).default.rate <= _MOST_DEFAULT
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Which agent answers.")
    parser.add_argument("--model", choices=MODELS, default=next(iter(MODELS)))
    parser.add_argument("--cache", type=Path, help="folder for the vectors, outside the repository")
    options = parser.parse_args(arguments)
    if not DATA.is_dir():
        print(f"No data at {DATA}: set REPONDANT_DATA.", file=sys.stderr)
        return 2
    embedder: Embedder = import_string(MODELS[options.model])()
    signs = read_signs(options.model, Vectorizer(embedder, options.cache), DATA)
    used = margins_of(options.model)
    own = proposed(signs, used.description)
    ways = {
        "descriptions alone": Margins(_NEVER, 0.0),
        "indexes alone, no margin": Margins(0.0, _NEVER),
        f"proposed by the first half: {own}": Margins(own, used.description),
        f"production: {used.index}, then descriptions {used.description}": used,
    }
    print(options.model)
    print("| half | by | right agent | wrong specialist | fell to the default |")
    print("| --- | --- | --- | --- | --- |")
    for half, is_dev in (("first", True), ("second", False)):
        for way, margins in ways.items():
            show(f"{half} | {way}", signs.outcome(margins, is_dev=is_dev))
    for agent in DESCRIPTIONS:
        show(f"second, {agent} | production", signs.outcome(used, is_dev=False, agent=agent))
    return 0


def show(title: str, outcome: Outcome) -> None:
    print(f"| {title} | {outcome.right} | {outcome.wrong} | {outcome.default} |")


if __name__ == "__main__":
    sys.exit(main())
