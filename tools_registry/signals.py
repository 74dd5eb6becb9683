"""Every change of what the catalogue is made of replaces its token, in the same transaction, and has it indexed after."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from agents.models import Agent
from tools_registry.catalog import forget_recent
from tools_registry.index import enqueue_index
from tools_registry.models import ToolOverride, ToolSource, replace_tools_token


def _touch(**_kwargs: Any) -> None:
    replace_tools_token()
    transaction.on_commit(forget_recent)
    enqueue_index()


def _forget(**_kwargs: Any) -> None:
    transaction.on_commit(forget_recent)


for _model in (ToolOverride, ToolSource):
    post_save.connect(_touch, sender=_model, dispatch_uid=f"tools-{_model.__name__}-saved")
    post_delete.connect(_touch, sender=_model, dispatch_uid=f"tools-{_model.__name__}-deleted")
m2m_changed.connect(_touch, sender=ToolOverride.agents.through, dispatch_uid="tools-agents-changed")
for _holder in (get_user_model(), Group):
    post_save.connect(_forget, sender=_holder, dispatch_uid=f"tools-{_holder.__name__}-saved")
    post_delete.connect(_forget, sender=_holder, dispatch_uid=f"tools-{_holder.__name__}-deleted")
m2m_changed.connect(_forget, sender=User.groups.through, dispatch_uid="tools-groups-changed")


def _retire_tools(instance: Agent, **_kwargs: Any) -> None:
    """Deactivate tools offered to the deleted agent only; without agents all agents would have them."""
    for override in ToolOverride.objects.filter(agents=instance):
        if override.agents.count() == 1:
            override.is_active = False
        override.save()


pre_delete.connect(_retire_tools, sender=Agent, dispatch_uid="tools-agent-deleted")
