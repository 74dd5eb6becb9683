"""Migrations since the newest release are such that its code goes on answering after them: two instances are upgraded
in turn.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import migrations, models
from django.db.migrations.operations.base import Operation

from tests.releases import keep

#: Of a table or a column that the older code knows, each takes something from it.
TAKES_AWAY = (
    migrations.RemoveField,
    migrations.DeleteModel,
    migrations.RenameField,
    migrations.RenameModel,
    migrations.AlterModelTable,
    migrations.AddConstraint,
)


def newest_release() -> Path:
    kept = [path.parent for path in keep.HERE.glob(f"*/{keep.HASHES}")]
    return max(kept, key=lambda path: [int(part) for part in path.name.split(".")])


def operations_since_the_release() -> Iterator[tuple[str, Operation]]:
    frozen = (newest_release() / keep.HASHES).read_text()
    for name, _digest in keep.migration_hashes(keep.PROJECT):
        if name not in frozen:
            module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
            for operation in module.Migration.operations:
                yield name.partition("/")[0], operation


def hurting(operations: list[tuple[str, Operation]]) -> list[str]:
    """What the older code does not survive: it inserts rows without the new columns, and reads and writes the old ones."""
    new = {(app, op.name_lower) for app, op in operations if isinstance(op, migrations.CreateModel)}
    found = []
    for app, op in operations:
        table = getattr(op, "model_name_lower", None) or getattr(op, "name_lower", "")
        if (app, table) in new:
            continue
        needs_value = isinstance(op, migrations.AddField) and not (
            op.field.null or op.field.has_db_default() or op.field.many_to_many
        )
        if needs_value or isinstance(op, TAKES_AWAY):
            found.append(f"{app}: {op.describe()}")
    return found


@pytest.mark.skipif(
    newest_release().name == "0.2.0", reason="0.3.0 drops the tables of retired features: a site stops for its upgrade"
)
def test_older_code_lives_with_the_migrations_since_its_release() -> None:
    operations = list(operations_since_the_release())
    assert hurting(operations) == []


@pytest.mark.parametrize(
    ("operation", "hurts"),
    [
        (migrations.AddField("agent", "x", models.IntegerField(default=1)), True),
        (migrations.AddField("agent", "x", models.IntegerField(default=1, db_default=1)), False),
        (migrations.AddField("agent", "x", models.IntegerField(null=True)), False),
        (migrations.RemoveField("agent", "name"), True),
        (migrations.RenameModel("Agent", "Persona"), True),
    ],
)
def test_what_hurts_is_told(operation: Operation, hurts: bool) -> None:
    assert bool(hurting([("agents", operation)])) is hurts


def test_a_new_table_may_be_as_it_likes() -> None:
    made = migrations.CreateModel("Persona", [("id", models.BigAutoField(primary_key=True))])
    added = migrations.AddField("persona", "x", models.IntegerField(default=1))
    assert hurting([("agents", made), ("agents", added)]) == []
