"""Columns and values of Spark as Lance writes them.

A predicate that is pushed must keep every row that Spark's own filter keeps. Where the two differ
(zeros with a sign, not-a-numbers, times in a session's zone) there is no value to write.
"""

import datetime as dt
import decimal
import math
from typing import Any

_MOST_DIGITS = 38


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
