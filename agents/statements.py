"""Statements of the hot path, written by the ORM once and executed many times with other values.

Building a statement costs the ORM five to twenty times what SQLite needs to run it (`benchmarks/streaming`), and the
ORM builds it anew each time. Here a queryset is compiled once for each kind of database, with `Parameter`s where its
values go. The ORM stays the author of the SQL and of every conversion; signals are not sent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Expression, Field, Model, QuerySet
from django.db.models.sql import InsertQuery, UpdateQuery

M = TypeVar("M", bound=Model)


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


@dataclass(frozen=True, slots=True)
class _Compiled:
    sql: str
    params: tuple[Any, ...]
    compiler: Any
    converters: Mapping[Any, Any]

    def filled(self, values: Mapping[str, object], database: BaseDatabaseWrapper) -> list[Any]:
        return [
            param.output_field.get_db_prep_value(values[param.name], database, False)
            if isinstance(param, Parameter)
            else param
            for param in self.params
        ]


class _Statement:
    """One statement, compiled at its first use for each kind of database."""

    def __init__(self) -> None:
        self._compiled: dict[str, _Compiled] = {}

    def _execute(self, cursor: Any, values: Mapping[str, object]) -> _Compiled:
        database = cursor.db
        compiled = self._compiled.get(database.vendor)
        if compiled is None:
            compiled = self._compiled[database.vendor] = self._compile()
        cursor.execute(compiled.sql, compiled.filled(values, database))
        return compiled

    def _compile(self) -> _Compiled:
        raise NotImplementedError


class PreparedSelect(_Statement):
    """The rows of a `values_list()` queryset, as a list of tuples; `flat` and other row shapes are the caller's."""

    def __init__(self, build: Callable[[], "QuerySet[Any, Any]"]) -> None:
        super().__init__()
        self._build = build

    def _compile(self) -> _Compiled:
        compiler = self._build().query.get_compiler(connection=connection)
        sql, params = compiler.as_sql()
        converters = compiler.get_converters([column[0] for column in compiler.select])
        return _Compiled(sql, tuple(params), compiler, converters)

    def rows(self, **values: object) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            ready = self._execute(cursor, values)
            rows: Iterable[Any] = cursor.fetchall()
        if ready.converters:
            rows = ready.compiler.apply_converters(rows, ready.converters)
        return [tuple(row) for row in rows]


class PreparedSelectIn:
    """A `PreparedSelect` over a list of keys of any length; there is one statement for each power of two."""

    def __init__(
        self,
        key: Parameter,
        build: Callable[[list[Any]], "QuerySet[Any, Any]"],
    ) -> None:
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

    def __init__(
        self, build: Callable[[], "QuerySet[Any, Any]"], assignments: Mapping[str, object]
    ) -> None:
        super().__init__()
        self._build = build
        self._assignments = assignments

    def _compile(self) -> _Compiled:
        query: Any = self._build().query.chain(UpdateQuery)
        query.add_update_values(self._assignments)
        sql, params = query.get_compiler(connection=connection).as_sql()
        return _Compiled(sql, tuple(params), None, {})

    def run(self, **values: object) -> int:
        with connection.cursor() as cursor:
            self._execute(cursor, values)
            matched: int = cursor.rowcount
        return matched


class PreparedInsert(_Statement, Generic[M]):
    """`save(force_insert=True)` of an instance without parents; its key is set where the database gives it."""

    def __init__(self, model: type[M]) -> None:
        super().__init__()
        self._model = model

    def _fields(self) -> Sequence["Field[Any, Any]"]:
        fields: Sequence[Field[Any, Any]] = self._model._meta.local_concrete_fields
        return [field for field in fields if not isinstance(field, models.AutoField)]

    def _compile(self) -> _Compiled:
        fields = self._fields()
        blank = self._model()
        for field in fields:
            setattr(blank, field.attname, Parameter(field.attname, field))
        key = self._model._meta.pk
        query = InsertQuery(self._model)
        query.insert_values(fields, [blank], raw=True)
        compiler = query.get_compiler(connection=connection)
        if isinstance(key, models.AutoField):
            compiler.returning_fields = [key]
        ((sql, params),) = compiler.as_sql()
        return _Compiled(sql, tuple(params), None, {})

    def run(self, instance: M) -> M:
        """Insert the row; raises what `save` raises."""
        values = {field.attname: field.pre_save(instance, add=True) for field in self._fields()}
        with connection.cursor() as cursor:
            self._execute(cursor, values)
            if isinstance(self._model._meta.pk, models.AutoField):
                instance.pk = cursor.fetchone()[0]
        instance._state.adding = False
        instance._state.db = connection.alias
        return instance
