"""Writing the rows of a table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from lakeroot.metastore import naming
from lakeroot.metastore.data.evolution import RemoveField, Update, conformed, evolved, matching
from lakeroot.metastore.data.files import in_parallel, pieces, share, write_rows
from lakeroot.metastore.data.given import as_table
from lakeroot.metastore.data.merge import Rows
from lakeroot.metastore.data.plan import COLUMNS, StepKind, plan_partition
from lakeroot.metastore.data.rewriting import named, needs_rewriting, rewrite
from lakeroot.metastore.data.transforms import divided, ordered
from lakeroot.metastore.locators import PartitionValues, new_id
from lakeroot.metastore.manifests import ManifestEntry, manifest_of
from lakeroot.metastore.properties import (
    READ_OPTIMIZATION,
    RECORDS_PER_COMPACTED_FILE,
    setting,
)
from lakeroot.metastore.records import Delta, Partition, Stream, TableVersion
from lakeroot.metastore.schemas import Schema
from lakeroot.metastore.states import LAST_ORDERED_POSITION, DeltaType, ReadOptimization
from lakeroot.metastore.transaction import Transaction
from lakeroot.model.errors import (
    InvalidInputError,
    TableSchemaValidationError,
    UnsupportedOperationError,
)

AUTHOR = {"name": "lakeroot.metastore", "version": "1"}


class TableWriter:
    """Changes of the rows of one table within a transaction."""

    def __init__(
        self, txn: Transaction, namespace: str, table: str, version: str | None = None
    ) -> None:
        self.txn = txn
        self._version: TableVersion = txn.table_version(namespace, table, version)
        found = txn.find_stream(self._version)
        if found is None:
            raise UnsupportedOperationError(
                f"The table {namespace}.{table} has no stream of rows", "it is of another format"
            )
        self._stream: Stream = found
        self._serial = 0

    def append(self, rows: Any) -> list[Delta]:
        """Add rows at the end."""
        return self._insert(rows, DeltaType.APPEND)

    def add(self, rows: Any) -> list[Delta]:
        """Add rows without a place in the order: such writes never wait for each other."""
        return self._insert(rows, DeltaType.ADD)

    def upsert(self, rows: Any) -> list[Delta]:
        """Insert rows, or change those with the same merge keys; columns not given stay."""
        keys = self._merge_keys("upserted")
        fitted = self._fit(self._given(rows), is_partial=True)
        missing = set(keys) - set(fitted.column_names)
        if missing:
            raise InvalidInputError(f"The merge key {min(missing)!r} is missing from the rows")
        self._check_left_out(fitted)
        is_partial = len(fitted.column_names) < len(self._schema.arrow.names)
        columns = tuple(fitted.column_names) if is_partial else None
        return self._change(StepKind.UPSERT, fitted, keys, columns)

    def delete(self, rows: Any, on: str | Iterable[str] | None = None) -> list[Delta]:
        """Delete the rows that are equal to the given ones in some columns, or the merge keys."""
        table = self._given(rows)
        on = (on,) if isinstance(on, str) else on  # Not its letters.
        keys = tuple(on) if on is not None else self._schema.merge_keys or tuple(table.column_names)
        unknown = [name for name in keys if self._schema.field(name) is None]
        if unknown or not keys:
            raise InvalidInputError(
                f"There is no column {unknown[0] if unknown else ''!r} to match"
            )
        nested = [name for name in keys if pa.types.is_nested(self._schema.arrow.field(name).type)]
        if nested:
            raise InvalidInputError(
                f"Rows cannot be matched on the column {nested[0]!r}",
                "structs, lists and maps cannot be compared",
                "Give other columns in `on`",
            )
        missing = set(keys) - set(table.column_names)
        if missing:
            raise InvalidInputError(
                f"The rows to delete have no column {min(missing)!r}",
                f"rows are matched on {', '.join(keys)}",
            )
        found = matching(self._version, table.select(list(keys)))
        return self._change(StepKind.DELETE, found, keys, None)

    def replace(self, rows: Any) -> list[Delta]:
        """Put rows in the place of all rows of the table."""
        fitted = self._fit(self._given(rows))
        self._stream = self.txn.commit_stream(self.txn.stage_stream(self._version))
        return self._write(fitted, DeltaType.APPEND)

    def truncate(self) -> None:
        """Remove all rows of the table."""
        self._stream = self.txn.commit_stream(self.txn.stage_stream(self._version))

    def compact(self) -> None:
        """Rewrite each partition that readers would have to merge, or that has too many files."""
        for partition in self.txn.partitions(self._stream):
            plan = plan_partition(partition, self.txn.deltas(partition), self._version)
            if needs_rewriting(plan, self._rows_per_file):
                self._rewrite(partition.values, partition)

    def evolve(self, updates: list[Update], *, allow_incompatible: bool = False) -> Schema:
        """Change the schema."""
        self._check_removals({update.name for update in updates if isinstance(update, RemoveField)})
        made = evolved(self._version, updates, allow_incompatible=allow_incompatible)
        self._version = self.txn.update_table_version(self._version, schema=made)
        return made

    def _check_removals(self, names: set[str]) -> None:
        for partition in self.txn.partitions(self._stream) if names else ():
            plan = plan_partition(partition, self.txn.deltas(partition), self._version)
            needed = names & {key for step in plan.steps for key in step.keys}
            if needed:
                raise InvalidInputError(
                    f"The column {min(needed)!r} cannot be removed yet",
                    "readers need it to apply deletes and upserts",
                    "Compact the table first",
                )

    @property
    def _schema(self) -> Schema:
        if self._version.schema is None:
            raise UnsupportedOperationError(
                "A table without a schema can only be appended to", fix="Create it with a schema"
            )
        return self._version.schema

    def _merge_keys(self, verb: str) -> tuple[str, ...]:
        keys = self._schema.merge_keys
        if not keys:
            raise InvalidInputError(
                f"Rows cannot be {verb}", "the table has no merge keys", "Append them instead"
            )
        return keys

    def _check_left_out(self, rows: Any) -> None:
        for field in self._schema.fields:
            has_value = field.arrow.nullable or field.future_default is not None
            if field.name not in rows.column_names and not has_value:
                raise TableSchemaValidationError(
                    f"The column {field.name!r} is missing",
                    "new rows would have no value in it",
                    "Give the column, or a default for it",
                )

    def _insert(self, rows: Any, delta_type: DeltaType) -> list[Delta]:
        schema = self._version.schema
        if schema is not None and schema.merge_keys:
            raise InvalidInputError(
                "Rows cannot be appended", "the table has merge keys", "Upsert them instead"
            )
        return self._write(self._fit(self._given(rows)), delta_type)

    def _given(self, rows: Any) -> Any:
        return as_table(rows, self._version.schema)

    def _fit(self, table: Any, *, is_partial: bool = False) -> Any:
        schema, fitted = conformed(self._version, table, is_partial=is_partial)
        if schema is not None:
            self._version = self.txn.update_table_version(self._version, schema=schema)
        return fitted

    def _write(
        self,
        table: Any,
        delta_type: DeltaType,
        keys: tuple[str, ...] = (),
        columns: tuple[str, ...] | None = None,
    ) -> list[Delta]:
        properties = None if columns is None else {COLUMNS: list(columns)}
        return [
            self.txn.append_delta(
                self._stream,
                manifest_of(self._files(values, rows, keys), AUTHOR),
                delta_type=delta_type,
                values=values,
                properties=properties,
            )
            for values, rows in self._divided(table)
        ]

    def _divided(self, table: Any) -> Iterator[tuple[PartitionValues, Any]]:
        return divided(table, self._stream.partition_scheme)

    def _files(
        self, values: PartitionValues, table: Any, keys: tuple[str, ...] = ()
    ) -> list[ManifestEntry]:
        partition = self.txn.find_partition(self._stream, values)
        directory = new_id() if partition is None else partition.id
        return list(self._entries(directory, table, keys))

    def _entries(
        self, directory: str, table: Any, keys: tuple[str, ...], most: int | None = None
    ) -> Iterator[ManifestEntry]:
        scheme, schema = self._version.sort_scheme, self._version.schema
        is_sorted = scheme is not None and bool(scheme.keys) and not keys
        rows = ordered(table, scheme) if is_sorted else table
        most = share(rows.num_rows, self._rows_per_file) if most is None else most
        write = partial(
            write_rows,
            self.txn.log,
            schema_id=None if schema is None else schema.schema_id,
            sort_scheme_id=scheme.id if is_sorted and scheme is not None else None,
            equality_fields=keys,
        )
        files = [(self._announced(directory), piece) for piece in pieces(rows, most)]
        for entry in in_parallel(write, files):
            self.txn.lease.renew()
            yield entry

    def _announced(self, directory: str) -> str:
        path = naming.data_path(directory, self.txn.txn_id, self._serial)
        self._serial += 1
        self.txn.lease.announce(path)
        return path

    @property
    def _rows_per_file(self) -> int:
        return int(setting(self._version.properties, RECORDS_PER_COMPACTED_FILE))

    def _change(
        self, kind: StepKind, table: Any, keys: tuple[str, ...], columns: tuple[str, ...] | None
    ) -> list[Delta]:
        delta_type = DeltaType.UPSERT if kind is StepKind.UPSERT else DeltaType.DELETE
        touched = self._touched(kind, table, keys)
        if self._merges_on_write(touched):
            for values, partition, rows in touched:
                self._rewrite(values, partition, Rows(kind, rows, keys, columns))
            return []
        properties = None if columns is None else {COLUMNS: list(columns)}
        return [
            self.txn.append_delta(
                self._stream,
                manifest_of(self._files(values, rows, keys), AUTHOR),
                delta_type=delta_type,
                values=values,
                properties=properties,
            )
            for values, _, rows in touched
        ]

    def _touched(
        self, kind: StepKind, table: Any, keys: tuple[str, ...]
    ) -> list[tuple[PartitionValues, Partition | None, Any]]:
        if self._lies_anywhere(kind, table, keys):
            return [(p.values, p, table) for p in self.txn.partitions(self._stream)]
        divisions = [
            (values, self.txn.find_partition(self._stream, values), rows)
            for values, rows in self._divided(table)
        ]
        return [d for d in divisions if kind is StepKind.UPSERT or d[1] is not None]

    def _lies_anywhere(self, kind: StepKind, table: Any, keys: tuple[str, ...]) -> bool:
        """Tell whether the rows do not say in which partition they lie: each may hold some."""
        scheme = self._stream.partition_scheme
        sources = {key.key[0] for key in (scheme.keys or ())} if scheme is not None else set()
        if kind is StepKind.DELETE and not sources <= set(keys):
            return True
        if not sources <= set(table.column_names):
            raise InvalidInputError(
                "The rows do not say to which partition they belong",
                fix=f"Give the columns {', '.join(sorted(sources))}",
            )
        return False

    def _merges_on_write(
        self, touched: list[tuple[PartitionValues, Partition | None, Any]]
    ) -> bool:
        level = setting(self._version.properties, READ_OPTIMIZATION)
        if level != ReadOptimization.NONE:
            return True
        # A delete or upsert applies to lower positions only, and adds have none: merge them now.
        positions = (self.txn.positions(p)[-1:] for _, p, _ in touched if p is not None)
        return any(last and last[0] > LAST_ORDERED_POSITION for last in positions)

    def _rewrite(
        self, values: PartitionValues, partition: Partition | None, change: Rows | None = None
    ) -> None:
        deltas = [] if partition is None else list(self.txn.deltas(partition))
        plan = None if partition is None else plan_partition(partition, deltas, self._version)
        own_id = new_id()

        def write(rows: Any, most: int) -> Iterator[ManifestEntry]:
            return self._entries(own_id, rows, (), most)

        files = rewrite(self.txn, plan, change, self._version, self._rows_per_file, write)
        if files is not None:
            self._replace(own_id, values, partition, named(files, deltas))

    def _replace(
        self,
        own_id: str,
        values: PartitionValues,
        partition: Partition | None,
        files: Iterable[ManifestEntry],
        properties: Mapping[str, Any] | None = None,
    ) -> None:
        """Put a partition of these files in the place of the one there is."""
        scheme_id = None if partition is None else partition.partition_scheme_id
        staged = self.txn.stage_partition(self._stream, values, scheme_id, partition_id=own_id)
        self.txn.put_delta(staged, 1, manifest_of(files, AUTHOR), properties=properties)
        self.txn.commit_partition(replace(staged, stream_position=1))
