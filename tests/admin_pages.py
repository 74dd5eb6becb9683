"""What the tests of every admin share: staff with named rights, actions on rows, the query count of a list."""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.admin_base import admin_url
from tests.factories import make_user


def make_staff(*permissions: str, **overrides: Any) -> User:
    """A member of staff with exactly these rights (`knowledge.view_document`)."""
    user = make_user(is_staff=True, **overrides)
    for name in permissions:
        app, codename = name.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return user


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def superuser_client() -> Client:
    return client_of(make_user(is_staff=True, is_superuser=True))


def queries_of(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        response = client.get(address)
    assert response.status_code == 200, f"{address}: {response.status_code}"
    return len(captured)


def run_action(client: Client, action: str, *rows: Model, **fields: Any) -> Any:
    """The page that an action of the list leads to, taken on these rows of one model."""
    data = {"action": action, "_selected_action": [row.pk for row in rows], **fields}
    return client.post(admin_url(type(rows[0]), "changelist"), data, follow=True)


def shown_messages(response: Any) -> str:
    """Every message of the page a client was led to."""
    found: Iterable[Any] = response.context["messages"]
    return "\n".join(str(message) for message in found)
