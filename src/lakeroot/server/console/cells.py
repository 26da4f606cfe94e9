"""Values of rows as JSON: exact where JSON can be, and never a surprise."""

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

_EXACT: Final = 2**53
_PREVIEW_BYTES: Final = 48
_IMAGES: Final = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"))


def plain(value: Any) -> Any:
    """Write a value as JSON: bytes by their beginning, and what JSON has no number for as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return blob(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value)


def blob(value: bytes) -> dict[str, Any]:
    """Sum up bytes: how many, what kind of image if they are one, and how they begin."""
    return {
        "bytes": len(value),
        "begins": base64.b64encode(value[:_PREVIEW_BYTES]).decode(),
        "image": image_kind(value),
    }


def image_kind(value: bytes) -> str | None:
    """Recognise the images that are shown; nothing else is ever sent as an image."""
    return next((kind for magic, kind in _IMAGES if value.startswith(magic)), None)
