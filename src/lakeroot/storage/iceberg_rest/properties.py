"""The properties of tables and namespaces: the owner's, Iceberg's, and the few that are ours.

An Iceberg catalog keeps them all in one map. The owner sees back what the owner wrote; keys that
configure Iceberg engines, and that servers add unasked, are not the owner's unless the owner wrote
them (then `lakeroot.keys` remembers it). Keys that begin with `lakeroot.` are always ours.
"""

import json
from collections.abc import Mapping
from typing import Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.tables.iceberg import RESERVED_PROPERTIES

OURS: Final = "lakeroot."
REQUEST_ID: Final = "lakeroot.request-id"
RESERVED_FOR: Final = "lakeroot.reserved-for"
CREATED_AT: Final = "lakeroot.created-at-ms"
KEYS: Final = "lakeroot.keys"

# A stock server writes a metadata file at every commit; this keeps only the newest few.
HOUSEKEEPING: Final = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
}

_OF_ENGINES: Final = ("write.", "read.", "commit.", "history.", "schema.", "gc.", "format-version")
_OF_SERVERS: Final = frozenset({"location", "owner"})


def table_properties(written: Mapping[str, str]) -> dict[str, str]:
    """Say how the owner's properties of a table are kept."""
    _refuse_ours(written)
    taken = sorted(written.keys() & RESERVED_PROPERTIES)
    if taken:
        raise InvalidInputError(
            f"The properties {', '.join(taken)} cannot be set",
            "they mark and guard Lance tables in an Iceberg catalog",
            "Leave them out",
        )
    return _with_keys(written, [k for k in written if k.startswith(_OF_ENGINES)])


def namespace_properties(written: Mapping[str, str]) -> dict[str, str]:
    """Say how the owner's properties of a namespace are kept."""
    _refuse_ours(written)
    return _with_keys(written, [k for k in written if k in _OF_SERVERS])


def owners_of_table(kept: Mapping[str, str]) -> dict[str, str]:
    """Show the owner's properties of a table."""
    remembered = _remembered(kept)
    return {
        key: value
        for key, value in kept.items()
        if not key.startswith(OURS)
        and key not in RESERVED_PROPERTIES
        and (key in remembered or not key.startswith(_OF_ENGINES))
    }


def owners_of_namespace(kept: Mapping[str, str]) -> dict[str, str]:
    """Show the owner's properties of a namespace.

    What a server added to a namespace that we made is not the owner's; of a namespace that others
    made, everything is shown.
    """
    remembered = _remembered(kept)
    others = REQUEST_ID not in kept
    return {
        key: value
        for key, value in kept.items()
        if not key.startswith(OURS) and (others or key in remembered or key not in _OF_SERVERS)
    }


def created_at(kept: Mapping[str, str]) -> int | None:
    """Tell when we made the thing, if we did."""
    text = kept.get(CREATED_AT, "")
    return int(text) if text.isascii() and text.isdigit() else None


def difference(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Say what to set and what to remove to get from one map to another."""
    updates = {k: v for k, v in after.items() if before.get(k) != v}
    return updates, sorted(before.keys() - after.keys())


def _with_keys(written: Mapping[str, str], to_remember: list[str]) -> dict[str, str]:
    return {**written, **({KEYS: json.dumps(sorted(to_remember))} if to_remember else {})}


def _remembered(kept: Mapping[str, str]) -> frozenset[str]:
    try:
        keys = json.loads(kept.get(KEYS, "[]"))
    except ValueError:
        return frozenset()
    return frozenset(map(str, keys)) if isinstance(keys, list) else frozenset()


def _refuse_ours(written: Mapping[str, str]) -> None:
    ours = sorted(key for key in written if key.startswith(OURS))
    if ours:
        raise InvalidInputError(
            f"The properties {', '.join(ours)} cannot be set", f"keys with {OURS} are the catalog's"
        )
