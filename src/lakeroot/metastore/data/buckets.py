"""Buckets: the number of a value's bucket, by the storage model's own rule or by Iceberg's."""

import datetime
import decimal
import hashlib
from typing import Any, Final

from lakeroot.metastore.values import partition_value
from lakeroot.model.errors import InvalidInputError

_WORD: Final = 0xFFFFFFFF
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def bucket_of(value: Any, buckets: int) -> int:
    """Give the bucket of a value: the SHA-1 of its text, modulo the number of buckets."""
    text = str(partition_value(value)).encode()
    return int(hashlib.sha1(text, usedforsecurity=False).hexdigest(), 16) % buckets


def iceberg_bucket_of(value: Any, buckets: int) -> int:
    """Give the bucket that Iceberg puts a value in: its 32-bit Murmur3 hash, without the sign."""
    return (murmur3(_iceberg_bytes(value)) & 0x7FFFFFFF) % buckets


def murmur3(data: bytes) -> int:
    """Hash bytes with the 32-bit variant of Murmur3 and the seed 0."""
    state, whole = 0, len(data) // 4 * 4
    for start in range(0, whole, 4):
        state ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        state = (_rotated(state, 13) * 5 + 0xE6546B64) & _WORD
    state ^= _mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    return state ^ state >> 16


def _mixed(word: int) -> int:
    return _rotated(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _WORD


def _iceberg_bytes(value: Any) -> bytes:
    match value:
        case bool() | float():
            pass
        case int():
            return value.to_bytes(8, "little", signed=True)
        case str():
            return value.encode()
        case bytes():
            return value
        case datetime.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return _iceberg_bytes((moment - _EPOCH) // datetime.timedelta(microseconds=1))
        case datetime.date():
            return _iceberg_bytes((value - _EPOCH.date()).days)
        case datetime.time():
            seconds = (value.hour * 60 + value.minute) * 60 + value.second
            return _iceberg_bytes(seconds * 1_000_000 + value.microsecond)
        case decimal.Decimal():
            digits = int("".join(map(str, value.as_tuple().digits)))
            unscaled = -digits if value < 0 else digits
            size = max(1, (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1)
            return unscaled.to_bytes(size, "big", signed=True)
    raise InvalidInputError(
        f"Iceberg has no bucket for {value!r}", f"it is a {type(value).__name__}"
    )
