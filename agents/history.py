"""The audit log: every change of a setting, a text or a decision leaves a line with before and after.

django-auditlog sees `save` and `delete`; the managers of the models below log `update` and bulk changes, by column.
Conversations, turns, messages, vectors, usage and the words of visitors are in no line. Secrets are masked.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import iscoroutinefunction
from auditlog.models import LogEntry
from auditlog.registry import auditlog
from auditlog.signals import pre_log
from celery import current_task
from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.models.signals import pre_save
from django.http import HttpRequest
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy

from agents.settings import SITE_KNOBS

MASK = "•••"
_BATCH = 500


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
    #: Whether a line can be taken back: a setting or a text, rather than a decision on the way.
    is_restorable: bool = True
    #: Columns that are never put back: they name something outside the row, or are not for everybody to give.
    fixed: str = ""
    #: The model on whose page rows without a page of their own stand: whoever may look at that reads of them.
    page: str = ""
    #: The path of the verb that puts a line back, `restore(row, values, by)`; the row is checked and saved without one.
    restore: str = ""


#: By model. What is not here is not logged.
LOGGED = {
    "agents.runtimesettings": Logged(),
    "agents.agent": Logged(fixed="slug"),
    "agents.deployment": Logged(related="groups"),
    "agents.specialist": Logged(page="agents.deployment"),
    "agents.agentlimit": Logged(related="agents", page="auth.user"),
    "auth.user": Logged(
        left_out="last_login", masked="password", related="groups user_permissions", fixed="is_superuser"
    ),
    "auth.group": Logged(related="permissions"),
    "knowledge.category": Logged(),
    "knowledge.websource": Logged(),
    "knowledge.document": Logged("agent name title category enabled file_hash folder", fixed="name file_hash"),
    "knowledge.chunk": Logged(
        "content parent_context knowledge_units enabled",
        births=False,
        by_people=True,
        restore="knowledge.indexing.chunks.restore_chunk",
    ),
    "knowledge.synonym": Logged("short long state", by_people=True, restore="knowledge.synonyms.restore_synonym"),
    "agents.job": Logged("agent kind status", by_people=True, is_restorable=False, page="knowledge.indexbuild"),
    "knowledge.thresholdcalibration": Logged("model index direct_answer memory budget"),
    "knowledge.pairverdict": Logged("same_answer", is_named=False),
    "faqs.learnedresponse": Logged(
        "agent question answer category status status_reason review_date", restore="faqs.answers.restore_answer"
    ),
    "faqs.cachedresponse": Logged(
        "answer status status_reason review_on", births=False, is_named=False, restore="faqs.memory.restore_entry"
    ),
    "faqs.questiongroup": Logged("status response", births=False, is_named=False, is_restorable=False),
    "chat.feedback": Logged("owner dismissed_at", births=False, by_people=True, is_named=False, is_restorable=False),
    "chat.goldenset": Logged(),
    "chat.goldenquestion": Logged("expected note", births=False, is_named=False, is_restorable=False),
    "chat.apikey": Logged(left_out="last_used_at", related="deployments"),
    "chat.servicetoken": Logged(related="deployments"),
    "tools_registry.tooloverride": Logged(births=False, related="agents"),
    "tools_registry.toolsource": Logged(left_out="document", masked="headers command"),
}

#: What a line of a validated answer says of its other phrasings, all of them: rows of another table.
PHRASINGS = "phrasings"
#: What a line says of an index that another took the place of, by hand: no column of a row.
INDEX_IN_SERVICE = "index_in_service"

# --- Who acts, and by which door -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acting:
    """The person who makes a change (read from the request when needed), and its origin."""

    request: HttpRequest | None = None
    person: Any = None
    origin: str = ""


_NOBODY = Acting()
_acting: ContextVar[Acting] = ContextVar("acting", default=_NOBODY)


@contextmanager
def _while(now: Acting) -> Iterator[None]:
    token = _acting.set(now)
    try:
        yield
    finally:
        _acting.reset(token)


def acting(person: Any = None, *, origin: str) -> AbstractContextManager[None]:
    """Attribute changes in the block to this person, else the request's user, with this origin (`import`…)."""
    return _while(Acting(_acting.get().request, person, origin))


