"""What the fields of a protobuf message may hold, and reading messages that hold nothing else.

Fields of unknown numbers are let be: other versions of Lance write more than is known here.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.protobuf import BYTES, FIXED32, FIXED64, VARINT, MalformedError

Kind = Mapping[int, Callable[[Any], Any] | None]
"""How a field may be written, by wire type, and what reads it; nothing where it is its value."""

_FIXED: Final = {FIXED32: 4, FIXED64: 8}
_BIT_31: Final = 1 << 31
_BIT_64: Final = 1 << 64


class Shape:
    """The fields that a message may have, by their numbers; `many` of some.

    One that `is_closed` has no others, in whatever version of Lance.
    """

    def __init__(
        self,
        kinds: Mapping[int, Kind],
        many: Mapping[int, Kind] | None = None,
        *,
        is_closed: bool = False,
    ) -> None:
        self._is_closed = is_closed
        # By what a field begins with, its number and its wire type in one: most commits wait for
        # dozens of fields to be looked up here.
        self._kinds: dict[int, tuple[int, Callable[[Any], Any] | None, bool]] = {}
        self._numbers = {0, *kinds, *(many or {})}
        for is_many, some in ((False, kinds), (True, many or {})):
            for number_, kind in some.items():
                for wire, reads in kind.items():
                    self._kinds[number_ << 3 | wire] = number_, reads, is_many

    def read(self, message: bytes) -> dict[int, Any]:
        """Read a message: the last value of every field, of those that may be many a list.

        Of a field that is not known it is told that it is there.
        """
        found: dict[int, Any] = {}
        kind_of = self._kinds.get
        position, end = 0, len(message)
        while position < end:
            key = message[position]
            position += 1
            if key >= 0x80:
                key, position = protobuf.varint(message, position - 1)
            wire = key & 7
            value: Any
            if wire in (VARINT, BYTES):
                if position < end and message[position] < 0x80:
                    value = message[position]
                    position += 1
                else:
                    value, position = protobuf.varint(message, position)
            else:
                value = _FIXED.get(wire, end)  # Of no other wire type there is room for a value.
            if wire != VARINT:
                start, position = position, position + value
                if position > end:
                    raise MalformedError("a field is cut off")
                value = message[start:position]
            kind = kind_of(key)
            if kind is None:
                if self._is_closed or key >> 3 in self._numbers:
                    raise MalformedError(f"field {key >> 3} is not written as it should be")
                found[key >> 3] = None
                continue
            number_, reads, is_many = kind
            if reads is not None:
                value = reads(value)
            if is_many:
                found.setdefault(number_, []).append(value)
            else:
                found[number_] = value
        return found


def up_to(largest: int) -> Kind:
    """Make the kind of numbers that are not larger than one: an enumeration, a flag."""

    def reads(value: int) -> int:
        if value > largest:
            raise MalformedError(f"a number is larger than {largest}")
        return value

    return {VARINT: reads}


def message(shape: Shape) -> Kind:
    """Make the kind of messages of a shape."""
    return {BYTES: shape.read}


def same_message(shape: Shape) -> Kind:
    """Make the kind of messages that say the same in nearly every manifest: read once."""
    return {BYTES: lru_cache(maxsize=64)(shape.read)}


def _signed(value: int) -> int:
    if value < _BIT_31:
        return value
    value -= _BIT_64
    if not -_BIT_31 <= value < 0:
        raise MalformedError("a number is too large")
    return value


def _signed_list(packed: bytes) -> list[int]:
    if packed.isascii():
        return list(packed)  # Each is a single byte.
    return [_signed(one) for one in protobuf.varints(packed)]


def _numbers(packed: bytes) -> None:
    for _ in protobuf.varints(packed):
        pass


def _some_text(value: bytes) -> str:
    if not value:
        raise MalformedError("a text is empty")
    return value.decode()


number: Final[Kind] = {VARINT: None}
small: Final[Kind] = up_to((1 << 32) - 1)
flag: Final[Kind] = up_to(1)
signed: Final[Kind] = {VARINT: _signed}
signed_list: Final[Kind] = {BYTES: _signed_list, VARINT: lambda value: [_signed(value)]}
"""Packed together, as Lance writes them, or one by one: then only the last is given."""
numbers: Final[Kind] = {BYTES: _numbers, VARINT: None}
octets: Final[Kind] = {BYTES: None}
text: Final[Kind] = {BYTES: bytes.decode}
some_text: Final[Kind] = {BYTES: _some_text}
entry: Final = message(Shape({1: text, 2: text}, is_closed=True))
"""One of a map from texts to texts."""
entry_of_bytes: Final = message(Shape({1: text, 2: octets}, is_closed=True))
"""One of a map from texts to bytes."""
