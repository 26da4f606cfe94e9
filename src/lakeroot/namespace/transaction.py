"""Several tables changed in one atomic step.

Inside ``with namespace.transaction("message") as tx`` every change is made beside the tables: data
files and manifests are written, and nobody else can see them. At the end of the block one commit
of the catalog publishes all of it, or nothing. If another writer was first, the changes are made
again on top of what the tables have become, as long as nothing was read inside the block that the
caller may have decided on. Whatever was read is of one instant, and the commit is refused if any of
it has changed.
"""

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

import lance
import pyarrow as pa
from lance_namespace import LanceNamespaceError
from msgspec import Struct

from lakeroot.catalog.catalog import Catalog, checked_properties
from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.commits import AlterTable, Change, Requirement
from lakeroot.model.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier, identifier_of, parse_dotted, show
from lakeroot.model.records import Table
from lakeroot.model.rules import require_room_for_table
from lakeroot.model.texts import require_text
from lakeroot.namespace.border import ecosystem_error, translated
from lakeroot.namespace.reading import ChangedError, still
from lakeroot.namespace.staging import ReplacedError, StagingClient
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.overlay import Overlay
from lakeroot.tables import rows
from lakeroot.tables.arrow import ArrowData, check_new_schema, table_of
from lakeroot.tables.handle import TableHandle, working_on
from lakeroot.tables.options import CreateMode, InsertMode

