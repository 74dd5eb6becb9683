"""What an operator writes into the environment becomes the settings that are meant, in a process of its own."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.servers.commands import python

READ = """
import json, sys
from config import settings
names = ("STORAGES", "MEDIA_ROOT", "SECURE_HSTS_SECONDS", "CELERY_TASK_ACKS_LATE", "HAS_MAIL")
print(json.dumps({name: getattr(settings, name) for name in names}))
"""


def settings_with(folder: Path, **variables: str) -> Any:
    environment = {**os.environ, "DATA_DIR": str(folder), "SECRET_KEY": "x", **variables}
    return json.loads(python("-c", READ, environment=environment).stdout)


def test_documents_are_in_the_data_folder_unless_they_are_shared(tmp_path: Path) -> None:
    assert settings_with(tmp_path)["MEDIA_ROOT"] == str(tmp_path / "documents")
    shared = settings_with(tmp_path, DOCUMENT_STORAGE="/srv/shared/documents")
    assert shared["MEDIA_ROOT"] == "/srv/shared/documents"
    assert shared["STORAGES"]["default"]["BACKEND"].endswith("FileSystemStorage")


def test_bucket_is_named_with_its_prefix(tmp_path: Path) -> None:
    found = settings_with(tmp_path, DOCUMENT_STORAGE="s3://town/desk/files")["STORAGES"]["default"]
    assert found["BACKEND"] == "storages.backends.s3.S3Storage"
    assert found["OPTIONS"]["bucket_name"] == "town"
    assert found["OPTIONS"]["location"] == "desk/files"
    # Two files of one name are two files, as in a folder.
    assert found["OPTIONS"]["file_overwrite"] is False


@pytest.mark.parametrize(("behind_tls", "sent"), [("True", 3600), ("False", 0)])
def test_strict_transport_is_told_behind_tls_alone(behind_tls: str, sent: int, tmp_path: Path) -> None:
    found = settings_with(tmp_path, BEHIND_TLS=behind_tls, HSTS_SECONDS="3600")
    assert found["SECURE_HSTS_SECONDS"] == sent


def test_rabbitmq_is_not_kept_waiting_for_a_long_job(tmp_path: Path) -> None:
    assert settings_with(tmp_path, CELERY_BROKER_URL="amqp://h//")["CELERY_TASK_ACKS_LATE"] is False
    assert settings_with(tmp_path, CELERY_BROKER_URL="redis://h/1")["CELERY_TASK_ACKS_LATE"] is True


@pytest.mark.parametrize(("url", "said"), [("", False), ("consolemail://", False), ("smtp://h:25", True)])
def test_mail_is_there_with_a_server_alone(url: str, said: bool, tmp_path: Path) -> None:
    assert settings_with(tmp_path, EMAIL_URL=url)["HAS_MAIL"] is said
