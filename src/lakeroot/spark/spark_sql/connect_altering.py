"""ALTER TABLE and DESCRIBE over Spark Connect: read here, done as the classic catalog does them.

What Spark's own analysis refuses in a classic session (a name that is taken, NOT NULL of rows that
are there) is refused here, in our words.
"""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from lakeroot.model.errors import (
    InvalidInputError,
    TableColumnNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.spark.catalogs import TableRef, locate, parse_name
from lakeroot.spark.fitting import minds_case, spelled_as
from lakeroot.spark.opening import open_table
from lakeroot.spark.spark_sql.altering import Change, alter
from lakeroot.spark.spark_sql.answers import Answers
from lakeroot.spark.spark_sql.commenting import COMMENT
from lakeroot.spark.spark_sql.installing import catalog_in
from lakeroot.spark.spark_sql.scanning import Statement, settings, split

# What ALTER COLUMN may say, and what Spark calls the change.
_OF_A_COLUMN = {
    "TYPE": "UpdateColumnType",
    "COMMENT": "UpdateColumnComment",
    "FIRST": "UpdateColumnPosition",
    "AFTER": "UpdateColumnPosition",
    "SET": "UpdateColumnDefaultValue",
    "DROP": "UpdateColumnDefaultValue",
}
# The words behind the name of a table.
BEGIN_CHANGE = tuple(
    (word,)
    for word in (
        "ADD",
        "DROP",
        "RENAME",
        "ALTER",
        "CHANGE",
        "REPLACE",
        "SET",
        "UNSET",
        "PARTITION",
        "RECOVER",
    )
)


def altered(
    spark: SparkSession, answers: Answers, ref: TableRef, names: list[str], statement: Statement
) -> bool:
    """Do what ALTER TABLE says behind the name of the table; tell whether it is known here."""
    if statement.take("RENAME", "TO"):
        answers.op_rename_table({"id": names, "to": _new_name(spark, statement.until(), ref)})
        return True
    table = _Table(spark, ref)
    changes = table.changes(statement)
    if changes is None:
        return False
    alter(ref, changes)
    return True


def description(answers: Answers, names: list[str]) -> list[tuple[str, str, str | None]]:
    """Say the columns of a table, their types and their comments, as DESCRIBE does."""
    found = answers.op_load_table({"id": names})
    schema = st.StructType.fromJson(json.loads(found["schema"]))
    return [
        (each.name, each.dataType.simpleString(), each.metadata.get(COMMENT))
        for each in schema.fields
    ]


def columns_of(text: str, what: str) -> st.StructType:
    """Read columns with their types, as Spark does; what it cannot read is bad input."""
    try:
        return st.StructType.fromDDL(text)
    except ParseException as error:
        why = str(error).strip().splitlines()[0]
        raise InvalidInputError(f"{what} cannot be read", why) from error


def _new_name(spark: SparkSession, text: str, ref: TableRef) -> list[str]:
    """Read the new name of a table; Spark does not look for a catalog in it, but one may be."""
    first, *rest = parse_name(text)
    other = catalog_in(spark, first) if rest else None
    if other is None:
        return [first, *rest]
    if other != ref.catalog:
        raise UnsupportedOperationError(
            f"A table cannot be moved into another catalog, {first}",
            fix="Copy it with CREATE TABLE ... AS SELECT, and drop it",
        )
    return rest


class _Table:
    """Read changes of the columns of one table."""

    def __init__(self, spark: SparkSession, ref: TableRef) -> None:
        self.ref = ref
        self.exact = minds_case(spark)
        self.schema = open_table(locate(ref)).schema

    def changes(self, statement: Statement) -> list[Change] | None:
        """Read what is to be changed; nothing, if that is not known here."""
        if statement.take("ADD", "COLUMNS") or statement.take("ADD", "COLUMN"):
            return [self._added(text) for text in split(_listed(statement.until()), types=True)]
        if statement.take("DROP", "COLUMNS") or statement.take("DROP", "COLUMN"):
            return self._dropped(statement)
        if statement.take("REPLACE", "COLUMNS"):
            new = split(_listed(statement.until()), types=True)
            gone = [{"kind": "DeleteColumn", "column": [name]} for name in self.schema.names]
            return [*gone, *(self._added(text) for text in new)]
        if statement.take("RENAME", "COLUMN"):
            return [self._renamed(statement)]
        if statement.take("ALTER") or statement.take("CHANGE"):
            statement.take("COLUMN")
            return [self._of_a_column(statement)]
        for word, kind in (("SET", "SetProperty"), ("UNSET", "RemoveProperty")):
            if statement.take(word, "TBLPROPERTIES"):
                statement.take("IF", "EXISTS")
                return [{"kind": kind, "property": each} for each in _keys(statement.until())]
        return None

    def _spelled(self, path: Sequence[str]) -> list[str] | None:
        """Name a column as the table does; nothing, if it has none of that name."""
        fields, found = list(self.schema), []
        for name in path:
            names = [field.name for field in fields]
            known = spelled_as([name], names, exact=self.exact)
            if name not in known:
                return None
            found.append(known[name])
            kind = fields[names.index(known[name])].type
            fields = list(kind) if pa.types.is_struct(kind) else []
        return found

    def _known(self, text: str) -> list[str]:
        path = parse_name(text)
        found = self._spelled(path)
        if found is None:
            raise TableColumnNotFoundError(f"Table {self.ref} has no column {'.'.join(path)!r}")
        return found

    def _added(self, text: str) -> Change:
        # The name may be any word: also one that says something behind the type.
        name, rest = _first_word(text)
        path = parse_name(name)
        column = Statement(rest, types=True)
        kind = column.until(("FIRST",), ("AFTER",))
        said = columns_of(f"`new` {kind}", f"The type of the new column {name}").fields[0]
        change: dict[str, Any] = {
            "kind": "AddColumn",
            # One that is there is refused, however it is spelled.
            "column": self._spelled(path) or list(path),
            "field": st.StructType([said]).json(),
            "nullable": said.nullable,
        }
        if COMMENT in said.metadata:
            change["comment"] = said.metadata[COMMENT]
        if not column.finished:
            change["position"] = column.until()
        return change

    def _dropped(self, statement: Statement) -> list[Change]:
        lenient = statement.take("IF", "EXISTS")
        return [
            {"kind": "DeleteColumn", "column": self._known(text)}
            for text in split(_listed(statement.until()))
            if not lenient or self._spelled(parse_name(text)) is not None
        ]

    def _renamed(self, statement: Statement) -> Change:
        old, rest = _first_word(statement.until())
        path = self._known(old)
        behind = Statement(rest)
        behind.expect("TO")
        new, more = _first_word(behind.until())
        name, *inner = parse_name(new)
        if inner or more:
            raise InvalidInputError(
                f"{f'{new} {more}'.strip()!r} is not the new name of a column",
                fix="Write one name, in backticks if it has a dot or a space",
            )
        taken = self._spelled([*path[:-1], name])
        if taken is not None and taken != path:
            raise InvalidInputError(f"Table {self.ref} already has a column {'.'.join(taken)!r}")
        return {"kind": "RenameColumn", "column": path, "name": name}

    def _of_a_column(self, statement: Statement) -> Change:
        name, rest = _first_word(statement.until())
        path = self._known(name)
        statement = Statement(rest)
        if statement.take("DROP", "NOT", "NULL") and statement.finished:
            return {"kind": "UpdateColumnNullability", "column": path, "nullable": True}
        if statement.take("SET", "NOT", "NULL"):
            raise UnsupportedOperationError(
                f"Column {'.'.join(path)!r} of table {self.ref} cannot become NOT NULL",
                "rows that are there may have no value in it",
                "Make a table with NOT NULL, and INSERT the rows",
            )
        kind = next((kind for word, kind in _OF_A_COLUMN.items() if statement.take(word)), "")
        return {"kind": kind or "A change of several columns", "column": path}


def _first_word(text: str) -> tuple[str, str]:
    """Cut a column's name, which may be in backticks, from what is said of it."""
    text = text.strip()
    end = 0
    quoted = False
    while end < len(text) and (quoted or not text[end].isspace()):
        quoted ^= text[end] == "`"
        end += 1
    return text[:end], text[end:].strip()


def _listed(text: str) -> str:
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _keys(text: str) -> list[str]:
    return list(settings(_listed(text))) or [""]
