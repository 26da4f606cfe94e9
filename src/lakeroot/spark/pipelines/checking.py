"""Checks on the rows of a table before they are published."""

import operator
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from lakeroot.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableColumnNotFoundError,
)
from lakeroot.spark.failures import nearest, translated
from lakeroot.spark.pipelines.definition import ROWS, Check
from lakeroot.spark.pipelines.places import Place, pointed

_ROWS = "__lakeroot_rows"


def check(rows: DataFrame, checks: Sequence[Check], table: str) -> int:
    """Return how many rows there are, or say which check fails; one pass, plus one per key."""
    with translated(f"The rows for table {table} cannot be checked"):
        count = _counted(rows, checks, table)
        for each in checks:
            if each.unique:
                with pointed(each.place, "unique"):
                    _unique(rows, each.unique, table)
    return count


def _counted(rows: DataFrame, checks: Sequence[Check], table: str) -> int:
    counts: dict[str, Column] = {}
    places: dict[str, tuple[Place | None, str]] = {}
    for each in checks:
        for name in each.not_null:
            with pointed(each.place, "not_null"):
                _require(rows, name, table)
            text = f"{name!r} is never null"
            counts[text], places[text] = sf.col(f"`{name}`").isNull(), (each.place, "not_null")
        for name in each.unique:
            with pointed(each.place, "unique"):
                _require(rows, name, table)
        if each.expression is not None:
            # An unknown result is no proof: it fails like a false one.
            text = each.expression
            with pointed(each.place, "expression", text):
                condition = _condition(rows, text)
            counts[text] = ~sf.coalesce(condition, sf.expr("false"))
            places[text] = each.place, "expression"
    columns = [sf.count_if(wrong).alias(f"c{n}") for n, wrong in enumerate(counts.values())]
    found = rows.agg(sf.count("*").alias("rows"), *columns).first()
    if found is None:
        raise InvalidTableStateError(f"The rows for table {table} cannot be counted")
    for number, text in enumerate(counts):
        wrong = found[f"c{number}"]
        if wrong:
            with pointed(*places[text]):
                raise failed(table, text, f"{wrong} of {found['rows']} rows break it")
    for each in checks:
        if each.rows is not None and not _holds(each.rows, found["rows"]):
            with pointed(each.place, "rows"):
                raise failed(table, f"rows {each.rows}", f"there are {found['rows']}")
    return int(found["rows"])


def _condition(rows: DataFrame, expression: str) -> Column:
    """Read an expression that is true or false of a row."""
    with translated(f"The check {expression!r} cannot be made"):
        condition = sf.expr(expression)
        kind = rows.select(condition).schema.fields[0].dataType
    if not isinstance(kind, st.BooleanType):
        raise InvalidInputError(
            f"The check {expression!r} is neither true nor false", f"it is {kind.simpleString()}"
        )
    return condition


def _require(rows: DataFrame, name: str, table: str) -> None:
    if name not in rows.columns:
        raise TableColumnNotFoundError(
            f"A check of table {table} names {name!r}, which its rows do not have",
            fix=nearest(name, rows.columns),
        )


def _holds(rule: str, rows: int) -> bool:
    match = ROWS.fullmatch(rule)
    if match is None:
        raise InvalidInputError(f"{rule!r} is not a number of rows", fix="Write >= 1, for example")
    sign, number = match[1], int(match[2])
    return {
        ">=": rows >= number,
        "<=": rows <= number,
        "=": rows == number,
        "==": rows == number,
        ">": rows > number,
        "<": rows < number,
    }[sign]


def _unique(rows: DataFrame, keys: Sequence[str], table: str) -> None:
    columns = [sf.col(f"`{key}`") for key in keys]
    known = reduce(operator.and_, (column.isNotNull() for column in columns))
    # A key may be called `count` too.
    counted = rows.where(known).groupBy(*columns).agg(sf.count("*").alias(_ROWS))
    twice = counted.where(sf.col(_ROWS) > 1).limit(1).collect()
    if twice:
        values = ", ".join(f"{key}={twice[0][key]!r}" for key in keys)
        raise failed(table, f"unique {list(keys)}", f"{twice[0][_ROWS]} rows have {values}")


class CheckFailedError(InvalidTableStateError):
    """The rows of a table break a check of the pipeline."""


def failed(table: str, what: str, why: str) -> CheckFailedError:
    """Say that a check does not hold, so nothing is published."""
    return CheckFailedError(
        f"The check {what} of table {table} failed", why, "Nothing was published"
    )
