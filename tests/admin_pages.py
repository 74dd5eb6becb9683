"""What the tests of every admin share: staff with named rights, and the query count of a list."""

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

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


def queries_with_one_and_ten_rows(client: Client, address: str, make_row: Callable[[], Any]) -> tuple[int, int]:
    """How many queries a list takes with one row, and with ten."""
    make_row()
    client.get(address)  # content types and the like are cached by the first request
    one = queries_of(client, address)
    for _ in range(9):
        make_row()
    return one, queries_of(client, address)


def shown_messages(response: Any) -> str:
    """Every message of the page a client was led to."""
    found: Iterable[Any] = response.context["messages"]
    return "\n".join(str(message) for message in found)
