"""Deleting a conversation, also in a cascade or in bulk, removes every trace of its turns elsewhere but the counts;
deleting an account, a user name that is an address from the journal;
every new SQLite connection gets the function `repondant_folded`, which the search of conversations uses.
"""

from typing import Any

from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models.signals import post_delete, pre_delete
from django.dispatch import receiver

from chat.models import Conversation, GoldenResult
from chat.staff.figures import keep_counts
from faqs.learning import unlink_turns
from faqs.unanswered import forget_turns
from knowledge.language.words import fold_letters


@receiver(connection_created)
def teach_sqlite(connection: BaseDatabaseWrapper, **_kwargs: Any) -> None:
    if connection.vendor == "sqlite":
        connection.connection.create_function(
            "repondant_folded", 1, lambda text: None if text is None else fold_letters(text), deterministic=True
        )


@receiver(pre_delete, sender=Conversation)
def forget_turns_elsewhere(instance: Conversation, **_kwargs: Any) -> None:
    # Held to the end, so that nothing more is kept of these turns (`chat.runs.afterwards`).
    held = instance.turns.select_for_update(no_key=True)
    turn_ids = list(held.values_list("pk", flat=True))
    forget_turns(turn_ids)
    unlink_turns(turn_ids)
    keep_counts(instance)
    GoldenResult.objects.filter(source_turn__in=turn_ids).delete()


@receiver(post_delete, sender=User)
def forget_address(instance: User, **_kwargs: Any) -> None:
    """Other addresses are masked in every line; who made a change stays told by the account's number."""
    if "@" in (name := instance.username):
        number = f"№ {instance.pk}"
        of_account = LogEntry.objects.filter(
            content_type=ContentType.objects.get_for_model(User), object_pk=instance.pk
        )
        of_account.update(object_repr=number, changes={})
        LogEntry.objects.filter(additional_data__who=name).update(additional_data={"who": number})
