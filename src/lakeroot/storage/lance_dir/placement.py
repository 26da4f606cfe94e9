"""Where the directory of a new table goes, and how it is called."""

import os
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import DELIMITER, Identifier

SUFFIX: Final = ".lance"
RESERVED: Final = ".lance-reserved"
DEREGISTERED: Final = ".lance-deregistered"
MARK: Final = b"reserved"
"""What the markers hold; to other clients only their presence means anything."""
MARK_FOR_ROW: Final = b"reserved for a row of __manifest"
"""What a reservation holds that means nothing without its row, such as one left by a crash."""

# These are kept as they are by every client we know; others are percent-encoded by some, and then
# a table is written to one directory and looked for in another.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_\-.: $]+")
_LONGEST: Final = 255
_SHORTENED: Final = 80


def is_plain(name: str) -> bool:
    """Tell whether a root table of this name can live in ``<name>.lance``."""
    return (
        _PLAIN.fullmatch(name) is not None
        and DELIMITER not in name
        and len(name) + len(SUFFIX) <= _LONGEST
    )


def flat(name: str) -> str:
    """Give the V1 directory of a root table."""
    return name + SUFFIX


def hashed(identifier: Identifier) -> str:
    """Give a new V2 directory: eight random digits, then the identifier as far as it is plain."""
    object_id = DELIMITER.join(identifier)
    prefix = os.urandom(4).hex() + "_"
    if _PLAIN.fullmatch(object_id) is None or len(prefix) + len(object_id) > _LONGEST:
        object_id = re.sub(r"[^A-Za-z0-9_\-.$]+", "-", object_id)[:_SHORTENED]
    if object_id.endswith(SUFFIX):
        # V1 clients would take it for a table of their own.
        object_id = object_id.removesuffix(SUFFIX) + "-lance"
    return prefix + object_id


def is_flat(location: str) -> bool:
    """Tell whether V1 clients find a table by this directory."""
    return location.endswith(SUFFIX) and "/" not in location


def directories_above(location: str) -> Iterator[str]:
    """Give the directories that a location lies in, the nearest first."""
    while location := location.rpartition("/")[0]:
        yield location


def require_apart(locations: Collection[str]) -> None:
    """Refuse a location that lies inside another one of them."""
    for location in locations:
        if "/" in location:
            for above in directories_above(location):
                if above in locations:
                    raise overlap_error(location, above)


def overlap_error(location: str, other: str) -> InvalidInputError:
    """Say that dropping one table would delete another."""
    return InvalidInputError(
        f"The location {location} overlaps {other}",
        "one table's directory must not be inside another's",
        "Choose a directory of its own",
    )


# Every look at a table asks, and most looks are at the same tables.
@lru_cache(4096)
def is_inside(location: str) -> bool:
    """Tell whether a location, which anybody may have written, is a directory below the root."""
    parts = location.split("/")
    return not any(part in ("", ".", "..") for part in parts) and parts[0] != "__manifest"


def is_component(name: str) -> bool:
    """Tell whether a name can be part of a path at all, so that it may be looked for."""
    return (
        bool(name)
        and "/" not in name
        and "\0" not in name
        and len(name.encode("utf-8", "surrogatepass")) + len(SUFFIX) <= _LONGEST
        and not any("\ud800" <= character <= "\udfff" for character in name)
    )
