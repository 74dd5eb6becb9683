"""An index run over the bare embedding time of the same texts: `python -m benchmarks.indexing.run`.

The run is everything that `add_documents` does with files: store, read in the child process, cut, plan, embed, write.
The bare time is the embedder's own verb over exactly the texts that the run embedded. On a machine that others use,
compare by processor time. With `--parts` both are timed in turns, so that a busy moment falls on both; each part is
then a run of its own, with a reader process of its own.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

WORDS = (
    "carte lecteur bibliothèque mairie dossier demande pièce délai recours contrat durée salarié congé employeur "
    "mois euros montant impôt logement loyer bail caution préavis retraite pension enfant école inscription permis "
    "véhicule immatriculation passeport identité visite médecin soin remboursement assurance sinistre plainte juge"
).split()
SECTIONS_PER_FILE = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=5_000)
    parser.add_argument("--words", type=int, default=60, help="of each chunk")
    parser.add_argument("--parts", type=int, default=1, help="runs, timed in turns")
    parser.add_argument("--model", default="", help="EMBEDDING_MODEL; the default one if empty")
    parser.add_argument("--folder", type=Path, help="its files instead of made-up ones")
    options = parser.parse_args()
    files = files_of(options.folder) or make_files(options.chunks, options.words)
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder, options.model)
        measure(files, options.parts)


def prepare(folder: str, model: str) -> None:
    os.environ.update(
        DJANGO_SETTINGS_MODULE="config.settings",
        DATA_DIR=folder,
        DATABASE_URL=f"sqlite:///{folder}/bench.db",
        EMBEDDING_MODEL=model,
        LOG_LEVEL="ERROR",
        OPENAI_API_KEY="",
        OPENAI_BASE_URL="",
    )
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)


def measure(files: list[tuple[str, bytes]], parts: int) -> None:
    from agents.models import Agent, IndexingMethod
    from knowledge.embeddings.base import Purpose, embedder
    from knowledge.indexing.path import index_documents, store_document
    from knowledge.indexing.points import plan_document
    from knowledge.vectors.payloads import embedded_text

    agent = Agent.objects.create(slug="bench", name="bench")
    embedder().warm_up()
    bare = whole = bare_cpu = whole_cpu = 0.0
    texts = 0
    size = max(1, -(-len(files) // parts))
    for start in range(0, len(files), size):
        started, before = time.perf_counter(), cpu_seconds()
        documents = [
            store_document(agent=agent, name=name, data=data).document for name, data in files[start : start + size]
        ]
        report = index_documents(agent=agent, documents=documents)
        whole += time.perf_counter() - started
        whole_cpu += cpu_seconds() - before
        embedded = [
            embedded_text(point.payload)[0]
            for document in documents
            for point in plan_document(document, IndexingMethod.QA_ATOMIC)
        ]
        assert report.embedded == len(embedded)
        started, before = time.perf_counter(), cpu_seconds()
        embedder().embed(embedded, purpose=Purpose.PASSAGE)
        bare += time.perf_counter() - started
        bare_cpu += cpu_seconds() - before
        texts += len(embedded)
        print(
            f"{texts} chunks: {whole:.1f} s / {bare:.1f} s, processor {whole_cpu:.1f} s / {bare_cpu:.1f} s",
            file=sys.stderr,
            flush=True,
        )
    started = time.perf_counter()
    documents = [store_document(agent=agent, name=name, data=data).document for name, data in files]
    again = index_documents(agent=agent, documents=documents)
    second = time.perf_counter() - started
    print("| model | chunks | bare | index run | ratio | by processor time | second run | its embeddings |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {embedder().recipe.model} | {texts} | {bare:.1f} s | {whole:.1f} s | **{whole / bare:.3f}** "
        f"| {whole_cpu / bare_cpu:.3f} | {second:.1f} s | {again.embedded} |"
    )


def cpu_seconds() -> float:
    """Of this process and of the children that have ended: what other programs do does not count."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def files_of(folder: Path | None) -> list[tuple[str, bytes]]:
    paths = sorted(folder.iterdir()) if folder else []
    return [(path.name, path.read_bytes()) for path in paths if path.is_file()]


def make_files(chunks: int, words: int) -> list[tuple[str, bytes]]:
    """Markdown with headings, each section long enough to be a chunk of its own."""
    rng = random.Random(7)  # noqa: S311  # the same texts in every run
    files = []
    for first in range(0, chunks, SECTIONS_PER_FILE):
        sections = [
            f"## Partie {number}\n\n{' '.join(rng.choices(WORDS, k=words)).capitalize()}."
            for number in range(first, min(first + SECTIONS_PER_FILE, chunks))
        ]
        text = f"# Fiche {first}\n\n" + "\n\n".join(sections)
        files.append((f"{first}.md", text.encode()))
    return files


if __name__ == "__main__":
    main()
