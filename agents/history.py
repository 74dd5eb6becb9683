"""The audit log: every change of a setting, a text or a decision leaves a line that can be restored.

django-auditlog sees `save` and `delete`; the managers of the models below log `update` and `bulk_update`, by column.
Conversations, turns, messages, vectors, usage and visitors' words are in no line. Secrets and people's data are masked.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from asgiref.sync import iscoroutinefunction
from auditlog.diff import model_instance_diff
from auditlog.models import LogEntry
from auditlog.registry import auditlog
from auditlog.signals import pre_log
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models, transaction
from django.db.models.signals import pre_save
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware
from django.utils.module_loading import import_string
from django.utils.translation import gettext, gettext_lazy

from agents.settings import SITE_KNOBS

MASK = "•••"
_BATCH = 500
#: The verb that restores a row which its form only saves.
_SAVE = "agents.history.save_restored"


@dataclass(frozen=True, slots=True)
class Logged:
    """What is logged of a model. `columns`: empty for all that forms may change, except `left_out`."""

    columns: str = ""
    left_out: str = ""
    masked: str = ""
    related: str = ""
    #: Whether rows that are made or deleted are logged too.
    births: bool = True
    #: Whether the program's own changes are none: it makes and changes such rows all the time.
    by_people: bool = False
    #: Whether a row's own words may stand in the log; those of visitors may not.
    is_named: bool = True
    #: The model on whose page rows without a page of their own stand: whoever may look at that reads of them.
    page: str = ""
    #: The path of the verb that restores values of a row, `restore(row, values, by)`; none: changes are not restored.
    restore: str = ""
    #: Columns that are never restored: no form changes them.
    fixed: str = ""


#: By model. What is not here is not logged.
LOGGED = {
    "agents.runtimesettings": Logged(restore=_SAVE),
    "agents.agent": Logged(restore=_SAVE, fixed="slug"),
    "agents.deployment": Logged(related="groups", restore=_SAVE),
    "agents.specialist": Logged(page="agents.deployment"),
    "agents.agentlimit": Logged(related="agents", page="auth.user"),
    "auth.user": Logged(
        left_out="last_login", masked="password email first_name last_name", related="groups user_permissions"
    ),
    "auth.group": Logged(related="permissions"),
    "agents.providergroup": Logged(restore=_SAVE),
    "knowledge.category": Logged(restore=_SAVE),
    "knowledge.websource": Logged(restore=_SAVE, fixed="agent url kind"),
    "knowledge.document": Logged("agent name title category enabled file_hash folder"),
    "knowledge.chunk": Logged(
        "content parent_context knowledge_units enabled",
        births=False,
        by_people=True,
        restore="knowledge.indexing.chunks.restore_chunk",
    ),
    "knowledge.synonym": Logged("short long state", by_people=True),
    "agents.job": Logged("agent kind status", by_people=True, page="knowledge.indexbuild"),
    "knowledge.thresholdcalibration": Logged("model index direct_answer memory budget"),
    "knowledge.pairverdict": Logged("same_answer", is_named=False),
    "faqs.learnedresponse": Logged(
        "agent question answer category status status_reason review_date",
        restore="faqs.answers.restore_answer",
        fixed="agent",
    ),
    "faqs.cachedresponse": Logged(
        "answer status status_reason review_on",
        births=False,
        is_named=False,
        restore="faqs.memory.restore_entry",
        fixed="status status_reason",
    ),
    "faqs.questiongroup": Logged("status response", births=False, is_named=False),
    "chat.feedback": Logged("owner dismissed_at", births=False, by_people=True, is_named=False),
    "chat.helprequest": Logged("owner status", births=False, by_people=True, is_named=False),
    "chat.goldenset": Logged(restore=_SAVE),
    "chat.goldenquestion": Logged("expected note", births=False, is_named=False, page="chat.goldenset"),
    "chat.apikey": Logged(left_out="last_used_at", related="deployments"),
    "tools_registry.tooloverride": Logged(births=False, related="agents", restore=_SAVE),
    "tools_registry.toolsource": Logged(left_out="document", masked="headers command"),
}

#: What a line of a validated answer says of its other phrasings, all of them: rows of another table.
PHRASINGS = "phrasings"
#: What a line says of an index that another took the place of, by hand: no column of a row.
INDEX_IN_SERVICE = "index_in_service"


#: The person who makes a change, or the request of one: its user is looked up only when a change is made.
_acting: ContextVar[Any] = ContextVar("acting", default=None)


@contextmanager
def acting(person: Any) -> Iterator[None]:
    """Attribute changes in the block to this person, or to the user of this request; with `None`, to whoever acts."""
    token = _acting.set(person or _acting.get())
    try:
        yield
    finally:
        _acting.reset(token)


@sync_and_async_middleware
def remember_who_asks(get_response: Any) -> Any:
    """Middleware: attribute changes to the request's user, who is looked up only when a change is made."""

    async def asynchronous(request: HttpRequest) -> Any:
        with acting(request):
            return await get_response(request)

    def synchronous(request: HttpRequest) -> Any:
        with acting(request):
            return get_response(request)

    return asynchronous if iscoroutinefunction(get_response) else synchronous


