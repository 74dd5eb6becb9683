"""The doors of readers and programs by role, against the committed table."""

from django.test import TestCase

from agents.database import in_database
from tests.doors import frames
from tests.doors.catalogue import frame_doors, http_doors
from tests.doors.readers import COLUMNS, Visitors, knocks
from tests.doors.table import IS_WRITING, differences, write
from tests.doors.world import make_site


class ReaderDoorsTest(TestCase):
    async def test_each_role_meets_what_the_table_says(self) -> None:
        visitors = await in_database(lambda: Visitors(make_site()))
        seen: dict[str, list[str]] = {}
        for knock in knocks([door for door in http_doors() if not door.is_admin]):
            if met := await visitors.row(knock):
                seen[str(knock)] = met
        if IS_WRITING:
            write("readers", COLUMNS, seen)
        assert differences("readers", COLUMNS, seen) == []


class FrameDoorsTest(TestCase):
    async def test_each_role_meets_what_the_table_says(self) -> None:
        visitors = await in_database(lambda: Visitors(make_site()))
        seen = {door: [await frames.knock(visitors, door, role) for role in frames.COLUMNS] for door in frame_doors()}
        if IS_WRITING:
            write("frames", frames.COLUMNS, seen)
        assert differences("frames", frames.COLUMNS, seen) == []
