"""A door without a row fails the suite, and so does a row without a door; nobody is made more than the maker."""

from typing import Any
from unittest import mock

from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import TestCase, override_settings
from django.urls import path

from agents.admin_base import admin_url
from chat.protocol import FRAMES
from config.urls import urlpatterns as served
from tests.admin_pages import client_of, make_staff
from tests.doors import frames
from tests.doors.catalogue import admin_actions, frame_doors, http_doors
from tests.doors.readers import COLUMNS
from tests.doors.table import committed, differences
from tests.factories import make_user


def _open_door(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("open to all")


def _promote(_options: Any, _request: HttpRequest, _rows: Any) -> None:
    """An action that nobody thought about."""


#: The site as it is, with a door that nobody thought about (this module is the URL configuration of a test).
urlpatterns = [path("api/new-door", _open_door, name="new-door"), *served]


class NewDoorsTest(TestCase):
    def test_added_address_has_no_row(self) -> None:
        before = {door.route for door in http_doors()}
        with override_settings(ROOT_URLCONF=__name__):
            added = {door.route for door in http_doors()} - before
        assert added == {"api/new-door"}
        seen = {**committed("readers"), "GET /api/new-door": ["200"] * len(COLUMNS)}
        [told] = differences("readers", COLUMNS, seen)
        assert "GET /api/new-door: has no row" in told

    def test_added_frame_and_action_have_no_row(self) -> None:
        with mock.patch.dict(FRAMES, {"export": FRAMES["stop"]}):
            new = set(frame_doors()) - set(committed("frames"))
        assert new == {"ws/chat/{conversation_id}/ export"}
        options = admin.site._registry[User]
        with (
            mock.patch.object(options, "actions", ["promote"], create=True),
            mock.patch.object(type(options), "promote", _promote, create=True),
        ):
            found = {f"{model._meta.label_lower} {name}" for model, name in admin_actions()}
        assert found - set(committed("actions")) == {"auth.user promote"}

    def test_row_without_a_door_is_told(self) -> None:
        rows = committed("frames")
        del rows["ws/chat/{conversation_id}/ stop"]
        [told] = differences("frames", frames.COLUMNS, rows)
        assert "has a row and is no door" in told


class AccountsTest(TestCase):
    """The right to change accounts is not every right."""

    def setUp(self) -> None:
        self.keeper = make_staff("auth.view_user", "auth.change_user", "auth.delete_user")
        self.client = client_of(self.keeper)

    def test_superusers_account_is_not_changed_by_others(self) -> None:
        above = make_user(is_superuser=True, is_staff=True)
        for page in ("auth_user_password_change", "change", "delete"):
            address = f"/admin/auth/user/{above.pk}/{page.removeprefix('auth_user_password_')}/"
            if page.startswith("auth_user"):
                address = f"/admin/auth/user/{above.pk}/password/"
            new = {"password1": "autre-Secret-4711", "password2": "autre-Secret-4711"}
            assert self.client.post(address, {**new, "post": "yes"}).status_code == 403, page

    def test_nobody_makes_themselves_a_superuser(self) -> None:
        address = admin_url(User, "change", self.keeper.pk)
        own = {"username": self.keeper.username, "is_active": "on", "is_staff": "on"}
        joined = {"date_joined_0": "2026-01-01", "date_joined_1": "10:00:00"}
        right = str(self.keeper.user_permissions.all()[0].pk)
        forged = {"is_superuser": "on", "user_permissions": right}
        assert self.client.post(address, {**own, **joined, **forged}).status_code == 302
        self.keeper.refresh_from_db()
        assert not self.keeper.is_superuser
        assert self.keeper.user_permissions.count() == 3
