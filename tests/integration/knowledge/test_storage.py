"""Whether a machine sees the documents of its site: told by a file that one wrote and the others read."""

import tempfile
from pathlib import Path
from unittest import mock

from django.core.checks import CheckMessage, run_checks
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import DatabaseError
from django.test import TestCase, override_settings

from knowledge.indexing.path import store_document
from knowledge.models import StorageMark
from knowledge.storage import storage_problem
from tests.factories import make_agent


def machine() -> override_settings:
    """Another machine of the same site, with a folder of its own."""
    return override_settings(MEDIA_ROOT=tempfile.mkdtemp(prefix="repondant-machine-"))


class StorageTests(TestCase):
    def test_machines_of_one_storage_see_each_other(self) -> None:
        with machine():
            assert storage_problem(may_mark=True) is None
            assert storage_problem(may_mark=True) is None
            assert len(list(Path(default_storage.location).iterdir())) == 1  # type: ignore[attr-defined]

    def test_machine_with_a_folder_of_its_own_is_told_what_to_set(self) -> None:
        with machine():
            assert storage_problem(may_mark=True) is None
        with machine():
            assert "Set the same DOCUMENT_STORAGE" in str(storage_problem(may_mark=True))

    def test_older_site_is_marked_where_its_documents_are(self) -> None:
        with machine():
            store_document(agent=make_agent(), name="a.md", data=b"# A")
            home = default_storage.location  # type: ignore[attr-defined]
        with machine():
            assert storage_problem(may_mark=True) is not None
            assert not StorageMark.objects.exists()
        with override_settings(MEDIA_ROOT=home):
            assert storage_problem(may_mark=True) is None
            assert StorageMark.objects.exists()

    def test_older_site_whose_newest_file_is_no_text_is_marked(self) -> None:
        with machine():
            store_document(agent=make_agent(), name="a.pdf", data=b"%PDF-1.4\n%\xe4\xf0\xed\xf8")
            assert storage_problem(may_mark=True) is None

    def test_other_content_under_the_name_is_another_storage(self) -> None:
        with machine():
            storage_problem(may_mark=True)
            name = StorageMark.objects.get().file_name
            (Path(default_storage.location) / name).write_text("x")  # type: ignore[attr-defined]
            assert "another file is there" in str(storage_problem())

    def test_two_that_start_at_once_keep_one_mark(self) -> None:
        with machine():
            StorageMark.objects.create(pk=1, mark="0" * 32)
            default_storage.save("storage-" + "0" * 32, kept_file())
            # As if the other had written its row between the look and the write.
            with mock.patch.object(StorageMark.objects, "first", return_value=None):
                assert storage_problem(may_mark=True) is None
            assert [path.name for path in Path(default_storage.location).iterdir()] == [  # type: ignore[attr-defined]
                "storage-" + "0" * 32
            ]

    def test_the_check_looks_and_marks_nothing(self) -> None:
        with machine():
            assert warnings() == []
            assert not StorageMark.objects.exists()
            storage_problem(may_mark=True)
        with machine():
            assert [warning.id for warning in warnings()] == ["knowledge.W002"]

    def test_database_that_is_away_is_not_a_storage_that_is(self) -> None:
        with mock.patch.object(StorageMark.objects, "first", side_effect=DatabaseError):
            assert storage_problem(may_mark=True) is None


def kept_file() -> ContentFile[bytes]:
    return ContentFile(b"0" * 32)


def warnings() -> list[CheckMessage]:
    found = run_checks(databases=["default"])
    return [each for each in found if str(each.id).startswith("knowledge.")]
