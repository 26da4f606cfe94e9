"""Spans of time as people write them: a number and a unit."""

import re
from datetime import timedelta
from typing import Final

from lakeroot.model.errors import InvalidInputError

_SPAN: Final = re.compile(r"(\d+)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def span_of(text: str) -> timedelta:
    """Read a span: ``12h``, ``7d``, ``2w``."""
    match = _SPAN.fullmatch(text.strip().lower())
    if match is None:
        raise InvalidInputError(
            f"{text!r} is not a span of time", fix="Write a number and a unit: 12h, 7d, 2w"
        )
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise InvalidInputError(f"{text!r} is too long", fix="Give a shorter span") from None
