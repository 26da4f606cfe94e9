"""Moments of the past, as people write them."""

from datetime import UTC, date, datetime
from typing import Any

from lakeroot.model.errors import InvalidInputError


def read_moment(moment: int | str | datetime | date) -> dict[str, Any]:
    """Read a moment: a version of the catalog (12, "12", "v12"), or a date or time in UTC."""
    if isinstance(moment, datetime):
        when = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return {"timestamp_ms": int(when.timestamp() * 1000)}
    if isinstance(moment, date):
        return read_moment(datetime(moment.year, moment.month, moment.day, tzinfo=UTC))
    text = str(moment).strip()
    number = text[1:] if text[:1] in ("v", "@") else text
    if number.isdigit():
        return {"version": int(number)}
    try:
        return read_moment(datetime.fromisoformat(text))
    except ValueError:
        raise InvalidInputError(
            f"{text!r} is not a moment",
            fix="Give a version of the catalog, or a time such as 2026-10-01 or 2026-10-01T12:30",
        ) from None


def show_time(timestamp_ms: int | None) -> str:
    """Write a time for a person."""
    if timestamp_ms is None:
        return ""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S")
