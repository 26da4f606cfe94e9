"""Rows of one table: create it, count, insert, merge, update, delete."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias, TypeVar

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.fragment import FragmentMetadata, write_fragments

from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.objects.roots import open_root, parse_root
from lakeroot.tables.arrow import ArrowData
from lakeroot.tables.expressions import check_predicate, whole, whole_if_given, whole_or_none
from lakeroot.tables.faults import translated
from lakeroot.tables.handle import TableHandle, Workbench, on_latest, working_on
from lakeroot.tables.made import transaction_of
from lakeroot.tables.options import CreateMode, InsertMode
from lakeroot.tables.strictly import commit_strictly

Rows: TypeAlias = bytes | pa.Buffer | pa.Table | pa.RecordBatchReader

Result = TypeVar("Result")

_PATIENCE: Final = timedelta(seconds=30)
"""How long a merge is tried unless its request says so, as Lance does."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A version that a change made, and the id of the transaction that made it."""

    version: int
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class Inserted(Committed):
    """What an insertion did."""

    num_inserted_rows: int = 0


@dataclass(frozen=True, slots=True)
class Merged(Committed):
    """What a merge did."""

    num_inserted_rows: int = 0
    num_updated_rows: int = 0
    num_deleted_rows: int = 0


@dataclass(frozen=True, slots=True)
class Updated(Committed):
    """What an update did."""

    updated_rows: int = 0


@dataclass(frozen=True, slots=True)
class Deleted(Committed):
    """What a deletion did."""

    num_deleted_rows: int = 0


@dataclass(frozen=True, slots=True)
class MergeRule:
    """What a merge does with rows that match, with new rows, and with rows the source lacks.

    Without `on`, rows match by the primary key the schema declares.
    """

    on: tuple[str, ...] = ()
    when_matched_update_all: bool = False
    when_matched_update_all_filt: str | None = None
    when_not_matched_insert_all: bool = False
    when_not_matched_by_source_delete: bool = False
    when_not_matched_by_source_delete_filt: str | None = None
    timeout: timedelta | None = None
    use_index: bool = False

    def __post_init__(self) -> None:
        for clause in ("when_matched_update_all", "when_not_matched_by_source_delete"):
            if getattr(self, f"{clause}_filt") is not None and not getattr(self, clause):
                raise InvalidInputError(
                    f"The filter {clause}_filt has nothing to filter", fix=f"Set {clause} as well"
                )


def count_rows(
    handle: TableHandle,
    *,
    predicate: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
) -> int:
    """Count the rows of a table, or those a predicate keeps."""
    with working_on(handle, "Counting rows") as table:
        dataset = table.open(version=version, tag=tag, branch=branch)
        return int(dataset.count_rows(whole_or_none(predicate)))


def create(handle: TableHandle, rows: Rows, *, mode: CreateMode = CreateMode.CREATE) -> Inserted:
    """Create the table with its first rows; `mode` says what happens when it is there."""
    data = ArrowData(rows)
    doing = "Creating the table"
    with working_on(handle, doing) as table:
        created = None if table.exists() else _first_version(table, data)
        if created is not None:
            return created
        if mode is CreateMode.CREATE:
            raise TableAlreadyExistsError(
                "There is already a table at this location",
                fix="Use mode exist_ok to keep it, or overwrite to replace its rows",
            )
        if mode is CreateMode.EXIST_OK:
            return Inserted(table.open().version)
    return _insert(handle, data, InsertMode.OVERWRITE, None, doing)


def insert(
    handle: TableHandle,
    rows: Rows,
    *,
    mode: InsertMode = InsertMode.APPEND,
    branch: str | None = None,
) -> Inserted:
    """Append rows to a table, or put them in place of all its rows."""
    return _insert(handle, ArrowData(rows), mode, branch, "Inserting rows")


def merge_insert(
    handle: TableHandle, rows: Rows, rule: MergeRule, *, branch: str | None = None
) -> Merged:
    """Merge rows into a table: update those that match, insert new ones, delete what is gone."""
    data = ArrowData(rows)

    def merge(dataset: LanceDataset) -> Merged:
        job = dataset.merge_insert(list(rule.on))
        if rule.when_matched_update_all:
            job = job.when_matched_update_all(whole_if_given(rule.when_matched_update_all_filt))
        if rule.when_not_matched_insert_all:
            job = job.when_not_matched_insert_all()
        if rule.when_not_matched_by_source_delete:
            job = job.when_not_matched_by_source_delete(
                whole_if_given(rule.when_not_matched_by_source_delete_filt)
            )
        if rule.timeout is not None:
            job = job.retry_timeout(rule.timeout)
        job = job.use_index(rule.use_index)
        # Nobody inserts beside one who is shown the table as it was.
        if rule.when_not_matched_insert_all and handle.attempts > 1:
            transaction, outcome = job.execute_uncommitted(data.reader())
            dataset = commit_strictly(handle, dataset, transaction, branch)
        else:
            outcome = job.execute(data.reader())
        return Merged(
            *committed(dataset),
            num_inserted_rows=outcome["num_inserted_rows"],
            num_updated_rows=outcome["num_updated_rows"],
            num_deleted_rows=outcome["num_deleted_rows"],
        )

    patience = _PATIENCE if rule.timeout is None else rule.timeout
    return _with_rows(handle, data, branch, "Merging rows", merge, patience)


