"""What other apps keep of a conversation goes with it, also in cascades and bulk deletions."""

from typing import Any

from django.db.models.signals import pre_delete
from django.dispatch import receiver

from chat.models import Conversation
from faqs.unanswered import forget_turns


@receiver(pre_delete, sender=Conversation)
def forget_unanswered(instance: Conversation, **_kwargs: Any) -> None:
    forget_turns(instance.turns.values_list("pk", flat=True))