_ATTEMPTS: Final = 16
_RECENT: Final = 100
_LOG: Final = logging.getLogger(__name__)
_REFUSED: Final = (
    AlreadyExistsError,
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
"""Errors after which nothing was published, for certain."""

Names = str | Sequence[str]
"""A table: its names one by one, or as a person writes them, ``air.flights``."""

Result = TypeVar("Result")


class Step(Struct, frozen=True):
    """A change to one table, which can be made again."""

    identifier: Identifier
    make: Callable[[], object]


class OutdatedError(ConcurrentModificationError):
    """A change cannot be made on what its table is now, however often it is tried."""


class Transaction:
    """Changes to tables that become visible together."""

    def __init__(self, namespace: Any, message: str = "") -> None:
        self._namespace = namespace
        self._catalog: Catalog = namespace.catalog
        with translated():
            self._message = require_text(message or "", "The message of a transaction")
        self._steps: list[Step] = []
        self._tables: dict[Identifier, Table] = {}
        self._has_read = False
        self._read: set[Identifier] = set()
        self._missed: set[Identifier] = set()
        self._is_begun = False
        self._is_over = False
        # No longer so while, or after, the changes could not all be made again.
        self._is_whole = True
        self._start()

    def _start(self) -> None:
        self._staging = StagingClient(self._namespace, self._tables)
        self._created: dict[Identifier, Table] = {}
        self._altered: dict[Identifier, AlterTable] = {}
        # Before the commit was asked for, no error can hide that it was made.
        self._may_be_published = False

    def __enter__(self) -> Self:
        if self._is_begun:
            # What it has staged may be published by now: to end it again would delete that.
            raise ecosystem_error(
                InvalidInputError("A transaction is begun only once", fix="Begin another")
            )
        self._is_begun = True
        self._catalog.store.read()
        if not self._catalog.store.keeps_versions:
            self._is_over = True
            raise ecosystem_error(
                UnsupportedOperationError(
                    "A transaction needs a catalog that arbitrates the versions of its tables",
                    "this one leaves them to the tables' own directories",
                    "Open it with table_version_management=true",
                )
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over = True
        try:
            if kind is None:
                self._require_whole()
                self._until_undisturbed(self._publish)
        except LakerootError as error:
            # A storage that fails may have published all the same: what was written must stay.
            if isinstance(error, _REFUSED) or not (self._is_whole and self._may_be_published):
                self._abandon()
            raise ecosystem_error(error) from error
        if kind is not None:
            self._abandon()

    # The changes

    def create(self, names: Names, data: Any, properties: Mapping[str, str] | None = None) -> None:
        """Create a table with its first rows, or give a declared one its first."""
        given = _repeatable(data)
        self._do(names, lambda table: self._create(table, given, properties))

    def append(self, names: Names, data: Any) -> None:
        """Append rows to a table; they are the first of one that is only declared."""
        given = _repeatable(data)
        self._do(names, lambda table: self._append(table, given))

    def overwrite(self, names: Names, data: Any) -> None:
        """Put rows in place of all rows of a table; a declared one has none."""
        given = _repeatable(data)
        self._do(names, lambda table: self._overwrite(table, given))

    def merge(self, names: Names, data: Any, on: str | Sequence[str]) -> None:
        """Update the rows whose keys match, insert the others."""
        given = _repeatable(data)
        keys = (on,) if isinstance(on, str) else tuple(on)
        rule = rows.MergeRule(
            on=keys, when_matched_update_all=True, when_not_matched_insert_all=True
        )
        self._do(names, lambda table: rows.merge_insert(self._handle(table), given, rule))

    def update(
        self, names: Names, updates: Mapping[str, str], predicate: str | None = None
    ) -> None:
        """Set columns to the values of SQL expressions."""
        self._do(
            names, lambda table: rows.update(self._handle(table), updates, predicate=predicate)
        )

    def delete(self, names: Names, predicate: str) -> None:
        """Delete the rows a predicate keeps."""
        self._do(names, lambda table: rows.delete(self._handle(table), predicate))

    def dataset(self, names: Names) -> "lance.LanceDataset":
        """Open a table as this transaction sees it.

        After that a lost race is an error, and so is a change of the table by others.
        """
        self._require_open()
        with translated():
            identifier = _identifier(names)
            return self._until_undisturbed(lambda: self._look(identifier))

    def _look(self, identifier: Identifier) -> "lance.LanceDataset":
        """Open a table; it, and all that was looked at before, must be as at the first look."""
        found: lance.LanceDataset | LakerootError
        try:
            with working_on(self._handle(identifier), "Opening the table") as table:
                found = table.open()
        except (NamespaceNotFoundError, TableNotFoundError) as error:
            found = error
        still(self._catalog, self._staging.bases, self._missed)
        self._has_read = True
        if identifier not in self._created:
            is_there = any(base.table.identifier == identifier for base in self._staging.bases)
            (self._read if is_there else self._missed).add(identifier)
        if isinstance(found, LakerootError):
            raise found
        return found

    def _relied_on(self) -> list[Requirement]:
        """See right before a commit whether what was read is as it was; say what keeps it so."""
        found = self._still() if self._read or self._missed else []
        self._may_be_published = True
        return found

    def _still(self) -> list[Requirement]:
        read = map(self._staging.base, sorted(self._read))
        return still(self._catalog, read, self._missed - self._created.keys())

    def _require_open(self) -> None:
        if self._is_over:
            raise ecosystem_error(InvalidInputError("The transaction is over", fix="Begin another"))
        if not self._is_begun:
            raise ecosystem_error(
                InvalidInputError(
                    "The transaction has not begun", fix="Change tables inside of its `with` block"
                )
            )

    def _require_whole(self) -> None:
        if not self._is_whole:
            raise ConcurrentModificationError(
                "The transaction was not published",
                "a change could not be made again on top of what another writer did",
                "Nothing was changed; run it again",
            )

    def _do(self, names: Names, make: Callable[[Identifier], object]) -> None:
        self._require_open()
        with translated():
            identifier = _identifier(names)
            step = Step(identifier, partial(make, identifier))
            self._until_undisturbed(step.make, identifier)
        self._steps.append(step)

    def _append(self, identifier: Identifier, data: Any) -> None:
        """Append rows; what others commit meanwhile makes no difference to them."""
        following = contextlib.nullcontext() if self._has_read else self._staging.following()
        handle = self._handle(identifier)
        if self._is_declared(handle):
            self._fill_unless_filled(handle, data)
            return
        with following:
            rows.insert(handle, data)

    def _overwrite(self, identifier: Identifier, data: Any) -> None:
        handle = self._handle(identifier)
        if self._is_declared(handle):
            self._fill_unless_filled(handle, data)
        else:
            rows.insert(handle, data, mode=InsertMode.OVERWRITE)

    def _is_declared(self, handle: TableHandle) -> bool:
        return handle.managed and self._staging.newest(handle.table_id) == 0

    def _fill_unless_filled(self, handle: TableHandle, data: Any) -> None:
        """Write the first rows of a declared table; those of another make it one like others."""
        try:
            self._fill(handle, data)
        except TableAlreadyExistsError as error:
            raise ConcurrentModificationError(error.what, "another writer was first") from error

    def _fill(self, handle: TableHandle, data: Any) -> None:
        check_new_schema(ArrowData(data).schema)
        try:
            rows.create(handle, data, mode=CreateMode.CREATE)
        except TableAlreadyExistsError as error:
            what = f"There is already a table {show(handle.table_id)}"
            raise TableAlreadyExistsError(what) from error

    def _create(
        self, identifier: Identifier, data: Any, properties: Mapping[str, str] | None
    ) -> None:
        kept = checked_properties(properties)
        view = self._catalog.store.read()
        there = view.get(identifier) if identifier else None
        if isinstance(there, Table) and self._staging.is_empty(there):
            self._fill(self._handle(identifier), data)
            if properties is not None and kept != there.properties:
                self._altered[identifier] = AlterTable(identifier, kept)
            return
        draft = Overlay(view)
        for table in self._created.values():
            draft.put(table)
        require_room_for_table(draft, identifier)
        check_new_schema(ArrowData(data).schema)
        place = self._catalog.store.place_unseen(identifier)
        if place is None:
            raise UnsupportedOperationError(
                f"A transaction cannot create {show(identifier)}",
                "this catalog creates and names tables one by one",
                "Create the table before the transaction",
            )
        table = Table(identifier, place, kept)
        rows.create(self._plain(table), data, mode=CreateMode.CREATE)
        self._created[identifier] = table

    def _handle(self, identifier: Identifier) -> TableHandle:
        if identifier in self._created:
            return self._plain(self._created[identifier])
        table = self._staging.table(identifier)
        self._staging.base(identifier)
        store = self._catalog.store
        return TableHandle(
            store.uri(table.location),
            dict(store.root.storage_options) or None,
            namespace_client=self._staging,
            table_id=identifier,
            managed=True,
            attempts=1,
        )

    def _plain(self, table: Table) -> TableHandle:
        store = self._catalog.store
        return TableHandle(store.uri(table.location), dict(store.root.storage_options) or None)

    # The end

    def _until_undisturbed(self, last: Callable[[], Result], *more: Identifier) -> Result:
        """Make a step; when another writer came between, all steps on what the tables are now."""
        tables = {step.identifier for step in self._steps}.union(more)
        for attempt in range(_ATTEMPTS):
            try:
                if not attempt:
                    return last()
                with self._turns_at(tables):
                    self._again()
                    return last()
            except OutdatedError:
                raise
            except ReplacedError as error:
                # What was meant for one table is not for another that has its name.
                raise self._outdated(error.identifier, error) from error
            except LakerootError as error:
                conflict = self._staging.disturbance or error
                if not isinstance(conflict, ConcurrentModificationError):
                    raise
                if self._has_read or attempt + 1 == _ATTEMPTS:
                    raise ConcurrentModificationError(
                        "The transaction was not published",
                        _sentences(conflict.what, self._winner(conflict) or conflict.why),
                        "Nothing was changed; run it again",
                    ) from error
                time.sleep(random.uniform(0, min(0.01 * 2**attempt, 1)))  # noqa: S311
        raise AssertionError  # The last attempt has raised.

    @contextlib.contextmanager
    def _turns_at(self, tables: set[Identifier]) -> Iterator[None]:
        """Let others who write the tables wait: whoever lost once must not lose again and again.

        All transactions take them in one order, so none waits for another that waits for it.
        """
        versions, turns = TableVersions(self._catalog), self._catalog.turns
        view = self._catalog.store.read()
        found = (view.get(identifier) for identifier in sorted(tables))
        taken = [versions.turn_at(table) for table in found if isinstance(table, Table)]
        places = [place for place in taken if place is not None]
        try:
            for place in places:
                turns.take(place, self._catalog.store.read)
            yield
        finally:
            turns.leave(places)

    def _publish(self) -> None:
        versions = TableVersions(self._catalog)
        others: list[Change] = [*self._altered.values()]
        for table in self._created.values():
            others += versions.named(table)
        staged = self._staging.staged
        try:
            if others or staged:
                VersionCommits(self._catalog).commit_staged(
                    staged, others, self._message, relies_on=self._relied_on
                )
        except (AlreadyExistsError, NamespaceNotFoundError, TableNotFoundError) as error:
            raise self._told(error) from error
        try:
            self._staging.forget_copies()
        except LakerootError as error:
            _LOG.warning("The transaction is published, but copies are left over: %s", error)

    def _winner(self, conflict: LakerootError) -> str:
        """Tell who committed what this transaction wanted, or had not seen."""
        if isinstance(conflict, ChangedError):
            unseen = conflict.identifier, conflict.version or 0
            return self._committed_first({unseen}) or self._last_change(conflict.identifier)
        versions = TableVersions(self._catalog)
        wanted = {
            (one.table.identifier, one.asked.version)
            for one in self._staging.staged
            # Ours may have been committed and taken back.
            if one.asked.version <= versions.latest(one.table)
        }
        return self._committed_first(wanted)

    def _committed_first(self, wanted: set[tuple[Identifier, int]]) -> str:
        for entry in self._recent():
            for identifier, version in wanted.intersection(entry.versions):
                who = f"by {entry.author} " if entry.author else ""
                why = f" ({entry.message})" if entry.message else ""
                return (
                    f"Version {version} of {show(identifier)} was committed {who}first{why}, "
                    f"in version {entry.version} of the catalog"
                )
        return ""

    def _again(self) -> None:
        """Make every change again, on top of what the tables are now."""
        self._is_whole = False
        self._clean_up()
        for step in self._steps:
            try:
                step.make()
            except ConcurrentModificationError:
                raise
            except (LakerootError, LanceNamespaceError) as error:
                if self._staging.disturbance is not None:
                    raise self._staging.disturbance from error
                raise self._outdated(step.identifier, error) from error
        self._is_whole = True

    def _outdated(self, identifier: Identifier, error: Exception) -> OutdatedError:
        """Say that a change which was possible is so no more, and whose commit was the last."""
        what = error.what if isinstance(error, LakerootError) else str(error)
        return OutdatedError(
            "The transaction was not published",
            _sentences(
                f"{show(identifier)} was changed meanwhile: {what}", self._last_change(identifier)
            ),
            "Nothing was changed; look at the table, and run it again",
        )

    def _told(self, error: LakerootError) -> LakerootError:
        """Say of a name that is gone, or taken, who did it."""
        view = self._catalog.store.read()
        for one in self._staging.staged:
            if not isinstance(view.get(one.table.identifier), Table):
                return self._outdated(one.table.identifier, error)
        for identifier in self._created:
            if view.get(identifier) is not None:
                why = self._last_change(identifier) or error.why
                return type(error)(error.what, why, "Nothing was changed; choose another name")
        return error

    def _recent(self) -> list[HistoryEntry]:
        """Give the last commits, where the catalog has a history."""
        try:
            return list(self._catalog.history(_RECENT))
        except LakerootError:
            return []

    def _last_change(self, identifier: Identifier) -> str:
        for entry in self._recent():
            if identifier in {
                *entry.created,
                *entry.altered,
                *entry.removed,
                *dict(entry.versions),
            }:
                who = f" by {entry.author}" if entry.author else ""
                why = f" ({entry.message})" if entry.message else ""
                return f"The last to change it was version {entry.version} of the catalog{who}{why}"
        return ""

    def _abandon(self) -> None:
        """Remove what was written; failing to do so must not hide why it is abandoned."""
        try:
            self._clean_up()
        except LakerootError as error:
            _LOG.warning("Files of an abandoned transaction are left over: %s", error)

    def _clean_up(self) -> None:
        """Remove what was written and never published."""
        self._staging.discard()
        for table in self._created.values():
            self._catalog.store.files(table).delete_directory("")
        self._start()


def _sentences(*parts: str) -> str:
    return ". ".join(part for part in parts if part)


def _identifier(names: Names) -> Identifier:
    return parse_dotted(names) if isinstance(names, str) else identifier_of(names)


def _repeatable(data: Any) -> Any:
    """Give rows that can be read again and again: a step may have to be made again."""
    if isinstance(data, bytes | bytearray | memoryview | pa.Buffer):
        return data
    with translated():
        return table_of(data)
