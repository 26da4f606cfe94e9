"""The schema of the ``__manifest`` table, as Lance's version files write it."""

from functools import lru_cache
from typing import Final

from lakeroot.storage.lance_dir import protobuf

PRIMARY_KEY: Final = "lance-schema:unenforced-primary-key:position"
FORMAT_VERSION: Final = "2.2"

# A list has an id of its own and its items another, so the leaves of the five columns are these.
COLUMN_IDS: Final = (0, 1, 2, 3, 5)
COLUMN_INDICES: Final = (0, 1, 2, 3, 4)

_NO_PARENT: Final = -1
# Name, id, parent, type, nullable.
_FIELDS: Final = (
    ("object_id", 0, _NO_PARENT, "string", False),
    ("object_type", 1, _NO_PARENT, "string", False),
    ("location", 2, _NO_PARENT, "string", True),
    ("metadata", 3, _NO_PARENT, "string", True),
    ("base_objects", 4, _NO_PARENT, "list", True),
    ("object_id", 5, 4, "string", True),
)


def _encoded(name: str, number: int, parent: int, kind: str, *, nullable: bool) -> bytes:
    encoding = 1 if kind == "list" else 2
    primary_key = protobuf.entry(10, PRIMARY_KEY, "0") + protobuf.number(12, 1)
    return (
        protobuf.text(2, name)
        + protobuf.number(3, number)
        + protobuf.number(4, parent)
        + protobuf.text(5, kind)
        + protobuf.number(6, int(nullable))
        + protobuf.number(7, encoding)
        + (primary_key if number == 0 else b"")
    )


SCHEMA: Final = tuple(
    _encoded(name, number, parent, kind, nullable=nullable)
    for name, number, parent, kind, nullable in _FIELDS
)


@lru_cache(maxsize=8)
def is_ours(schema: tuple[bytes, ...]) -> bool:
    """Tell whether a schema has these columns and no others; the key's mark may be missing."""
    return tuple(map(_shape, schema)) == tuple(map(_shape, SCHEMA))


def _shape(field: bytes) -> tuple[object, ...]:
    found = {number: value for number, _, value in protobuf.fields(field)}
    return tuple(found.get(number, 0) for number in (2, 3, 4, 5, 6))