def update(
    handle: TableHandle,
    updates: Mapping[str, str] | Iterable[Sequence[str]],
    *,
    predicate: str | None = None,
    branch: str | None = None,
) -> Updated:
    """Set columns to the values of SQL expressions, in all rows or those a predicate keeps."""
    expressions = _expressions(updates)

    def change(dataset: LanceDataset) -> Updated:
        outcome = dataset.update(expressions, where=whole_if_given(predicate))
        return Updated(*committed(dataset), updated_rows=outcome["num_rows_updated"])

    return on_latest(handle, "Updating rows", branch, change)


def delete(handle: TableHandle, predicate: str, *, branch: str | None = None) -> Deleted:
    """Delete the rows a predicate keeps."""
    if not predicate or not predicate.strip():
        raise InvalidInputError(
            "A deletion needs a predicate", fix="To delete every row, use the predicate true"
        )

    def change(dataset: LanceDataset) -> Deleted:
        # Checked first, and not passed on in parentheses: the version will tell what it deleted.
        check_predicate(dataset, predicate)
        outcome = dataset.delete(predicate)
        return Deleted(*committed(dataset), num_deleted_rows=outcome["num_deleted_rows"])

    return on_latest(handle, "Deleting rows", branch, change)


def committed(dataset: LanceDataset) -> tuple[int, str | None]:
    """Give the version a dataset has after a change, and the id of the change."""
    transaction = transaction_of(dataset, dataset.version)
    return dataset.version, None if transaction is None else transaction.uuid


def _insert(
    handle: TableHandle, data: ArrowData, mode: InsertMode, branch: str | None, doing: str
) -> Inserted:
    def write(dataset: LanceDataset) -> Inserted:
        # The dataset, not its location: appending to a location would create a missing table.
        written = lance.write_dataset(
            data.reader(), dataset, mode=mode.value, storage_options=_options(handle)
        )
        return Inserted(*committed(written), num_inserted_rows=data.num_rows)

    return _with_rows(handle, data, branch, doing, write)


def _with_rows(
    handle: TableHandle,
    data: ArrowData,
    branch: str | None,
    doing: str,
    change: Callable[[LanceDataset], Result],
    patience: timedelta | None = None,
) -> Result:
    """Apply a change that reads rows: again after a conflict only if they can be read again."""
    try:
        if data.repeatable:
            return on_latest(handle, doing, branch, change, patience)
        with working_on(handle, doing) as table:
            return change(table.open(branch=branch))
    except LakerootError as error:
        if data.problem is not None and not isinstance(error, TableNotFoundError):
            raise _broken_rows(doing, data.problem) from data.problem
        raise


def _broken_rows(doing: str, problem: Exception) -> LakerootError:
    if isinstance(problem, LakerootError):
        return problem
    return InvalidInputError(
        f"{doing} failed", f"the rows could not be read to their end: {problem}"
    )


def _first_version(table: Workbench, data: ArrowData) -> Inserted | None:
    """Commit version 1; nothing if another creator was faster.

    `lance.write_dataset` would declare the table in the catalog, which is done by now. A commit
    without retries can only make version 1, so of two creators one wins.
    """
    handle = table.handle
    fragments: list[FragmentMetadata] = []
    try:
        with translated("Creating the table"):
            written = write_fragments(
                data.reader(),
                table.location,
                mode="create",
                storage_options=_options(handle),
                return_transaction=True,
            )
            # Its schema is that of the files: Lance keeps some columns (blobs) in its own way.
            fragments = written.operation.fragments
            created = LanceDataset.commit(
                table.location, written.operation, max_retries=0, **table.options
            )
            return Inserted(*committed(created), num_inserted_rows=data.num_rows)
    except LakerootError as error:
        if data.problem is not None:
            raise _broken_rows("Creating the table", data.problem) from data.problem
        if not table.exists():
            if isinstance(table.meaning_of(error, "Creating the table"), InvalidInputError):
                # The commit was refused; of any other failure it may not be known how it ends.
                _clear_away(table, _data_files(fragments))
            raise
        return _recognised(table, fragments, data.num_rows)


def _recognised(
    table: Workbench, fragments: list[FragmentMetadata], num_rows: int
) -> Inserted | None:
    """Tell whether version 1 is ours after all, and only the reply was lost; else clear away."""
    mine = _data_files(fragments)
    first = table.open(version=1)
    theirs = {f"data/{file.path}" for part in first.get_fragments() for file in part.data_files()}
    if mine & theirs:
        return Inserted(*committed(first), num_inserted_rows=num_rows)
    _clear_away(table, mine)
    return None


def _data_files(fragments: list[FragmentMetadata]) -> set[str]:
    return {f"data/{file.path}" for fragment in fragments for file in fragment.files}


def _clear_away(table: Workbench, data_files: set[str]) -> None:
    files = open_root(parse_root(table.location, table.handle.storage_options))
    files.delete(data_files)
    for path in data_files:
        # Large blobs lie beside their file, in a directory with its name.
        files.delete_directory(path.removesuffix(".lance"))


def _expressions(updates: Mapping[str, str] | Iterable[Sequence[str]]) -> dict[str, str]:
    pairs = list(updates.items()) if isinstance(updates, Mapping) else [tuple(p) for p in updates]
    expressions: dict[str, str] = {}
    for pair in pairs:
        if len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise InvalidInputError(f"An update is a column and an SQL expression; {pair!r} is not")
        if pair[0] in expressions:
            raise InvalidInputError(f"The column {pair[0]!r} is updated twice")
        expressions[pair[0]] = whole(pair[1])
    if not expressions:
        raise InvalidInputError(
            "There is nothing to update", fix="Name at least one column and its new value"
        )
    return expressions


def _options(handle: TableHandle) -> dict[str, str] | None:
    return dict(handle.storage_options) if handle.storage_options else None
