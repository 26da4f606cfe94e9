"""Predicates of Spark's catalog interface, as trees of JSON, in the SQL of Lance."""

import datetime as dt
import decimal
from types import MappingProxyType
from typing import Any

from lakeroot.spark.filters import column, literal
from lakeroot.spark.types import NANOS, Comparable

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_PATTERNS = {
    "STARTS_WITH": "starts_with({}, {})",
    "ENDS_WITH": "ends_with({}, {})",
    "CONTAINS": "contains({}, {})",
}
_EPOCH = dt.date(1970, 1, 1)
_ZONES = {"timestamp": 'Some("UTC")', "timestamp_ntz": "None"}
_SECOND = 1_000_000
_NULLS = ("IS_NULL", "IS_NOT_NULL")
_NO_COLUMNS: Comparable = MappingProxyType({})
_LARGEST_NANOS = 2**63 - 1


def predicate(tree: dict[str, Any], cut: Comparable = _NO_COLUMNS) -> str | None:
    """Write a predicate for Lance, or nothing if Spark has to evaluate it.

    `cut` names columns whose values the two sides would compare differently, and tells what Lance
    can be asked about them.
    """
    name, parts = tree.get("name"), tree.get("children", [])
    if name in ("AND", "OR", "NOT"):
        inner = [predicate(part, cut) for part in parts]
        if None in inner:
            return None
        if name == "NOT":
            return f"NOT ({inner[0]})"
        return f"({inner[0]}) {name} ({inner[1]})"
    # Spark's always true, of a DELETE without WHERE, is a predicate and a literal in one.
    if tree.get("type") == "boolean" and tree.get("value") is not None:
        return str(tree["value"])
    if not parts or "field" not in parts[0]:
        return None
    if any("`" in name for name in parts[0]["field"]):
        return None  # Lance has no way to write a field inside of a column that is called so.
    path, rest = ".".join(parts[0]["field"]), parts[1:]
    field = column(tuple(parts[0]["field"]))
    if name in _NULLS or path not in cut:
        return _about_column(str(name), field, [value(part) for part in rest])
    limit = cut[path]
    if limit == NANOS:
        return _about_moments(str(name), field, rest)
    if not isinstance(limit, int) or not all(_fits(part, limit) for part in rest):
        return None
    return _about_column(str(name), field, [value(part) for part in rest])


def _fits(tree: dict[str, Any], most: int) -> bool:
    """Tell whether a number is one that the column could hold: Lance refuses all others."""
    text = tree.get("value")
    return text is not None and 0 <= decimal.Decimal(text) <= most


def _about_moments(name: str, field: str, trees: list[dict[str, Any]]) -> str | None:
    """Compare a column of nanoseconds, which holds every microsecond of its years: 1677 to 2262.

    With a time beyond them, the comparison is the same for every time that the column can hold,
    and null for a null, as one with the largest of these times is.
    """
    if any(tree.get("type") not in _ZONES or tree.get("value") is None for tree in trees):
        return None
    times = [(int(tree["value"]) * 1000, _ZONES[tree["type"]]) for tree in trees]
    within = [_nanos(*time) for time in times if abs(time[0]) <= _LARGEST_NANOS]
    if within or not times:
        # One of IN that is beyond is no value of the column; the others compare with one time.
        return _about_column(name, field, [*within])
    nanos, zone = times[0]
    always = {"<>", "<", "<="} if nanos > 0 else {"<>", ">", ">="}
    if name not in ("IN", "<=>", *_COMPARISONS):
        return None
    shown = f"{field} {'<=' if name in always else '>'} {_nanos(_LARGEST_NANOS, zone)}"
    return f"({field} IS NOT NULL AND {shown})" if name == "<=>" else shown


def _nanos(since_epoch: int, zone: str) -> str:
    return f"arrow_cast({since_epoch}, 'Timestamp(Nanosecond, {zone})')"


def _about_column(name: str, field: str, values: list[str | None]) -> str | None:
    if name == "IS_NULL":
        return f"{field} IS NULL"
    if name == "IS_NOT_NULL":
        return f"{field} IS NOT NULL"
    if not values or None in values:
        return None
    if name == "IN":
        return f"{field} IN ({', '.join(str(each) for each in values)})"
    if name in _COMPARISONS:
        return f"{field} {name} {values[0]}"
    if name == "<=>":
        return f"({field} IS NOT NULL AND {field} = {values[0]})"
    if name in _PATTERNS:
        return _PATTERNS[name].format(field, values[0])
    return None


def moment(micros: int, zone: str) -> str | None:
    """Write a time for Lance; only whole seconds, since a column may hold nothing finer."""
    if micros % _SECOND:
        return None
    return f"arrow_cast({micros}, 'Timestamp(Microsecond, {zone})')"


def value(tree: dict[str, Any]) -> str | None:
    """Write a literal for Lance; Spark sends its inner form: days for dates, text for decimals."""
    kind, text = tree.get("type"), tree.get("value")
    if kind is None or text is None:
        return None
    if kind == "string":
        return literal(text)
    if kind == "boolean":
        return literal(text == "true")
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return literal(int(text))
    if kind in ("float", "double"):
        return literal(float(text))
    if kind == "date":
        try:
            return literal(_EPOCH + dt.timedelta(days=int(text)))
        except OverflowError:  # A year that Python does not have.
            return None
    if kind in _ZONES:
        return moment(int(text), _ZONES[kind])
    if kind.startswith("decimal"):
        return literal(decimal.Decimal(text))
    return None