@sync_and_async_middleware
def remember_who_asks(get_response: Any) -> Any:
    """Middleware: attribute changes to the request's user, who is looked up only when a change is made."""

    async def asynchronous(request: HttpRequest) -> Any:
        with _while(Acting(request)):
            return await get_response(request)

    def synchronous(request: HttpRequest) -> Any:
        with _while(Acting(request)):
            return get_response(request)

    return asynchronous if iscoroutinefunction(get_response) else synchronous


def _person() -> Any:
    now = _acting.get()
    user = now.person or getattr(now.request, "user", None)
    return user if user is not None and user.is_authenticated else None


def origin() -> str:
    """`admin`, `api`, `page`, `import`, `restore`, `worker` or `command`."""
    now = _acting.get()
    if now.origin:
        return now.origin
    if now.request is not None:
        first = now.request.path_info.lstrip("/").partition("/")[0]
        return {"admin": "admin", "api": "api", "v1": "api"}.get(first, "page")
    if current_task:
        return "worker"
    return "page" if "config.asgi" in sys.modules else "command"


def masked(_value: str) -> str:
    return MASK


def _rule(model: type[models.Model]) -> Logged | None:
    return LOGGED.get(model._meta.label_lower)


def _columns(model: type[models.Model], rule: Logged) -> list[str]:
    names = rule.columns.split() or [
        field.name for field in model._meta.concrete_fields if field.editable and not field.primary_key
    ]
    return [name for name in names if name not in rule.left_out.split()]


def _may_log(sender: type[models.Model], action: int, **_kwargs: Any) -> bool:
    rule = _rule(sender)
    if rule is None or (rule.by_people and _person() is None):
        return False
    return rule.births or action == LogEntry.Action.UPDATE


def _complete(instance: LogEntry, **_kwargs: Any) -> None:
    """Add the person and the origin to a line, and remove the words of visitors."""
    if instance.pk is not None:
        return
    person = _person()
    instance.actor = person
    instance.additional_data = {"origin": origin(), "who": person.get_username() if person is not None else ""}
    model = instance.content_type.model_class()
    rule = _rule(model) if model is not None else None
    if isinstance(change := (instance.changes or {}).get(_SETTINGS.get(_label(model), "")), list | tuple):
        instance.changes = {**instance.changes, **_by_setting(*change)}
        del instance.changes[_SETTINGS[_label(model)]]
    if model is not None and rule is not None and not rule.is_named:
        instance.object_repr = f"{model._meta.verbose_name} {instance.object_pk}"
        if instance.action != LogEntry.Action.UPDATE:
            instance.changes = {}


#: The columns that hold settings: each of these is a change of its own.
_SETTINGS = {"agents.runtimesettings": "values", "agents.agent": "settings"}


def _label(model: type[models.Model] | None) -> str:
    return "" if model is None else model._meta.label_lower


def _by_setting(before: Any, after: Any) -> dict[str, list[Any]]:
    old, new = (values if isinstance(values, dict) else {} for values in (before, after))
    return {name: [old.get(name), new.get(name)] for name in {**old, **new} if old.get(name) != new.get(name)}


class _LoggedUpdates(models.QuerySet[Any]):
    """A queryset that logs bulk changes, which send no signal."""

    def update(self, **changes: Any) -> int:
        rule = _rule(self.model)
        columns = {
            field.name
            for field in self.model._meta.concrete_fields
            if field.name in changes or field.attname in changes
        }
        names = sorted(columns.intersection(_columns(self.model, rule))) if rule else []
        if not names or not _may_log(self.model, LogEntry.Action.UPDATE):
            return super().update(**changes)
        with transaction.atomic(using=self.db):
            before = {row["pk"]: row for row in self.order_by().values("pk", *names)}
            count = super().update(**changes)
            _log_differences(self.model, before, names, using=self.db)
        return count

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, objs: Iterable[Any], *args: Any, **kwargs: Any) -> list[Any]:
        rule = _rule(self.model)
        if rule is None or not _may_log(self.model, LogEntry.Action.CREATE):
            return super().bulk_create(objs, *args, **kwargs)
        with transaction.atomic(using=self.db):
            made = super().bulk_create(objs, *args, **kwargs)
            names = _columns(self.model, rule)
            before = {row.pk: dict.fromkeys(names) for row in made if row.pk is not None}
            _log_differences(self.model, before, names, using=self.db, action=LogEntry.Action.CREATE)
        return made


