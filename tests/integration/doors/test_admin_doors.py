"""Every page and action of the admin: closed to who has no right, harmless to who may only look."""

from collections.abc import Mapping

from django.test import TestCase

from tests.doors.admin import Staff
from tests.doors.catalogue import admin_actions, http_doors
from tests.doors.world import make_site

#: Everybody comes here to sign in or out; all staff have a first page, a search, and their own password.
SIGN_IN = {"admin/login/", "admin/logout/"}
FOR_ALL_STAFF = {
    "admin/",
    "admin/advanced/",
    "admin/jsi18n/",
    "admin/password_change/",
    "admin/password_change/done/",
    "admin/search/",
    # Of each member of staff: whether the day's work comes to them by mail.
    "admin/work-mail/",
}
#: A redirect shows and changes nothing.
_CLOSED = {"sign-in", "302", "403", "404", "·"}
#: The list of tools makes the row of a tool that the code gained.
MAKES_ROWS = "tools_registry.tooloverride"


def page_trespasses(door: str, met: Mapping[str, str]) -> list[str]:
    found = []
    for role, cell in met.items():
        parts = cell.split(" / ")
        is_closed = set(parts) <= _CLOSED
        if any(part.startswith("5") for part in parts):
            found.append(f"{door} as {role}: {cell}")
        elif role in ("nobody", "person") and not is_closed and door not in SIGN_IN:
            found.append(f"{door} as {role}: {cell}")
        elif role == "staff" and not is_closed and door not in SIGN_IN | FOR_ALL_STAFF:
            found.append(f"{door} as {role}: {cell}")
        elif role == "view" and " w" in parts[-1] and door not in FOR_ALL_STAFF:
            found.append(f"{door} as {role}: {cell}")
    return found


class AdminPagesTest(TestCase):
    def test_pages_are_closed_to_who_has_no_right(self) -> None:
        staff, roles = Staff(make_site()), ("nobody", "person", "staff", "view", "superuser")
        doors = {door.route: door for door in http_doors() if door.is_admin}
        seen = {route: staff.page(door, roles) for route, door in doors.items()}
        assert [
            line for door, met in seen.items() for line in page_trespasses(door, dict(zip(roles, met, strict=True)))
        ] == []


class AdminActionsTest(TestCase):
    def test_actions_change_nothing_for_who_may_only_look(self) -> None:
        staff, roles = Staff(make_site()), ("view", "others", "superuser")
        seen = {}
        for model, name in admin_actions():
            seen[f"{model._meta.label_lower} {name}"] = staff.action(model, name, roles)
        for door, cells in seen.items():
            met = dict(zip(roles, cells, strict=True))
            assert " w" not in met["view"] or door.startswith(MAKES_ROWS), (door, met)
            assert not any(cell.startswith("5") for cell in cells), (door, met)


def test_rules_tell_a_trespass() -> None:
    assert page_trespasses("admin/new/", {"staff": "200", "superuser": "200 r"}) == ["admin/new/ as staff: 200"]
    assert page_trespasses("admin/new/", {"view": "200 r / 302 w"}) == ["admin/new/ as view: 200 r / 302 w"]
    assert page_trespasses("admin/", {"staff": "200", "nobody": "200"}) == ["admin/ as nobody: 200"]