def _person() -> Any:
    now = _acting.get()
    user = getattr(now, "user", None) if isinstance(now, HttpRequest) else now
    return user if user is not None and user.is_authenticated else None


def masked(_value: str) -> str:
    return MASK


def _columns(model: type[models.Model], rule: Logged) -> list[str]:
    names = rule.columns.split() or [
        field.name for field in model._meta.concrete_fields if field.editable and not field.primary_key
    ]
    return [name for name in names if name not in rule.left_out.split()]


def _may_log(sender: type[models.Model], action: int, **_kwargs: Any) -> bool:
    rule = LOGGED.get(sender._meta.label_lower)
    if rule is None or (rule.by_people and _person() is None):
        return False
    return rule.births or action == LogEntry.Action.UPDATE


def _complete(instance: LogEntry, **_kwargs: Any) -> None:
    """Add the person to a line, and remove the words of visitors."""
    if instance.pk is not None:
        return
    person = _person()
    instance.actor = person
    instance.additional_data = {"who": person.get_username() if person is not None else ""}
    kind = instance.content_type
    label = f"{kind.app_label}.{kind.model}"
    if isinstance(change := (instance.changes or {}).get(_SETTINGS.get(label, "")), list | tuple):
        instance.changes = {**instance.changes, **_by_setting(*change)}
        del instance.changes[_SETTINGS[label]]
    if label in LOGGED and not LOGGED[label].is_named:
        instance.object_repr = f"{kind.name} {instance.object_pk}"
        if instance.action != LogEntry.Action.UPDATE:
            instance.changes = {}


#: The columns that hold settings: each of these is a change of its own.
_SETTINGS = {"agents.runtimesettings": "values", "agents.agent": "settings", "agents.deployment": "config_overlay"}


def _by_setting(before: Any, after: Any) -> dict[str, list[Any]]:
    old, new = (values if isinstance(values, dict) else {} for values in (before, after))
    return {name: [old.get(name), new.get(name)] for name in {**old, **new} if old.get(name) != new.get(name)}


class _LoggedUpdates(models.QuerySet[Any]):
    """A queryset that logs its updates, which send no signal. Rows that are made in bulk are the program's, and not logged."""

    def update(self, **changes: Any) -> int:
        rule = LOGGED.get(self.model._meta.label_lower)
        columns = self.model._meta.concrete_fields
        changed = {field.name for field in columns if field.name in changes or field.attname in changes}
        names = sorted(changed.intersection(_columns(self.model, rule))) if rule else []
        if not names or not _may_log(self.model, LogEntry.Action.UPDATE):
            return super().update(**changes)
        with transaction.atomic(using=self.db):
            before = {row.pk: row for row in self.order_by().select_related(None).only(*names)}
            count = super().update(**changes)
            _log_differences(self.model, before, names, self.db)
        return count

    update.alters_data = True  # type: ignore[attr-defined]


def _log_differences(
    model: type[models.Model], before: Mapping[Any, models.Model], names: list[str], using: str
) -> None:
    """Log what these columns have become, as the library logs one row."""
    kind = ContentType.objects.get_for_model(model)
    # What rows are called by.
    owners = [field.name for field in model._meta.concrete_fields if field.many_to_one]
    after = model._base_manager.using(using).select_related(*owners).in_bulk(list(before))
    lines = []
    for pk, row in after.items():
        if changes := model_instance_diff(before[pk], row, fields_to_check=names, use_json_for_changes=True):
            line = LogEntry(
                content_type=kind,
                object_pk=str(pk),
                object_id=pk if isinstance(pk, int) else None,
                object_repr=str(row),
                action=LogEntry.Action.UPDATE,
                changes=changes,
            )
            _complete(line)
            lines.append(line)
    LogEntry.objects.bulk_create(lines, batch_size=_BATCH)


def log_event(row: models.Model, what: str, before: Any, after: Any) -> None:
    """Log an action on a row that changes none of its columns."""
    LogEntry.objects.log_create(row, force_log=True, action=LogEntry.Action.UPDATE, changes={what: [before, after]})


