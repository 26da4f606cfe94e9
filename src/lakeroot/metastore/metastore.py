"""The metastore: a catalog in the DeltaCAT storage model, under one root."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from lakeroot.metastore.history import transactions
from lakeroot.metastore.index import Snapshot
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.transaction import Transaction
from lakeroot.metastore.txnlogs import TransactionRecord
from lakeroot.metastore.vacuum import DAY_MS, Vacuumed, vacuum
from lakeroot.metastore.view import View
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TransactionNotFoundError,
)
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import Objects, open_root, parse_root

T = TypeVar("T")

RETRIES = 10


class Metastore:
    """A catalog of namespaces, tables, versions, streams, partitions and deltas."""

    def __init__(
        self,
        objects: Objects,
        *,
        layout: Layout | str | None = None,
        read_only: bool = False,
        catalog_root: str = "",
    ) -> None:
        wanted = None if layout is None else _layout(layout)
        self.log = CommitLog(objects, layout=wanted, read_only=read_only, catalog_root=catalog_root)

    @classmethod
    def open(
        cls,
        root: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        layout: Layout | str | None = None,
        read_only: bool = False,
    ) -> "Metastore":
        """Open the catalog under a root; an empty root becomes one at the first write."""
        parsed = parse_root(root, storage_options)
        return cls(open_root(parsed), layout=layout, read_only=read_only, catalog_root=parsed.uri)

    @property
    def layout(self) -> Layout:
        """How the catalog is laid out."""
        return self.log.layout

    @property
    def objects(self) -> Objects:
        """The bytes of the catalog."""
        return self.log.objects

    def view(self, as_of: int | str | None = None) -> View:
        """Look at the present state, or at one of the past (see `transaction`)."""
        return View(self.log, self._snapshot(as_of))

    def transaction(
        self,
        message: str | None = None,
        *,
        as_of: int | str | None = None,
        serializable: bool = False,
    ) -> Transaction:
        """Begin a transaction.

        ``as_of`` makes it a read-only one in the past: a time in nanoseconds (it sees what ended
        before), or the id of a transaction (it sees the state that one left). ``serializable``
        makes what it has read a reason for conflict too.
        """
        return Transaction(
            self.log, self._snapshot(as_of), message=message, serializable=serializable
        )

    def run(self, work: Callable[[Transaction], T], message: str | None = None) -> T:
        """Run work in a transaction; if another writer spoils it, run it again on the new state."""
        for attempt in range(RETRIES):
            transaction = self.transaction(message)
            try:
                with transaction:
                    return work(transaction)
            except ConcurrentModificationError:
                if attempt == RETRIES - 1:
                    raise
        raise AssertionError  # the loop returns or raises

    def transactions(
        self, *, limit: int | None = None, status: str = "success"
    ) -> Iterator[TransactionRecord]:
        """List transactions, the newest first."""
        self.log.sync()
        return transactions(self.log, limit=limit, status=status)

    def checkpoint(self) -> None:
        """Write a checkpoint, so that the next opening is cheap."""
        self.log.sync()
        self.log.checkpoint()

    def vacuum(
        self, *, retention_ms: int = 7 * DAY_MS, dry_run: bool = False, spread: Spread = here
    ) -> Vacuumed:
        """Finish or undo what dead writers left, and remove what no kept state can reach."""
        return vacuum(self.log, retention_ms=retention_ms, dry_run=dry_run, spread=spread)

    def _snapshot(self, as_of: int | str | None) -> Snapshot:
        index = self.log.sync()
        if as_of is None:
            return Snapshot(index.head)
        if isinstance(as_of, str):
            sequence = index.sequences.get(as_of)
            if sequence is None:
                raise TransactionNotFoundError(
                    f"There is no transaction {as_of!r}",
                    "it never committed, or it is older than the history that is kept",
                )
            return Snapshot(sequence, before=2**63)
        oldest = index.marks.get(index.horizon)
        if oldest is not None and as_of <= oldest.end_time:
            raise InvalidInputError(
                f"The state at {as_of} is no longer known",
                f"the history that is kept begins at {oldest.end_time}",
            )
        return Snapshot(index.head, before=as_of)


def _layout(name: Layout | str) -> Layout:
    try:
        return Layout(name)
    except ValueError as error:
        known = ", ".join(layout.value for layout in Layout)
        raise InvalidInputError(f"{name!r} is not a layout", fix=f"Use one of {known}") from error
