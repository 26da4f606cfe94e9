"""Which streams write into a table: a note beside it from the first micro-batch on.

A checkpoint counts micro-batches, not tables. With another table under it, of the same name in
another catalog for one, the query would go on after its last batch, and all rows before would be
missing in silence. So a later batch looks for its stream in the history of the table, and for the
note, which stays when old versions are cleaned up.
"""

import json

from lakeroot.model.errors import InvalidTableStateError
from lakeroot.spark.catalogs import Located, TableRef, files_of
from lakeroot.tables.versions import MAIN

_NOTES = "_lakeroot/streams"


def note_stream(table: Located, stream: str, branch: str | None) -> None:
    """Note that a stream has begun to write into a table, or into a branch of it."""
    files_of(table).put(_path(stream, branch), json.dumps({"stream": stream}).encode())


def require_stream(table: Located, stream: str, branch: str | None, batch: int) -> None:
    """Refuse a later micro-batch of a stream that has not begun in this table and branch."""
    if files_of(table).exists(_path(stream, branch)):
        return
    raise InvalidTableStateError(
        f"The checkpoint is of a stream into another table than {table.ref} at {table.location}",
        f"the query comes with batch {batch}, and none of those before has come here, so their"
        " rows would be missing",
        "Give the query a checkpoint of its own; if it is the same table, and its old versions were"
        f" cleaned up, set the option `streamId` to {stream}",
    )


def require_beginning(table: TableRef, stream: str, batch: int) -> None:
    """Refuse a later micro-batch into a table that is not there, before one is made for it."""
    if batch == 0:
        return
    raise InvalidTableStateError(
        f"The checkpoint is of a stream into another table than {table}, which is not there",
        f"the query comes with batch {batch}, and the rows of those before would be missing",
        "Give the query a checkpoint of its own; if these rows are not wanted any more, set the"
        f" option `streamId` to {stream}",
    )


def _path(stream: str, branch: str | None) -> str:
    return f"{_NOTES}/{branch or MAIN}/{stream}.json"
