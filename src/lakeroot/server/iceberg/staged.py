"""The first commit of a staged table: its updates describe a table that is not there yet."""

from collections.abc import Sequence
from typing import Any, Final

from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import update_table_metadata

# The updates that say what the table is, the first of each; what follows changes it.
_DEFINING: Final = {
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-current-schema",
    "add-spec",
    "set-default-spec",
    "add-sort-order",
    "set-default-sort-order",
    "set-location",
    "set-properties",
}


def first_metadata(updates: Sequence[Any]) -> TableMetadata:
    """Build the metadata of a new table from the updates of its first commit.

    PyIceberg applies updates to a table that is there; so the table is made first, from the
    updates that define it, and the others are applied to that.
    """
    first: dict[str, Any] = {}
    for update in updates:
        first.setdefault(update.action, update)
    missing = {"assign-uuid", "add-schema", "set-location"} - first.keys()
    if missing:
        raise ValueError(f"the first commit has no {min(missing)}")
    schema = first["add-schema"].schema_
    spec = first["add-spec"].spec if "add-spec" in first else None
    order = first["add-sort-order"].sort_order if "add-sort-order" in first else None
    base = TableMetadataUtil.parse_obj(
        {
            "format-version": 2,
            "table-uuid": str(first["assign-uuid"].uuid),
            "location": first["set-location"].location,
            "last-column-id": schema.highest_field_id,
            "schemas": [schema.model_dump()],
            "current-schema-id": schema.schema_id,
            "partition-specs": [spec.model_dump() if spec else {"spec-id": 0, "fields": []}],
            "default-spec-id": spec.spec_id if spec else 0,
            "last-partition-id": spec.last_assigned_field_id if spec else 999,
            "sort-orders": [order.model_dump() if order else {"order-id": 0, "fields": []}],
            "default-sort-order-id": order.order_id if order else 0,
            "properties": first["set-properties"].updates if "set-properties" in first else {},
        }
    )
    defining = [each for action, each in first.items() if action in _DEFINING]
    later = tuple(each for each in updates if not any(each is one for one in defining))
    return update_table_metadata(base, later, enforce_validation=True)
