"""What a catalog knows: namespaces, tables, table versions. Plain frozen values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

from lakeroot.model.identifiers import Identifier

NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})


class Namespace(Struct, frozen=True):
    """A namespace: a name under its parent, with properties."""

    identifier: Identifier
    properties: Mapping[str, str] = field(default_factory=dict)
    created_at_ms: int | None = None


class Table(Struct, frozen=True):
    """A table: a name for the Lance table at a location.

    The location is written as the store keeps it, relative to the store's root wherever possible;
    `Store.uri` turns it into an address any Lance client can open.
    """

    identifier: Identifier
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
    created_at_ms: int | None = None


Record = Namespace | Table


class TableVersion(Struct, frozen=True):
    """One committed version of a table: a number and the manifest file that holds it."""

    version: int
    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    timestamp_ms: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
