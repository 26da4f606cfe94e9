"""Write down values that mean the same in every process; nothing of any other."""

import datetime
import decimal
import enum
import hashlib
import pathlib
import re
import uuid
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa

_BY_REPR: Final = frozenset(
    {
        *(type(None), type(...), bool, int, float, complex, str, bytes, bytearray, range, slice),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
        *(decimal.Decimal, uuid.UUID),
    }
)
_BY_TEXT: Final = (pathlib.PurePath, pa.DataType, pa.Field, pa.Schema)
# Deeper than anybody writes, and an end to a list that holds itself.
_DEEPEST: Final = 30


def plain_text(value: Any, depth: int = 0) -> str | None:
    """Write a value as text; nothing if it is no plain value, or holds one that is not."""
    kind = type(value)
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    if kind in _BY_REPR:
        return f"{kind.__name__} {value!r}"
    if isinstance(value, _BY_TEXT):
        return f"{kind.__name__} {value}"
    if isinstance(value, re.Pattern):
        return f"Pattern {value.pattern!r} {value.flags}"
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if depth > _DEEPEST:
        return None
    if isinstance(value, list | tuple):
        return _joined(kind, (plain_text(each, depth + 1) for each in value))
    if isinstance(value, set | frozenset):
        parts = [plain_text(each, depth + 1) for each in value]
        return _joined(kind, sorted(parts, key=str))
    if isinstance(value, dict):
        pairs = [plain_text(pair, depth + 1) for pair in value.items()]
        return _joined(kind, sorted(pairs, key=str))
    return None


def _joined(kind: type, parts: Iterable[str | None]) -> str | None:
    found = []
    for part in parts:
        if part is None:
            return None
        found.append(f"{len(part)}:{part}")
    return f"{kind.__name__} [{' '.join(found)}]"
