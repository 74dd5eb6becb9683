"""The model's questions for the chunks that wait for some: in parallel with a limit, kept one by one, cancellable.

A chunk is asked about once: what the model wrote, and what was refused of it with the reason, is stored before the next
run, so a run that was cut goes on where it was and a second run makes no call. Only a reply that could not be read is
asked for again.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial

from django.conf import settings
from django.utils.translation import gettext as _

from agents.exceptions import LLMError
from agents.llm.base import LanguageModel
from knowledge.indexing.report import IndexReport, OnProgress
from knowledge.models import BuildPhase, Chunk, Document, UnitsOrigin
from knowledge.qa_generation import PROMPT_VERSION, GeneratedUnits, generate_units
from knowledge.reading.chunking import units_as_json

#: Errors of the model in a row after which the rest is left waiting: the server is down, and each call waits for it.
_FAILURES_IN_A_ROW = 3


def complete_units(
    model: LanguageModel,
    documents: Sequence[Document],
    report: IndexReport,
    on_progress: OnProgress,
) -> None:
    """Have the model write the questions of waiting chunks; one that fails leaves its chunk waiting."""
    asked = [
        (document, chunk)
        for document in documents
        for chunk in document.chunks.served().waiting().order_by("index")
        if chunk.asked_with != _signature(model, chunk)
    ]
    if not asked:
        return
    on_progress(0, len(asked), BuildPhase.QUESTIONS)
    failures = 0
    with ThreadPoolExecutor(
        settings.UNIT_GENERATION_PARALLEL, thread_name_prefix="questions"
    ) as pool:
        for done, (document, chunk, future) in enumerate(_answers(pool, model, asked), start=1):
            try:
                generated = future.result()
            except LLMError as error:
                failures += 1
                report.may_pass = report.may_pass or error.retryable
                if failures == 1:
                    report.skip(document.name, str(error.public_message))
            else:
                failures = 0
                _keep(chunk, generated, _signature(model, chunk), report, document)
            if failures >= _FAILURES_IN_A_ROW:
                report.skip(
                    document.name,
                    _("Le modèle ne répond plus : les passages suivants restent en attente."),
                )
                return
            on_progress(done, len(asked), BuildPhase.QUESTIONS)


def _answers(
    pool: ThreadPoolExecutor, model: LanguageModel, asked: Sequence[tuple[Document, Chunk]]
) -> Iterator[tuple[Document, Chunk, "Future[GeneratedUnits]"]]:
    """Replies as they come; no more questions are under way than the pool has threads."""
    waiting = iter(asked)
    running: dict[Future[GeneratedUnits], tuple[Document, Chunk]] = {}
    try:
        while True:
            while len(running) < settings.UNIT_GENERATION_PARALLEL:
                following = next(waiting, None)
                if following is None:
                    break
                # A context of its own for each thread: the call names the request that it is made for.
                ask = partial(copy_context().run, _ask, model, *following)
                running[pool.submit(ask)] = following
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                document, chunk = running.pop(future)
                yield document, chunk, future
    finally:
        for future in running:
            future.cancel()


def _ask(model: LanguageModel, document: Document, chunk: Chunk) -> GeneratedUnits:
    return generate_units(
        model,
        title=document.title or document.name,
        parent_context=chunk.parent_context,
        content=chunk.content,
        language=document.language,
    )


def _signature(model: LanguageModel, chunk: Chunk) -> str:
    return f"{model.default_model[:200]}:{PROMPT_VERSION}:{chunk.content_hash}"


def _keep(
    chunk: Chunk, generated: GeneratedUnits, signature: str, report: IndexReport, document: Document
) -> None:
    report.model_calls += generated.model_calls
    report.prompt_tokens += generated.prompt_tokens
    report.completion_tokens += generated.completion_tokens
    report.rejected += len(generated.rejected)
    changes: dict[str, object] = {
        "rejected_units": [
            {"question": each.question, "reason": each.reason} for each in generated.rejected
        ],
        "asked_with": signature if generated.is_readable else "",
    }
    if not generated.is_readable:
        report.skip(document.name, generated.rejected[0].reason)
    if generated.units:
        changes |= {
            "knowledge_units": units_as_json(generated.units),
            "units_origin": UnitsOrigin.GENERATED,
            "summary": generated.summary,
            "keywords": list(generated.keywords),
        }
    # Staff may have written questions meanwhile: theirs stand.
    Chunk.objects.waiting().filter(pk=chunk.pk, content=chunk.content).update(**changes)
