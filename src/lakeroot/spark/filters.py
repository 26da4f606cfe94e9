"""Spark's filters as predicates of Lance.

A predicate that is pushed must keep every row that Spark's own filter keeps. Where the two differ
(zeros with a sign, not-a-numbers, times in a session's zone) the filter stays with Spark.
"""

import datetime as dt
import decimal
import math
from typing import Any

from pyspark.sql import datasource as ds

_COMPARISONS: dict[type, str] = {
    ds.EqualTo: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}
_PATTERNS: dict[type, str] = {
    ds.StringStartsWith: "starts_with({column}, {value})",
    ds.StringEndsWith: "ends_with({column}, {value})",
    ds.StringContains: "contains({column}, {value})",
}
_MOST_VALUES = 10_000
_MOST_DIGITS = 38


def predicate(condition: ds.Filter) -> str | None:
    """Write a Spark filter as a Lance predicate, or nothing if Lance cannot say the same."""
    if isinstance(condition, ds.IsNull):
        return f"{column(condition.attribute)} IS NULL"
    if isinstance(condition, ds.IsNotNull):
        return f"{column(condition.attribute)} IS NOT NULL"
    if isinstance(condition, ds.Not):
        inner = predicate(condition.child)
        return None if inner is None else f"NOT ({inner})"
    if isinstance(condition, ds.In):
        return _membership(condition)
    value = literal(getattr(condition, "value", None))
    if value is None:
        return None
    name = column(condition.attribute)
    if type(condition) in _COMPARISONS:
        return f"{name} {_COMPARISONS[type(condition)]} {value}"
    if type(condition) in _PATTERNS:
        return _PATTERNS[type(condition)].format(column=name, value=value)
    if isinstance(condition, ds.EqualNullSafe):
        return f"({name} IS NOT NULL AND {name} = {value})"
    return None


def _membership(condition: ds.In) -> str | None:
    values = [literal(value) for value in condition.value]
    if not values or len(values) > _MOST_VALUES or None in values:
        return None
    return f"{column(condition.attribute)} IN ({', '.join(v for v in values if v)})"


def column(path: tuple[str, ...]) -> str:
    """Write a column, or a field inside of one, for Lance."""
    return ".".join(f"`{name}`" for name in path)


def literal(value: Any) -> str | None:
    """Write a value for Lance, or nothing if comparing with it means something else there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        # Lance reads the smallest of all as a double without its sign.
        return str(value) if -(2**63) < value < 2**63 else None
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) and value != 0.0 else None
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'" if "\0" not in value else None
    if isinstance(value, decimal.Decimal):
        return _decimal(value) if value.is_finite() else None
    if isinstance(value, dt.datetime):
        return None
    if isinstance(value, dt.date):
        return f"date '{value.isoformat()}'"
    return None


def _decimal(value: decimal.Decimal) -> str | None:
    """Write an exact number: Lance takes one with a point for a double, and refuses that."""
    if value == value.to_integral_value() and -(2**63) < value < 2**63:
        return str(int(value))
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    if precision > _MOST_DIGITS:
        return None
    return f"arrow_cast('{value:f}', 'Decimal128({precision}, {scale})')"
