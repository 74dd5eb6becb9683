"""Knocking at the admin: every page and every action of every list, by right."""

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from agents.models import Role
from chat.models import Turn
from faqs.models import LearnedResponse, QuestionGroup
from tests.doors.catalogue import Door
from tests.doors.readers import outcome
from tests.doors.world import World, Writes, add_private_rows, grant
from tests.factories import make_user


class Staff:
    """The roles at the pages of one model (or at those of none), on rows that each knock finds as they were."""

    def __init__(self, world: World) -> None:
        self.world = world
        add_private_rows(world)
        self._sessions: dict[tuple[type[Model] | None, str], str] = {
            (None, "person"): _session(make_user()),
            (None, "staff"): _session(make_user(is_staff=True)),
            (None, "superuser"): _session(make_user(is_staff=True, is_superuser=True)),
        }

    def client(self, model: type[Model] | None, role: str) -> Client:
        """A browser of this role, before its first page."""
        client = Client(raise_request_exception=False)
        if role == "nobody":
            return client
        key = (None if (None, role) in self._sessions else model, role)
        if key not in self._sessions:
            self._sessions[key] = _session(_granted(model, role))
        client.cookies["sessionid"] = self._sessions[key]
        return client

    def knock(self, door: Door, form: dict[str, Any]) -> str:
        """What a superuser meets that sends this form to a page; whatever it wrote is taken back."""
        return _knock(self.client(None, "superuser"), self.address(door), form)

    def page(self, door: Door, roles: Sequence[str]) -> list[str]:
        """Return what each role meets at a page, looking and sending the form that a superuser sees there; the superuser,
        who looked for the form, sends it alone.
        """
        address = self.address(door)
        page = self.client(None, "superuser").get(address)
        form, met = form_of(page), []
        for role in roles:
            sent = _knock(self.client(door.model, role), address, form)
            if role == "superuser":
                looked = f"{page.status_code}"
            else:
                looked = _knock(self.client(door.model, role), address, None)
            met.append(looked if looked == sent else f"{looked} / {sent}")
        return met

    def action(self, model: type[Model], name: str, roles: Sequence[str]) -> list[str]:
        """Return what each role meets that posts an action for one row of a list."""
        address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        form = {"action": name, "_selected_action": str(self.world.rows[model].pk), "index": "0"}
        return [_knock(self.client(model, role), address, form) for role in roles]

    def address(self, door: Door) -> str:
        row = self.world.rows.get(door.model) if door.model else None
        key = str(row.pk) if row is not None else "1"
        parameters = (
            "object_id id agent_id build_id chunk_id document_id group_id line run_id set_id source_id tool_id turn_id pk "
            "content_type_id user_id"
        ).split()
        values = dict.fromkeys(parameters, key)
        values |= {"number": "1", "key": "00000000-0000-4000-8000-000000000000", "app_label": "chat", "url": "none/"}
        if "replay" in door.name:
            values["group_id"] = str(self.world.rows[QuestionGroup].pk)
        if "keep" in door.name:
            values["turn_id"] = str(self.world.rows[Turn].pk)
        if door.name == "view_on_site":
            kind = ContentType.objects.get_for_model(LearnedResponse)
            values |= {"content_type_id": str(kind.pk)}
        return "/" + door.route.format(**values)


def _granted(model: type[Model] | None, role: str) -> User:
    user = make_user(is_staff=True)
    if role == "others":
        grant(user, only=None, actions=())
        if model is not None:
            own = ContentType.objects.get_for_model(model)
            user.user_permissions.remove(*user.user_permissions.filter(content_type=own))
    elif model is not None:
        grant(user, only=model, actions=("view",))
    return user


def in_role(code: str) -> User:
    """A member of staff with one ready-made role."""
    user = make_user(is_staff=True)
    group = Role.objects.get(code=code).group
    assert group is not None
    user.groups.add(group)
    return user


def _session(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


def _knock(client: Client, address: str, form: dict[str, Any] | None) -> str:
    """One request; whatever it wrote is taken back."""
    writes = Writes()
    writes.start()
    try:
        with transaction.atomic():
            response = client.get(address) if form is None else client.post(address, form)
            body = b"".join(response) if response.streaming else response.content
            transaction.set_rollback(True)
    finally:
        has_written = writes.stop()
    return outcome(response, body.decode(errors="replace"), has_written)


def form_of(response: Any) -> dict[str, Any]:
    """The fields of the page's own form, as it was filled in; a confirmation where a page only asks."""
    if response.status_code != 200 or response.streaming:
        return {"post": "yes"}
    reader = _Fields()
    reader.feed(response.content.decode())
    return {"post": "yes", **reader.fields}


class _Fields(HTMLParser):
    """Names and values of the fields of every form of a page but those of its frame (search, sign-out, language)."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, Any] = {}
        self._select = self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name, value = given.get("name") or "", given.get("value")
        if tag == "input" and name and given.get("type") not in ("file", "submit", "search"):
            if given.get("type") not in ("checkbox", "radio") or "checked" in given:
                self.fields[name] = value or ("on" if given.get("type") == "checkbox" else "")
        elif tag == "textarea":
            self._text = name
        elif tag == "select":
            self._select = name
        elif tag == "option" and self._select and value and "selected" in given:
            # The frame's own form may have a field of that name: the language.
            if not isinstance(self.fields.get(self._select), list):
                self.fields[self._select] = []
            self.fields[self._select].append(value)

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.fields.setdefault(self._text, "")
            self._text = ""
        elif tag == "select":
            self._select = ""

    def handle_data(self, data: str) -> None:
        if self._text:
            self.fields[self._text] = self.fields.get(self._text, "") + data.lstrip("\n")
