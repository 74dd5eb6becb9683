"""What goes with a conversation, also in cascades and bulk deletions: what other apps keep of it."""

from typing import Any

from django.db.models.signals import pre_delete
from django.dispatch import receiver

from chat.models import Conversation, GoldenResult
from chat.staff.figures import keep_counts
from faqs.learning import unlink_turns
from faqs.unanswered import forget_turns


@receiver(pre_delete, sender=Conversation)
def forget_turns_elsewhere(instance: Conversation, **_kwargs: Any) -> None:
    # Held to the end, so that nothing more is kept of these turns (`chat.runs.afterwards`).
    held = instance.turns.select_for_update(no_key=True)
    turn_ids = list(held.values_list("pk", flat=True))
    forget_turns(turn_ids)
    unlink_turns(turn_ids)
    keep_counts(instance)
    GoldenResult.objects.filter(source_turn__in=turn_ids).delete()
