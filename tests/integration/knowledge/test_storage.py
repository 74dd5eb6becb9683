"""Whether a machine sees the documents of its site."""

import tempfile
from unittest import mock

from django.core.files.storage import default_storage
from django.db import DatabaseError
from django.db.models import QuerySet
from django.test import TestCase, override_settings

from knowledge.checks import storage_problem
from knowledge.indexing.path import store_document
from tests.factories import make_agent


def machine() -> override_settings:
    """Another machine of the same site, with a folder of its own."""
    return override_settings(MEDIA_ROOT=tempfile.mkdtemp(prefix="repondant-machine-"))


class StorageTests(TestCase):
    def test_machine_that_sees_another_folder_is_told_what_to_set(self) -> None:
        with machine():
            assert storage_problem() is None
            store_document(agent=make_agent(), name="a.pdf", data=b"%PDF-1.4\n%\xe4\xf0\xed\xf8")
            assert storage_problem() is None
            home = default_storage.location  # type: ignore[attr-defined]
        with machine():
            assert "Set the same DOCUMENT_STORAGE" in str(storage_problem())
        with override_settings(MEDIA_ROOT=home):
            assert storage_problem() is None

    def test_database_that_is_away_is_not_a_storage_that_is(self) -> None:
        with mock.patch.object(QuerySet, "first", side_effect=DatabaseError):
            assert storage_problem() is None
