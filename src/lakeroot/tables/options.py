"""Options of requests, as people write them."""

import re
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from lakeroot.model.errors import InvalidInputError

Mode = TypeVar("Mode", bound=StrEnum)

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class CreateMode(StrEnum):
    """What creating does when the table is already there."""

    CREATE = "create"
    EXIST_OK = "exist_ok"
    OVERWRITE = "overwrite"


class InsertMode(StrEnum):
    """Whether inserted rows join those of the table or take their place."""

    APPEND = "append"
    OVERWRITE = "overwrite"


def read_mode(modes: type[Mode], text: str | None, default: Mode) -> Mode:
    """Read a mode of a request, in PascalCase or snake_case and in any case."""
    if not text:
        return default
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower()
    for mode in modes:
        if mode.value == plain or mode.value.replace("_", "") == plain:
            return mode
    raise InvalidInputError(
        f"There is no mode {text!r}", fix=f"Use one of: {', '.join(mode.value for mode in modes)}"
    )


def read_timeout(text: str | None) -> timedelta | None:
    """Read a timeout of a request: ``500ms``, ``30s``, ``1h30m``; a bare number is seconds."""
    if not text:
        return None
    seconds, position = 0.0, 0
    stripped = text.strip().lower()
    while position < len(stripped):
        found = _DURATION.match(stripped, position)
        if found is None:
            raise InvalidInputError(f"{text!r} is not a timeout", fix="Write it as 30s or 5m")
        seconds += float(found[1]) * _SECONDS[found[2] or "s"]
        position = found.end()
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise InvalidInputError(f"The timeout {text!r} is too long") from None
