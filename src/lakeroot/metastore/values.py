"""Partition values: dates, times and decimals as values that MessagePack has."""

import datetime
import decimal
from typing import Any

from lakeroot.model.errors import InvalidInputError


def partition_value(value: Any) -> Any:
    """Write a partition value so that it can be stored, and equal values look the same."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case datetime.datetime():
            moment = value.astimezone(datetime.UTC) if value.tzinfo else value
            return moment.isoformat(timespec="microseconds")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return format(value, "f")
        case _:
            raise InvalidInputError(
                f"{value!r} cannot be a partition value",
                f"there is no way to store a {type(value).__name__}",
                "Use a number, text, bytes, date, time or decimal",
            )
