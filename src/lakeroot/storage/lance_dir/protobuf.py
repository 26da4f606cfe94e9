"""The protobuf wire format, as far as Lance's version files need it.

A handful of messages are read and written here rather than with generated classes: the version
file of the one before is edited, and every field we do not know must survive as it was.
"""

import struct
from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

Field = tuple[int, int, int | bytes]


class MalformedError(ValueError):
    """These bytes are not a protobuf message."""


def fields(message: bytes) -> Iterator[Field]:
    """Read the fields of a message: number, wire type, value."""
    position, end = 0, len(message)
    while position < end:
        # Nearly all keys and sizes are a single byte, and every refresh reads dozens of them.
        key = message[position]
        position += 1
        if key >= 0x80:
            key, position = varint(message, position - 1)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == VARINT:
            value, position = varint(message, position)
        elif wire == BYTES:
            if position < end and message[position] < 0x80:
                size = message[position]
                position += 1
            else:
                size, position = varint(message, position)
            value, position = _slice(message, position, size)
        elif wire == FIXED64:
            value, position = _slice(message, position, 8)
        elif wire == FIXED32:
            value, position = _slice(message, position, 4)
        else:
            raise MalformedError(f"wire type {wire}")
        yield number, wire, value


def varints(packed: bytes) -> Iterator[int]:
    """Read a packed list of numbers."""
    position = 0
    while position < len(packed):
        value, position = varint(packed, position)
        yield value


def pairs(entry: bytes) -> tuple[bytes, bytes]:
    """Read one entry of a map."""
    key = value = b""
    for number, _, content in fields(entry):
        if isinstance(content, bytes):
            if number == 1:
                key = content
            elif number == 2:
                value = content
    return key, value


def number(field: int, value: int) -> bytes:
    """Write a number; zero is absence, as everywhere in proto3."""
    return b"" if value == 0 else always_number(field, value)


def always_number(field: int, value: int) -> bytes:
    """Write a number whose presence matters, zero included."""
    return encode_varint(field << 3 | VARINT) + encode_varint(value)


def blob(field: int, value: bytes) -> bytes:
    """Write bytes, a string or a message."""
    return encode_varint(field << 3 | BYTES) + encode_varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """Write a string; the empty one is absence."""
    return blob(field, value.encode()) if value else b""


def entry(field: int, key: str, value: str) -> bytes:
    """Write one entry of a map from strings to strings."""
    return blob(field, text(1, key) + text(2, value))


def raw(field: Field) -> bytes:
    """Write a field as it was read."""
    number_, wire, value = field
    key = encode_varint(number_ << 3 | wire)
    if isinstance(value, int):
        return key + encode_varint(value)
    return key + (encode_varint(len(value)) if wire == BYTES else b"") + value


def encode_varint(value: int) -> bytes:
    """Write a number in seven-bit groups; a negative one as its 64-bit two's complement."""
    if value < 0:
        value += 1 << 64
    if value < 0x80:
        return bytes((value,))
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def framed(message: bytes) -> bytes:
    """Write a message the way Lance puts one into a file: its length, then itself."""
    return struct.pack("<I", len(message)) + message


def unframed(content: bytes, position: int) -> bytes:
    """Read a message that was put into a file at a position."""
    head, start = _slice(content, position, 4)
    (size,) = struct.unpack("<I", head)
    return _slice(content, start, size)[0]


def varint(message: bytes, position: int) -> tuple[int, int]:
    """Read a number at a position; give it, and where it ends."""
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise MalformedError("a number is cut off")
        group = message[position]
        position += 1
        value |= (group & 0x7F) << shift
        if group < 0x80:
            if shift > 56 and value >> 64:
                raise MalformedError("a number has more than 64 bits")
            return value, position
        shift += 7


def _slice(message: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if position < 0 or end > len(message):
        raise MalformedError("a field is cut off")
    return message[position:end], end
