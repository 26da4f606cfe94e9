"""Partition and sort schemes: how the rows of a table are divided, and ordered within a file."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from lakeroot.metastore.states import (
    UNPARTITIONED_SCHEME_ID,
    UNSORTED_SCHEME_ID,
    NullOrder,
    SortOrder,
)
from lakeroot.model.errors import InvalidInputError

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def nothing() -> Mapping[str, Any]:
    """Give the unknown keys of a record that has none."""
    return _NOTHING


@dataclass(frozen=True, slots=True)
class Transform:
    """A function from a column to partition values: its name, parameters and Arrow result type."""

    name: str = "identity"
    parameters: Mapping[str, Any] | None = None
    return_type: bytes | None = None
    extra: Mapping[str, Any] = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """One value of a partition: a field and the transform applied to it."""

    key: tuple[str, ...]
    transform: Transform | None = None
    name: str | None = None
    field_id: str | None = None
    native_object: Any = None
    extra: Mapping[str, Any] = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class PartitionScheme:
    """How rows are divided into partitions; without keys, they are not."""

    keys: tuple[PartitionKey, ...] | None
    name: str | None
    id: str
    native_object: Any = None
    extra: Mapping[str, Any] = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column of a sort order. On disk it is an array, so it has no room for unknown keys."""

    key: tuple[str, ...]
    order: SortOrder = SortOrder.ASCENDING
    null_order: NullOrder = NullOrder.AT_END
    transform: Transform | None = None
    native_object: Any = None


@dataclass(frozen=True, slots=True)
class SortScheme:
    """How rows are ordered within a file; without keys, they are not."""

    keys: tuple[SortKey, ...] | None
    name: str | None
    id: str
    native_object: Any = None
    extra: Mapping[str, Any] = field(default_factory=nothing)


def check_schemes(
    names: Collection[str], partitions: PartitionScheme | None, order: SortScheme | None
) -> None:
    """Refuse schemes that name columns which are not there."""
    for verb, scheme in (("partition", partitions), ("sort", order)):
        for key in (scheme.keys or ()) if scheme is not None else ():
            if not key.key or key.key[0] not in names:
                raise InvalidInputError(
                    f"There is no column {key.key[0] if key.key else ''!r} to {verb} by"
                )


UNPARTITIONED: Final = PartitionScheme(None, "unpartitioned_scheme", UNPARTITIONED_SCHEME_ID)
UNSORTED: Final = SortScheme(None, "unsorted_scheme", UNSORTED_SCHEME_ID)
