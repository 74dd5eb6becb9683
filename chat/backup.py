"""A whole site in one file, from a file to another machine, and from one database to another.

Each is the same copy of rows: read in one transaction, which sees the source as it was at one moment while the site runs, and
written in one transaction: a copy that was cut off leaves no row (files that `restore` stored stay). Both databases have the
schema of this version, the destination no accounts, agents or conversations. Every table is read again and compared.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import environ
import pyrage
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, DataError, connections, models, transaction
from django.db.migrations.recorder import MigrationRecorder

from agents.errors import ApplicationError
from agents.models import Agent
from chat.models import Conversation
from knowledge.models import Document
from knowledge.vectors.base import batches

#: Rows that are read and written at once; a point with its vector has some two kilobytes.
ROWS_AT_ONCE = 500
#: A database that does not answer is waited for no longer.
MIGRATE_SECONDS = 600
#: What a file of `backup` holds: the rows, the key that signs sessions, the documents.
_ROWS, _KEY, _DOCUMENTS = "database.sqlite3", "secret_key", "documents/"
#: One row in one of these is a site.
_OF_A_SITE = (User, Agent, Conversation)
#: Names of the databases of a copy beside the site's own.
_SOURCE, _DESTINATION = "copy_source", "copy_destination"

OnRows = Callable[[int, int], None]


class BackupError(ApplicationError):
    """The copy was refused, or its rows differ from their source; nothing was written."""

    code = "backup_refused"
    default_message = "The site cannot be copied."


def backup(file: Path, advance: OnRows, recipients: Sequence[str] = ()) -> list[str]:
    """Write rows, documents and the site's own secret key into a new zip file that only its owner reads.

    With `recipients` (public keys of age, `age1…`) the file is encrypted to them: this machine cannot read it again.
    Returns the names of documents whose file is missing. `advance` is told rows done and rows in all. The points of a
    Qdrant server are not in it: they are rebuilt."""
    _require_new(file)
    try:
        keys = [pyrage.x25519.Recipient.from_str(each) for each in recipients]
    except pyrage.RecipientError as error:
        raise BackupError(f"a recipient is not a public key of age (age1…): {error}") from error
    with tempfile.TemporaryDirectory(dir=file.absolute().parent) as folder:
        rows, part = Path(folder) / _ROWS, Path(folder) / file.name
        _migrate(f"sqlite:///{rows}")
        with _database(_SOURCE, connections.settings[DEFAULT_DB_ALIAS]), _database(_DESTINATION, _sqlite(rows)):
            _copy(_SOURCE, _DESTINATION, advance)
            names = sorted(set(Document.objects.using(_DESTINATION).exclude(file="").values_list("file", flat=True)))
        part.touch(mode=0o600)
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(rows, _ROWS)
            if (kept := settings.DATA_DIR / _KEY).exists():
                archive.write(kept, _KEY)
            missing = [name for name in names if not _add_document(archive, name)]
        if keys:
            plain, part = part, Path(folder) / "encrypted"
            part.touch(mode=0o600)
            with plain.open("rb") as source, part.open("wb") as target:  # `encrypt_file` hides a failed last write
                pyrage.encrypt_io(source, target, keys)
        _require_new(file)
        part.rename(file)
    return missing


def _require_new(file: Path) -> None:
    if file.exists():
        raise BackupError(f"{file} exists already: choose another name")


def restore(file: Path, advance: OnRows, identity: Path | None = None) -> None:
    """Fill this empty site with a file of `backup`, documents and key first, so that no row lacks its file. `identity`
    is a file of `age-keygen`, with the secret key that an encrypted back-up was made for."""
    with tempfile.TemporaryDirectory(dir=settings.DATA_DIR) as folder:
        plain = file if identity is None else _decrypted(file, identity, Path(folder) / "decrypted.zip")
        with _opened(plain) as archive, _database(_SOURCE, _sqlite(Path(archive.extract(_ROWS, folder)))):
            _require_empty(DEFAULT_DB_ALIAS)
            _require_same_schema(_SOURCE, DEFAULT_DB_ALIAS)
            for each in archive.infolist():
                if each.filename.startswith(_DOCUMENTS):
                    with archive.open(each) as content:
                        _save_document(each.filename.removeprefix(_DOCUMENTS), content)
            if _KEY in archive.namelist():
                part = settings.DATA_DIR / f"{_KEY}.part"
                part.touch(mode=0o600)
                part.write_bytes(archive.read(_KEY))
                part.replace(settings.DATA_DIR / _KEY)
            _copy(_SOURCE, DEFAULT_DB_ALIAS, advance)


def _decrypted(file: Path, identity: Path, plain: Path) -> Path:
    try:
        keys = [line for line in identity.read_text().split() if line.startswith("AGE-SECRET-KEY-")]
        pyrage.decrypt_file(str(file), str(plain), [pyrage.x25519.Identity.from_str(key) for key in keys])
    except (OSError, ValueError, pyrage.IdentityError, pyrage.DecryptError) as error:
        raise BackupError(f"{file} cannot be decrypted with {identity}: {error}") from error
    return plain


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(file)
        archive.getinfo(_ROWS)
        damaged = archive.testzip()
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise BackupError(f"{file} is not a file of manage.py backup, is encrypted, or is damaged: {error}") from error
    if damaged:
        raise BackupError(f"{file} is damaged: {damaged}")
    return archive


def move_database(url: str, advance: OnRows) -> None:
    """Copy every row of the site to the empty database at `url`, which gets its tables first."""
    _migrate(url)
    with (
        _database(_SOURCE, connections.settings[DEFAULT_DB_ALIAS]),
        _database(_DESTINATION, environ.Env.db_url_config(url)),
    ):
        _copy(_SOURCE, _DESTINATION, advance)


def _sqlite(path: Path) -> dict[str, Any]:
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": {}}


def _migrate(url: str) -> None:
    """Make the tables of a database in a process of its own, whose site it is: migrations write to their site's only."""
    try:
        done = subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
            cwd=settings.BASE_DIR,
            env={**os.environ, "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=MIGRATE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BackupError(f"the tables were not made within {MIGRATE_SECONDS} seconds") from error
    if done.returncode:
        raise BackupError(f"the tables cannot be made: {done.stderr.strip()[-500:]}")


@contextmanager
def _database(alias: str, wanted: dict[str, Any]) -> Iterator[None]:
    """Name a database for one copy, reading what was there when its transaction began."""
    reading: dict[str, Any] = {"transaction_mode": "DEFERRED"}
    if "postgresql" in wanted["ENGINE"]:
        from psycopg import IsolationLevel

        reading = {"isolation_level": IsolationLevel.REPEATABLE_READ}
    # What the address says of encryption and time-outs stays.
    options = {**wanted.get("OPTIONS", {}), **reading}
    connections.settings[alias] = {**connections.settings[DEFAULT_DB_ALIAS], **wanted, "OPTIONS": options}
    try:
        yield
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.settings[alias]


def _copy(source: str, destination: str, advance: OnRows) -> None:
    """Copy all rows. Raises `BackupError`, and leaves the destination as it was, where a table differs afterwards."""
    tables = [model for model in apps.get_models(include_auto_created=True) if not model._meta.proxy]
    with transaction.atomic(source), transaction.atomic(destination), connections[destination].cursor() as cursor:
        if connections[destination].vendor == "postgresql":
            # Nobody makes a first account between the look and the copy; on SQLite the site's transaction is the only writer.
            cursor.execute(f"LOCK TABLE {', '.join(model._meta.db_table for model in _OF_A_SITE)}")
        _require_empty(destination)
        _require_same_schema(source, destination)
        total = sum(models.QuerySet(model, using=source).count() for model in tables)
        done = 0
        # What `migrate` made (permissions, types, roles) is in the source too. Foreign keys are checked at the end.
        for model in tables:
            # One statement, without what `delete` does for rows that point here.
            models.QuerySet(model, using=destination)._raw_delete(destination)
        for model in tables:
            for rows in batches(_rows(model, source), ROWS_AT_ONCE):
                try:
                    _insert(destination, model, rows)
                except (DataError, ValueError) as error:
                    raise BackupError(f"a row of {model._meta.label} does not fit: {error}") from error
                done += len(rows)
                advance(done, total)
        for statement in connections[destination].ops.sequence_reset_sql(no_style(), tables):
            cursor.execute(statement)
        for model in tables:
            if _checksum(model, source) != _checksum(model, destination):
                raise BackupError(f"the copy of {model._meta.label} differs; nothing was written")


def _rows(model: type[models.Model], alias: str) -> Iterator[tuple[Any, ...]]:
    columns = [field.attname for field in model._meta.local_concrete_fields]
    return models.QuerySet(model, using=alias).order_by("pk").values_list(*columns).iterator(ROWS_AT_ONCE)


def _insert(alias: str, model: type[models.Model], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows as they are: `save` and `bulk_create` would set the times of today."""
    connection, fields = connections[alias], model._meta.local_concrete_fields
    quoted = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    places = ", ".join(["%s"] * len(fields))
    values = [
        [field.get_db_prep_save(value, connection) for field, value in zip(fields, row, strict=True)] for row in rows
    ]
    with connection.cursor() as cursor:
        table = connection.ops.quote_name(model._meta.db_table)
        cursor.executemany(f"INSERT INTO {table} ({quoted}) VALUES ({places})", values)  # noqa: S608  # names of models


def _checksum(model: type[models.Model], alias: str) -> tuple[int, int]:
    """Count a table's rows, and add up their digests: databases sort text differently."""
    count = total = 0
    for row in _rows(model, alias):
        # Values that are no JSON: `bytes` of vectors, times (both databases give them in UTC), UUIDs.
        text = json.dumps(
            row,
            sort_keys=True,
            default=lambda value: bytes(value).hex() if isinstance(value, memoryview | bytes) else str(value),
        )
        total += int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:16])
        count += 1
    return count, total


