"""Locators: where an object is in the hierarchy, and the canonical string that names it.

A canonical string joins the names from the namespace down with ``|``. Names are not escaped: the
string is a key to hash, never a thing to parse.
"""

import hashlib
import re
import uuid
from dataclasses import dataclass
from typing import Any, Final

from lakeroot.metastore.states import UNPARTITIONED_SCHEME_ID
from lakeroot.model.errors import InvalidInputError

SEPARATOR: Final = "|"
LONGEST_TABLE_VERSION: Final = 1024
_TABLE_VERSION: Final = re.compile(r"(?:(\w*)\.)?([0-9]+)", re.ASCII)

PartitionValues = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class NamespaceLocator:
    """The place of a namespace."""

    namespace: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the canonical string."""
        return (self.namespace,)


@dataclass(frozen=True, slots=True)
class TableLocator:
    """The place of a table."""

    parent: NamespaceLocator
    table_name: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the canonical string."""
        return (*self.parent.parts, self.table_name)


@dataclass(frozen=True, slots=True)
class TableVersionLocator:
    """The place of a table version."""

    parent: TableLocator
    table_version: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the canonical string."""
        return (*self.parent.parts, self.table_version)


@dataclass(frozen=True, slots=True)
class StreamLocator:
    """The place of a stream."""

    parent: TableVersionLocator
    stream_id: str
    format: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the canonical string."""
        return (*self.parent.parts, self.stream_id, self.format)


@dataclass(frozen=True, slots=True)
class PartitionLocator:
    """The place of a partition."""

    parent: StreamLocator
    partition_values: PartitionValues
    partition_id: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the canonical string."""
        return (*self.parent.parts, values_text(self.partition_values), self.partition_id)


@dataclass(frozen=True, slots=True)
class DeltaLocator:
    """The place of a delta."""

    parent: PartitionLocator
    stream_position: int

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the canonical string."""
        return (*self.parent.parts, str(self.stream_position))


Locator = (
    NamespaceLocator
    | TableLocator
    | TableVersionLocator
    | StreamLocator
    | PartitionLocator
    | DeltaLocator
)


def canonical_string(locator: Locator) -> str:
    """Name an object uniquely within its catalog."""
    return SEPARATOR.join(locator.parts)


def digest(text: str) -> str:
    """Hash a canonical string into the name of a directory."""
    return hashlib.sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def values_text(values: PartitionValues) -> str:
    """Write partition values as the alias of a partition writes them: as a Python list."""
    return str(list(values)) if values else str(None)


def partition_alias(values: PartitionValues, scheme_id: str | None) -> str:
    """Give the name that leads from partition values to the partition."""
    return f"{values_text(values)}{SEPARATOR}{scheme_id or UNPARTITIONED_SCHEME_ID}"


def table_version_of(text: str) -> str:
    """Write a table version the one way it is kept: ``MyVersion.0001`` is ``MyVersion.1``."""
    match = _TABLE_VERSION.fullmatch(text) if len(text) <= LONGEST_TABLE_VERSION else None
    if match is None:
        raise InvalidInputError(
            f"{text[:80]!r} is not a table version",
            f"it is a number, or a word, a dot and a number, of at most {LONGEST_TABLE_VERSION}",
            "Use a version such as 1 or beta.2",
        )
    prefix, number = match.groups()
    plain = number.lstrip("0") or "0"
    return plain if prefix is None else f"{prefix}.{plain}"


def next_table_version(previous: str | None) -> str:
    """Give the version after another, such as ``2`` after ``1`` or ``beta.2`` after ``beta.1``."""
    if previous is None:
        return "1"
    prefix, dot, number = previous.rpartition(".")
    return f"{prefix}{dot}{int(number) + 1}"


def new_id() -> str:
    """Make a new immutable id."""
    return str(uuid.uuid4())


def checked_name(name: Any, kind: str) -> str:
    """Refuse a name that no namespace or table may have; any other text is fine."""
    if not isinstance(name, str) or not name:
        raise InvalidInputError(
            f"{name!r} is not the name of a {kind}", "a name is a non-empty text"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{name!r} is not the name of a {kind}", "it is not valid Unicode"
        ) from error
    return name


def checked_id(identifier: Any, kind: str) -> str:
    """Refuse an id that cannot be the name of a directory of its own."""
    if (
        not isinstance(identifier, str)
        or not identifier
        or not identifier.isprintable()
        or set(identifier) & set("/\\#")
        or identifier[0] in "._"
        or identifier == "rev"
        or len(identifier.encode()) > 255
    ):
        raise InvalidInputError(
            f"{identifier!r} cannot be the id of a {kind}",
            "an id is the name of a directory",
            "Use letters, digits and dashes, or leave it out to get a new one",
        )
    return identifier