def _log_differences(
    model: type[models.Model],
    before: dict[Any, dict[str, Any]],
    names: list[str],
    *,
    using: str,
    action: int = LogEntry.Action.UPDATE,
) -> None:
    hidden = LOGGED[model._meta.label_lower].masked.split()
    kind = ContentType.objects.get_for_model(model)
    keys = list(before)
    # What rows are called by.
    owners = [field.name for field in model._meta.concrete_fields if field.many_to_one]
    found = model._base_manager.using(using).select_related(*owners)
    for start in range(0, len(keys), _BATCH):
        lines = []
        for row in found.filter(pk__in=keys[start : start + _BATCH]):
            changes = {
                name: [MASK, MASK] if name in hidden else [_plain(old), _plain(new)]
                for name in names
                if (old := before[row.pk][name]) != (new := getattr(row, _field(model, name).attname))
            }
            if changes:
                line = LogEntry(
                    content_type=kind,
                    object_pk=str(row.pk),
                    object_id=row.pk if isinstance(row.pk, int) else None,
                    object_repr=str(row),
                    action=action,
                    changes=changes,
                )
                _complete(line)
                lines.append(line)
        LogEntry.objects.bulk_create(lines)


def log_event(row: models.Model, what: str, before: Any, after: Any) -> None:
    """Log an action on a row that changes none of its columns."""
    LogEntry.objects.log_create(row, force_log=True, action=LogEntry.Action.UPDATE, changes={what: [before, after]})


def lines_of(row: models.Model) -> models.QuerySet[LogEntry]:
    """The history of one row, the latest change first."""
    kind = ContentType.objects.get_for_model(row)
    lines: models.QuerySet[LogEntry] = LogEntry.objects.filter(content_type=kind, object_pk=str(row.pk))
    return lines.order_by("-timestamp", "-pk")


def _field(model: type[models.Model], name: str) -> "models.Field[Any, Any]":
    field = model._meta.get_field(name)
    assert isinstance(field, models.Field)  # noqa: S101  # columns only
    return field


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | list | dict):
        return value
    try:
        return DjangoJSONEncoder().default(value)
    except TypeError:
        return str(value)


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


def restorable(line: LogEntry) -> dict[str, Any]:
    """The values that taking the line back would restore; empty where it cannot be taken back."""
    model = line.content_type.model_class()
    rule = _rule(model) if model is not None else None
    if model is None or rule is None or not rule.is_restorable:
        return {}
    if line.action != LogEntry.Action.UPDATE:
        return {}
    known = set(_columns(model, rule)) - set(rule.masked.split()) - set(rule.fixed.split())
    if _label(model) in _SETTINGS:
        known |= SITE_KNOBS.keys()
    elif _label(model) == "faqs.learnedresponse":
        known.add(PHRASINGS)
    changes: dict[str, Any] = line.changes or {}
    return {name: change[0] for name, change in changes.items() if name in known and isinstance(change, list)}


def take_back(line: LogEntry, *, by: Any) -> None:
    """Restore the values before a line. Raises `ValidationError` where they are no longer allowed."""
    model = line.content_type.model_class()
    values = restorable(line)
    if model is None or not values:
        raise ValidationError("nothing to restore")
    row = model._base_manager.get(pk=line.object_pk)
    if settings := {name: values.pop(name) for name in [*values] if name in SITE_KNOBS and _label(model) in _SETTINGS}:
        column = _SETTINGS[_label(model)]
        merged = {**getattr(row, column), **settings}
        values[column] = {name: value for name, value in merged.items() if value not in (None, "")}
    values = {n: value if n == PHRASINGS else _read(_field(model, n), value) for n, value in values.items()}
    rule = _rule(model)
    restore = import_string(rule.restore) if rule is not None and rule.restore else _save
    with transaction.atomic(), acting(by, origin="restore"):
        restore(row, values, by)


def _read(field: "models.Field[Any, Any]", value: Any) -> Any:
    """A logged value as the field's type; times in a line are in UTC, some without a zone."""
    found = field.to_python(value)
    if isinstance(found, datetime) and timezone.is_naive(found):
        return timezone.make_aware(found, UTC)
    return found


def _save(row: models.Model, values: dict[str, Any], _by: Any) -> None:
    for name, value in values.items():
        setattr(row, _field(type(row), name).attname, value)
    # Other columns are as they were: what is wrong with them is not of now.
    row.full_clean(exclude=[f.name for f in row._meta.fields if f.name not in values])
    row.save()
