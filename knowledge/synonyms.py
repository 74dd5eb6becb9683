"""The forms of an agent, as rows: what its documents teach, what its staff decided, and the table that questions are
read by.

A document teaches when its points are written, from the chunks that are served; what it no longer says goes, unless
another document says it or staff confirmed it. Each process caches the table for `CONFIG_CACHE_SECONDS`.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils.translation import gettext as _

from agents.cache import TtlCache
from knowledge.acronyms import NO_FORMS, Form, Forms, letters_of, spelled_out
from knowledge.language.words import fold, word_class, words
from knowledge.models import Chunk, Document, Synonym, SynonymState
from knowledge.search import answers_above

#: Of one document; more are the entries of a dictionary.
MOST_OF_A_DOCUMENT = 1_000
_SHORT_CHARACTERS = 60
_LONG_CHARACTERS = 300

_tables: TtlCache[Forms] = TtlCache("CONFIG_CACHE_SECONDS")


def tell_new_forms(agent_id: int, forms: Sequence[Form]) -> None:
    """Have the validated answers applied again, after the commit, because of new forms."""
    if forms:
        transaction.on_commit(partial(answers_above().settle_again, agent_id, Forms(tuple(forms))))


def keys_of(short: str, long: str) -> tuple[str, str]:
    """The keys by which a pair is one row: « R.Q.T.H. » is « RQTH », and words are folded."""
    return (letters_of(short) or fold(short))[:_SHORT_CHARACTERS], " ".join(fold(long).split())[:_LONG_CHARACTERS]


def forms_of(agent_ids: Sequence[int]) -> Forms:
    """The forms by which the agents' questions are read, cached; refused pairs are left out. May query the database."""
    if not agent_ids:
        return NO_FORMS
    key = tuple(sorted(agent_ids))
    return _tables.get(lambda: read_forms(key), key)


def read_forms(agent_ids: Sequence[int]) -> Forms:
    """The agents' forms from the rows, uncached, for a caller that writes by them; one query."""
    rows = Synonym.objects.filter(agent__in=agent_ids).exclude(state=SynonymState.REFUSED)
    pairs = rows.order_by("pk").values_list("short", "long", "state")
    return Forms(tuple(Form(short, long, state == SynonymState.CONFIRMED) for short, long, state in pairs))


def learn_from(documents: Iterable[Document]) -> None:
    """Update what each document teaches to its current text; a disabled document teaches nothing."""
    for document in documents:
        with transaction.atomic():
            served = Chunk.objects.served().filter(document=document).order_by("index")
            texts = served.values_list("parent_context", "content")
            found = [pair for text in texts for pair in spelled_out("\n\n".join(text))]
            taught = {keys_of(pair.short, pair.long): pair for pair in found[:MOST_OF_A_DOCUMENT]}
            rows = [
                Synonym(
                    agent_id=document.agent_id,
                    short=pair.short[:_SHORT_CHARACTERS],
                    long=pair.long[:_LONG_CHARACTERS],
                    short_key=short_key,
                    long_key=long_key,
                )
                for (short_key, long_key), pair in taught.items()
            ]
            known = Synonym.objects.filter(agent=document.agent_id, short_key__in={k for k, _ in taught})
            before = set(known.values_list("short_key", "long_key"))
            Synonym.objects.bulk_create(rows, ignore_conflicts=True)
            new = [row for row in rows if (row.short_key, row.long_key) not in before]
            tell_new_forms(document.agent_id, [Form(row.short, row.long) for row in new])
            said = [pk for pk, *keys in known.values_list("pk", "short_key", "long_key") if tuple(keys) in taught]
            document.synonyms.set(said)
            forget_untaught(document.agent_id)
        refresh_tables()


def forget_untaught(agent_id: int) -> None:
    """Delete forms that no document has any more and nobody confirmed or refused."""
    left = Synonym.objects.filter(agent=agent_id, state=SynonymState.FOUND, documents=None)
    if left.exists():
        left.delete()


@receiver(post_delete, sender=Document)
def forget_with_document(instance: Document, **_kwargs: object) -> None:
    forget_untaught(instance.agent_id)


@receiver(post_save, sender=Synonym)
@receiver(post_delete, sender=Synonym)
def refresh_tables(**_kwargs: object) -> None:
    """Clear this process's cache of forms; the caches of other processes expire."""
    _tables.clear()
    transaction.on_commit(_tables.clear)


_SMALL = word_class("stop_words")


def objection_to(short: str, long: str) -> str:
    """Return why a pair must not be a synonym (it would make different questions one), or an empty text."""
    small = [form for form in (short, long) if (found := words(fold(form))) and _SMALL.issuperset(found)]
    # « PAS » and "US" are acronyms, written as such; two small words are none.
    if len(small) == 2 or any(not form.isupper() for form in small):
        return _("« %(form)s » est un mot outil : il n’a pas de synonyme.") % {"form": small[0]}
    if answers_above().are_opposites(short, long):
        return _("« %(short)s » et « %(long)s » sont des contraires.") % {"short": short, "long": long}
    return ""