def log_everything() -> None:
    """Have every model of the table logged; called once, when all apps are loaded."""
    for label, rule in LOGGED.items():
        model = apps.get_model(label)
        auditlog.register(
            model,
            include_fields=_columns(model, rule),
            mask_fields=rule.masked.split(),
            mask_callable=f"{__name__}.masked",
            m2m_fields=set(rule.related.split()),
        )
        # Accounts' managers stand in their migrations; the type checker reads managers as they are written.
        if model._meta.app_label != "auth" and "mypy_django_plugin" not in sys.modules:
            _see_updates(model)
    apps.get_app_config("auditlog").verbose_name = gettext_lazy("Journal des changements")
    pre_log.connect(_may_log, dispatch_uid="audit")
    pre_save.connect(_complete, sender=LogEntry, dispatch_uid="audit")


def _see_updates(model: type[models.Model]) -> None:
    old = model._default_manager
    queryset = type(old._queryset_class.__name__, (_LoggedUpdates, old._queryset_class), {})  # type: ignore[attr-defined]
    manager = type(type(old).__name__, (type(old),), {"_queryset_class": queryset})()
    options: Any = model._meta
    options.local_managers = [each for each in options.local_managers if each.name != old.name]
    model.add_to_class(old.name, manager)


def restorable(line: LogEntry) -> dict[str, list[Any]]:
    """What restoring a line would change, with the values before and after; empty where it cannot be restored."""
    kind = line.content_type
    label = f"{kind.app_label}.{kind.model}"
    rule = LOGGED.get(label)
    if rule is None or not rule.restore or line.action != LogEntry.Action.UPDATE:
        return {}
    known = {*_columns(apps.get_model(label), rule), PHRASINGS}.difference(rule.fixed.split(), rule.masked.split())
    if label in _SETTINGS:
        known |= {*SITE_KNOBS, "indexing_method"}
    changes: dict[str, Any] = line.changes or {}
    return {name: change for name, change in changes.items() if name in known and isinstance(change, list)}


def may_restore(line: LogEntry, by: Any) -> bool:
    """Whether a person may change such rows."""
    return bool(by.has_perm(f"{line.content_type.app_label}.change_{line.content_type.model}"))


def restore(line: LogEntry, *, by: Any) -> None:
    """Restore the values before a change. Raises `PermissionDenied`, or `ValidationError` where they do not fit now."""
    if not may_restore(line, by):
        raise PermissionDenied
    changes = restorable(line)
    row = line.content_type.get_all_objects_for_this_type(pk=line.object_pk).first() if changes else None
    if row is None:
        raise ValidationError(gettext("Ce changement ne se rétablit pas."))
    if not all(_is_in_place(row, name, after) for name, (_before, after) in changes.items()):
        raise ValidationError(gettext("Un changement plus récent est en place : rétablissez-le d’abord."))
    verb = import_string(LOGGED[row._meta.label_lower].restore)
    with transaction.atomic(), acting(by):
        verb(row, {name: _read(row, name, before) for name, (before, _after) in changes.items()}, by)


def _is_setting(row: models.Model, name: str) -> bool:
    # Not `hasattr`: rows of other tables, such as the entries of a memory, are attributes too.
    columns = {field.name for field in row._meta.concrete_fields}
    return row._meta.label_lower in _SETTINGS and name not in columns


def _is_in_place(row: Any, name: str, value: Any) -> bool:
    """Whether the row still has what a change wrote."""
    if name == PHRASINGS:
        return {phrasing.text for phrasing in row.phrasings.all()} == set(value)
    if _is_setting(row, name):
        return bool(getattr(row, _SETTINGS[row._meta.label_lower]).get(name) == value)
    return bool(row.serializable_value(name) == _read(row, name, value))


def _read(row: models.Model, name: str, value: Any) -> Any:
    """A logged value in the type of its column."""
    if name == PHRASINGS or _is_setting(row, name):
        return value
    field: Any = row._meta.get_field(name)
    return field.to_python(value)


def save_restored(row: models.Model, values: dict[str, Any], _by: Any) -> None:
    """Set the values, check what they are for, and save the row."""
    columns = {name: value for name, value in values.items() if not _is_setting(row, name)}
    if len(columns) < len(values):
        column = _SETTINGS[row._meta.label_lower]
        settings = {**getattr(row, column), **{name: values[name] for name in values.keys() - columns.keys()}}
        columns[column] = {name: value for name, value in settings.items() if value is not None}
    for name, value in columns.items():
        field: Any = row._meta.get_field(name)
        setattr(row, field.attname, value)
    # Other columns are as they were: what is wrong with them is not of now.
    row.full_clean(exclude=[field.name for field in row._meta.fields if field.name not in columns])
    row.save()
