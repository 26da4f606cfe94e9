"""The offset of a stream out of a table: a version, and by what its table is known again.

Names and places tell nothing for certain: tables are renamed, catalogs are moved, and another
catalog may have a table of the same name. What tells is the transaction that made the version: its
id is like no other, and goes wherever the table goes.
"""

from typing import Any

import lance

from lakeroot.model.errors import InvalidTableStateError
from lakeroot.spark.catalogs import Located
from lakeroot.spark.opening import open_table
from lakeroot.tables.made import transaction_of

Offset = dict[str, Any]


def offset_at(located: Located, version: int) -> Offset:
    """Say how far a stream has come."""
    offset = {"version": version, "table": str(located.ref), "location": located.location}
    made_by = _made_by(open_table(located), version)
    return offset if made_by is None else {**offset, "transaction": made_by}


def require_same_table(offset: Offset, located: Located) -> None:
    """Refuse an offset that was reached in another table; the oldest say nothing of theirs."""
    if "table" not in offset or offset["version"] == 0:
        return
    dataset = open_table(located)
    if offset["version"] > dataset.version:
        if not _is_here(offset, located) and offset["table"] != str(located.ref):
            raise _of_another(offset, located)
        return  # It cannot go on, and whoever looks for that version says why.
    made_by = _made_by(dataset, offset["version"])
    if made_by is None or "transaction" not in offset:
        # Only the place can tell.
        if not _is_here(offset, located):
            raise _of_another(offset, located)
    elif made_by != offset["transaction"]:
        raise _of_another(offset, located)


def _of_another(offset: Offset, located: Located) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"The checkpoint is of a stream out of table {offset['table']}, and this one reads table"
        f" {located.ref}",
        f"version {offset['version']} of the table at {offset['location']} is not that of the one"
        f" at {located.location}, so rows would be left out or delivered twice",
        "Give the query a checkpoint of its own; if it is the same table, and has moved, begin with"
        f" `startingVersion` set to {offset['version']}",
    )


def _made_by(dataset: lance.LanceDataset, version: int) -> str | None:
    """Give the id of the transaction behind a version; nothing once it is cleaned up."""
    try:
        transaction = transaction_of(dataset, version)
    except (OSError, ValueError):
        return None
    return None if transaction is None else str(transaction.uuid)


def _is_here(offset: Offset, located: Located) -> bool:
    """Tell whether a table lies where it was, whichever way the place is written."""
    places = (offset["location"], located.location)
    one, other = (place.removeprefix("file://").rstrip("/") for place in places)
    return bool(one == other)
