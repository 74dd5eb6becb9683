"""The pages and actions of the admin by right, against the committed table."""

from django.test import TestCase

from tests.doors.admin import ACTION_COLUMNS, COLUMNS, Staff
from tests.doors.catalogue import admin_actions, http_doors
from tests.doors.table import IS_WRITING, committed, differences, write
from tests.doors.world import make_site


class AdminPagesTest(TestCase):
    def test_each_right_meets_what_the_table_says(self) -> None:
        staff = Staff(make_site())
        known = {} if IS_WRITING else committed("admin")
        seen = {door.route: staff.page(door, known.get(door.route)) for door in http_doors() if door.is_admin}
        if IS_WRITING:
            write("admin", COLUMNS, seen)
        assert differences("admin", COLUMNS, seen) == []


class AdminActionsTest(TestCase):
    def test_each_action_does_what_the_table_says(self) -> None:
        staff = Staff(make_site())
        known = {} if IS_WRITING else committed("actions")
        seen = {}
        for model, name in admin_actions():
            door = f"{model._meta.label_lower} {name}"
            seen[door] = staff.action(model, name, known.get(door))
        if IS_WRITING:
            write("actions", ACTION_COLUMNS, seen)
        assert differences("actions", ACTION_COLUMNS, seen) == []
