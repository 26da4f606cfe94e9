"""Change a table of a metastore with DataFrames: tasks write files, the driver one transaction."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from lakeroot.metastore import Metastore, View
from lakeroot.metastore.jobs import fact_of, find_job
from lakeroot.metastore.transaction import Transaction
from lakeroot.metastore.view import directory_of
from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.failures import nearest, translated
from lakeroot.spark.metastore.foretelling import ForetellingWriter, Rehearsal
from lakeroot.spark.metastore.reading import nearest_named, root_of, table_name
from lakeroot.spark.metastore.results import CompactionResult, RowsResult
from lakeroot.spark.metastore.tasks import Place
from lakeroot.spark.metastore.writers import SparkTableWriter

_BEAT_S: Final = 60.0
_COMPACT: Final = "compact"
VERBS: Final = ("append", "add", "upsert", "delete", "replace", _COMPACT)
_OPTIONS: Final = ("storage_options", "message", "job_id", "dry_run")
Result = TypeVar("Result", RowsResult, CompactionResult)


def append(frame: DataFrame, table: str, *, root: str | None = None, **options: Any) -> RowsResult:
    """Add rows at the end of a table."""
    change = _change("append", RowsResult, table, root, options)
    return change.run(frame.sparkSession, lambda w: w.append(frame))


def add(frame: DataFrame, table: str, *, root: str | None = None, **options: Any) -> RowsResult:
    """Add rows without a place in the order; such writes never wait for each other."""
    change = _change("add", RowsResult, table, root, options)
    return change.run(frame.sparkSession, lambda w: w.add(frame))


def upsert(frame: DataFrame, table: str, *, root: str | None = None, **options: Any) -> RowsResult:
    """Insert rows, or change those with the same merge keys; columns not given stay.

    Of several rows with one key the merge order or the event time decides; without either, which
    of them stays is left open, since a frame has no order.
    """
    change = _change("upsert", RowsResult, table, root, options)
    return change.run(frame.sparkSession, lambda w: w.upsert(frame))


def delete(
    frame: DataFrame,
    table: str,
    *,
    root: str | None = None,
    on: str | Iterable[str] | None = None,
    **options: Any,
) -> RowsResult:
    """Delete the rows that are equal to the given ones in some columns, or the merge keys."""
    # An attempt that is made again goes through the names again.
    keys = on if on is None or isinstance(on, str) else tuple(on)
    change = _change("delete", RowsResult, table, root, options, "on")
    return change.run(frame.sparkSession, lambda w: w.delete(frame, keys))


def replace(frame: DataFrame, table: str, *, root: str | None = None, **options: Any) -> RowsResult:
    """Put rows in the place of all rows of a table."""
    change = _change("replace", RowsResult, table, root, options)
    return change.run(frame.sparkSession, lambda w: w.replace(frame))


def compact(
    spark: SparkSession, table: str, *, root: str | None = None, **options: Any
) -> CompactionResult:
    """Write anew each partition that readers would have to merge, or that has too many files.

    A dry run needs no session, and says how many files there would be, as far as their numbers of
    rows tell.
    """
    change = _change(_COMPACT, CompactionResult, table, root, options)
    return change.run(spark, lambda w: w.compact())


def find_done(
    verb: str,
    table: str,
    *,
    root: str | None = None,
    job_id: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> RowsResult | CompactionResult | None:
    """Find without Spark what a job has done to a table, if it was done before.

    `verb` is one of the changes. A table that is missing is an error.
    """
    if verb not in VERBS:
        raise InvalidInputError(f"There is no change {verb!r}", fix=nearest(verb, VERBS))
    given = {"job_id": job_id, "storage_options": storage_options}
    if verb == _COMPACT:
        return _change(verb, CompactionResult, table, root, given).looked_first()
    return _change(verb, RowsResult, table, root, given).looked_first()


@dataclass(frozen=True, slots=True)
class _Change(Generic[Result]):
    """A change of one table: what it is told, and how it is made once."""

    verb: str
    kind: type[Result]
    table: str
    place: Place
    message: str | None
    job_id: str | None
    dry_run: bool

    def run(self, spark: SparkSession, work: Callable[[SparkTableWriter], Any]) -> Result:
        """Do the work in a transaction, and again from the start if another writer spoils it."""
        names, place = table_name(self.table), self.place
        if self.dry_run:
            metastore = self._opened(read_only=True)
            txn = Rehearsal(metastore.log, metastore.view().snapshot)
            before = self.done(txn)  # Says that the table is missing, before a writer does.
            if before is not None:
                return before
            return self._foretold(work, ForetellingWriter(spark, place, txn, names))

        def attempt(txn: Transaction) -> Result:
            before = self.done(txn)
            if before is not None:
                return before
            with translated(f"Table {self.table} cannot be changed"), _alive(txn):
                writer = SparkTableWriter(spark, place, txn, names, self.job_id)
                work(writer)
            result = self._told(writer, txn.txn_id if txn.changes.objects else None)
            if self.job_id is not None:
                told = _did(result)
                txn.facts |= fact_of(self.job_id, self._directory(txn), self.verb, told)
            return result

        return self._opened().run(attempt, self.message)

    def looked_first(self) -> Result | None:
        """Find what was done before."""
        return self.done(self._opened(read_only=True).view())

    def done(self, view: View) -> Result | None:
        """Find what the job has done in a state of the catalog, if it was done."""
        directory = self._directory(view)
        found = None if self.job_id is None else find_job(view, directory, self.job_id)
        if found is None:
            return None
        if found.verb not in (None, self.verb):
            raise InvalidInputError(
                f"Job {self.job_id!r} of table {self.table} was another change",
                f"transaction {found.txn_id} did {found.verb!r} under this id",
                f"Give {self.verb!r} a job id of its own",
            )
        known = {field.name for field in fields(self.kind)}
        did = {name: value for name, value in found.did.items() if name in known}
        return self.kind(**{**did, "transaction": found.txn_id, "already_done": True})

    def _opened(self, *, read_only: bool = False) -> Metastore:
        options = self.place.storage_options
        return Metastore.open(self.place.root, options, read_only=read_only)

    def _directory(self, view: View) -> str:
        with nearest_named(view, self.table):
            return directory_of(view.table(*table_name(self.table)))

    def _foretold(
        self, work: Callable[[SparkTableWriter], Any], writer: SparkTableWriter
    ) -> Result:
        with translated(f"Table {self.table} cannot be changed"):
            work(writer)
        return self._told(writer, None)

    def _told(self, writer: SparkTableWriter, txn_id: str | None) -> Result:
        known = {field.name for field in fields(self.kind)}
        tally = {name: value for name, value in asdict(writer.tally).items() if name in known}
        return self.kind(transaction=txn_id, **tally)


def _change(
    verb: str,
    kind: type[Result],
    table: str,
    root: str | None,
    options: dict[str, Any],
    *own: str,
) -> _Change[Result]:
    """Read what a change is told; `own` are the arguments of the verb alone, to suggest."""
    storage_options, message, job_id, dry_run = (options.pop(name, None) for name in _OPTIONS)
    root = root_of(table, root, options, *own, *_OPTIONS)
    place = Place(root, storage_options)
    # A number is a name as well, and the same as in a shell.
    job = "" if job_id is None else str(job_id)
    return _Change(verb, kind, table, place, message, job or None, bool(dry_run))


def _did(result: RowsResult | CompactionResult) -> dict[str, int]:
    """Give what is kept of a result with the transaction."""
    ours = ("transaction", "already_done")
    return {name: value for name, value in asdict(result).items() if name not in ours}


@contextmanager
def _alive(txn: Transaction) -> Iterator[None]:
    """Show that the transaction lives, for as long as its tasks run."""
    txn.lease.renew()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_BEAT_S):
            txn.lease.renew()

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