def _require_empty(alias: str) -> None:
    for model in _OF_A_SITE:
        if models.QuerySet(model, using=alias).exists():
            raise BackupError("the destination has a site already: give an empty database")


def _require_same_schema(source: str, destination: str) -> None:
    applied = [set(MigrationRecorder(connections[alias]).applied_migrations()) for alias in (source, destination)]
    if applied[0] != applied[1]:
        raise BackupError(
            public_message="The two databases are of different versions. Restore with the version that made the file, "
            "then upgrade; or bring this one up to date first: manage.py migrate"
        )


def _add_document(archive: zipfile.ZipFile, name: str) -> bool:
    try:
        with default_storage.open(name) as stored, archive.open(_DOCUMENTS + name, "w", force_zip64=True) as entry:
            shutil.copyfileobj(stored, entry)
    except FileNotFoundError:
        return False
    return True


def _save_document(name: str, content: Any) -> None:
    """Store a document under its own name. Raises `BackupError` where another is stored under it already."""
    if default_storage.exists(name):
        with default_storage.open(name) as stored:
            if stored.read() != content.read():
                raise BackupError(f"another document is stored as {name}: give an empty DATA_DIR or bucket")
        return
    if (given := default_storage.save(name, File(content))) != name:
        raise BackupError(f"{name} was stored as {given}")
