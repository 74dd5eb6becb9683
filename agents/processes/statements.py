"""Statements of the hot path, written by the ORM once and executed many times with other values.

Building a statement costs the ORM five to twenty times what SQLite needs to run it, and the ORM builds it anew each
time. Here a queryset is compiled once for each kind of database, with `Parameter`s where its values go. The ORM stays
the author of the SQL and of every conversion; an update sends no signals, as the ORM's own sends none. A turn without a
model costs 10 ms of processor time, and 20 without this, beside its embedding (`benchmarks/turns`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import connection
from django.db.models import Expression, Field, Model, QuerySet
from django.db.models.sql import UpdateQuery

Build = Callable[[], "QuerySet[Any, Any]"]


class Parameter(Expression):
    """A value that is given when the statement runs, written for the database as `field` writes its own."""

    def __init__(self, name: str, field: "Field[Any, Any]") -> None:
        super().__init__(output_field=field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        return "%s", [self]


def parameter(model: type[Model], field: str, *, name: str = "") -> Parameter:
    """A value of a model's field; named like it unless said otherwise."""
    found = model._meta.get_field(field)
    if not isinstance(found, Field):
        raise TypeError(f"{model.__name__}.{field} has no column.")
    return Parameter(name or field, found)


class _Statement:
    """One statement, compiled at its first use for each kind of database."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._compiled: dict[str, tuple[Any, str, tuple[Any, ...]]] = {}

    def _execute(self, cursor: Any, values: Mapping[str, object]) -> Any:
        """Run it with these values; returns its compiler."""
        database = cursor.db
        compiled = self._compiled.get(database.vendor)
        if compiled is None:
            compiler = self._compiler()
            compiled = self._compiled[database.vendor] = (compiler, *compiler.as_sql())
        compiler, sql, params = compiled
        filled = [
            param.output_field.get_db_prep_value(values[param.name], database, False)
            if isinstance(param, Parameter)
            else param
            for param in params
        ]
        cursor.execute(sql, filled)
        return compiler

    def _compiler(self) -> Any:
        return self._build().query.get_compiler(connection=connection)


class PreparedSelect(_Statement):
    """The rows of a `values_list()` queryset, as a list of tuples; `flat` and other row shapes are the caller's."""

    def rows(self, **values: object) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            compiler = self._execute(cursor, values)
            rows = cursor.fetchall()
        if converters := _converters(compiler):
            rows = compiler.apply_converters(rows, converters)
        return [tuple(row) for row in rows]


def _converters(compiler: Any) -> dict[int, Any]:
    """Of the columns' values, as the compiler itself finds them for each result: found once."""
    if not hasattr(compiler, "found_converters"):
        columns = [column[0] for column in compiler.select]
        compiler.found_converters = compiler.get_converters(columns)
    found: dict[int, Any] = compiler.found_converters
    return found


class PreparedObject(_Statement):
    """The one row of a queryset as its model's instance; `related` are prepared, by the foreign key that each follows."""

    def __init__(self, build: Build, **related: "PreparedObject") -> None:
        super().__init__(build)
        self._related = related

    def get(self, **values: object) -> Any:
        """The first row that the database gives; `None` without one."""
        with connection.cursor() as cursor:
            compiler = self._execute(cursor, values)
            row = cursor.fetchone()
            database = cursor.db
        if row is None:
            return None
        columns = [column[0] for column in compiler.select]
        if converters := _converters(compiler):
            row = next(iter(compiler.apply_converters([row], converters)))
        names = [column.target.attname for column in columns]
        found = compiler.query.model.from_db(database.alias, names, list(row))
        for name, statement in self._related.items():
            setattr(found, name, statement.get(id=getattr(found, f"{name}_id")))
        return found


class PreparedSelectIn:
    """A `PreparedSelect` over a list of keys of any length; there is one statement for each power of two."""

    def __init__(self, key: Parameter, build: Callable[[list[Any]], "QuerySet[Any, Any]"]) -> None:
        self._field = key.output_field
        self._build = build
        self._by_size: dict[int, PreparedSelect] = {}

    def rows(self, keys: Sequence[object], **values: object) -> list[tuple[Any, ...]]:
        """The rows of the keys, in no order; `[]` without keys."""
        if not keys:
            return []
        size = 1 << (len(keys) - 1).bit_length()
        select = self._by_size.get(size)
        if select is None:
            names = [Parameter(f"key_{at}", self._field) for at in range(size)]
            select = self._by_size[size] = PreparedSelect(partial(self._build, names))
        # A key that is asked for twice is found once.
        padded = {f"key_{at}": keys[min(at, len(keys) - 1)] for at in range(size)}
        return select.rows(**padded, **values)


class PreparedUpdate(_Statement):
    """An `update()` of a queryset; `run` returns the number of rows that matched."""

    def __init__(self, build: Build, assignments: Mapping[str, object]) -> None:
        super().__init__(build)
        self._assignments = assignments

    def _compiler(self) -> Any:
        query: Any = self._build().query.chain(UpdateQuery)
        query.add_update_values(self._assignments)
        return query.get_compiler(connection=connection)

    def run(self, **values: object) -> int:
        with connection.cursor() as cursor:
            self._execute(cursor, values)
            matched: int = cursor.rowcount
        return matched
