"""Commit a version without rows whose files are to be of the version of Lance that is asked for.

A commit learns that version from the files of its rows. If there are none, only the writer of Lance
itself can be told. Of a new table that one looks whether it is there, and if another makes it a
moment later, replaces it; so it is given a client that hands out the first number and no other.
"""

from collections.abc import Mapping
from typing import Any

import lance
import pyarrow as pa
from lance_namespace import DeclareTableResponse, ListTableVersionsResponse

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.spark.catalogs import Located, files_of, renewed
from lakeroot.spark.commits import require_named, tell
from lakeroot.spark.failures import explained
from lakeroot.spark.opening import open_table
from lakeroot.tables.next_version import CatalogDecides, FilesDecide, NextVersionOnly


class _FirstVersionOnly(NextVersionOnly):
    """Hand Lance the first version of a table, which has a place by now and nothing else."""

    def declare_table(self, request: Any) -> DeclareTableResponse:
        """Say where the table is to be."""
        return DeclareTableResponse(location=self._location, managed_versioning=True)

    def list_table_versions(self, request: Any) -> ListTableVersionsResponse:
        """Answer that there is none; whoever makes one meanwhile has taken the number."""
        return ListTableVersionsResponse(versions=[])


def commit_empty(
    table: Located,
    schema: pa.Schema,
    storage_version: str,
    properties: Mapping[str, str],
    *,
    is_new: bool,
    stable_row_ids: bool = False,
) -> int:
    """Commit a version with these columns and no row, and return its number.

    A lost race is a ConcurrentModificationError, and nothing has changed then.
    """
    require_named(table)
    fresh = renewed(table)
    first = _first_of(fresh) if is_new else None
    arguments: dict[str, Any] = {"mode": "overwrite", "uri": None if is_new else open_table(fresh)}
    if first is not None:
        names = list(table.ref.identifier) or ["table"]
        arguments |= {"mode": "create", "namespace_client": first, "table_id": names}
    try:
        made = lance.write_dataset(
            pa.RecordBatchReader.from_batches(schema, []),
            data_storage_version=storage_version,
            enable_stable_row_ids=stable_row_ids,
            transaction_properties=dict(properties),
            storage_options=fresh.store_options or None,
            **arguments,
        )
    except (OSError, RuntimeError, ValueError) as error:
        if first is not None and first.refused:
            raise ConcurrentModificationError(
                f"Table {table.ref} was created by another writer meanwhile", fix="Run it again"
            ) from None
        raise explained(f"Table {table.ref} cannot be committed", error) from error
    finally:
        # Also of one that failed: it lost a race, or it is there and only its answer was lost.
        tell(table.ref)
    return int(made.version)


def _first_of(table: Located) -> _FirstVersionOnly:
    files = files_of(table)
    arbiter: CatalogDecides | FilesDecide = FilesDecide(table.location, files)
    if table.managed and table.ref.catalog is not None:
        arbiter = CatalogDecides(table.ref.catalog.connect(), table.ref.identifier)
    return _FirstVersionOnly(table.location, files, 0, arbiter)
