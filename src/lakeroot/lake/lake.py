"""A whole catalog, in the hand."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakeroot.lake.calls import Calls
from lakeroot.lake.changes import Diff, diff_of
from lakeroot.lake.display import html_table
from lakeroot.lake.moments import read_moment, show_time
from lakeroot.lake.names import ForeignNames, Names, OwnNames, translated
from lakeroot.model.errors import TableNotFoundError, UnsupportedOperationError
from lakeroot.model.identifiers import ROOT, Identifier, parse_dotted, show
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.spans import GRACE, RETENTION

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace

    from lakeroot.catalog.undoing import Trashed
    from lakeroot.lake.findings import Findings
    from lakeroot.lake.table import LakeTable
    from lakeroot.storage.findings import Finding


class Later:
    """A namespace that is connected when it is needed: loading what that takes is slow."""

    def __init__(self, connect: "Callable[[], LanceNamespace]") -> None:
        self._connect = connect

    def __call__(self) -> "LanceNamespace":
        """Connect."""
        return self._connect()


class Lake:
    """Namespaces and tables by dotted names."""

    def __init__(
        self,
        namespace: "LanceNamespace | Later",
        address: str,
        names: OwnNames | None = None,
    ) -> None:
        self._connected = namespace
        self._own_names = names
        self.address = address

    @cached_property
    def namespace(self) -> "LanceNamespace":
        """The LanceNamespace, for other libraries."""
        return self._connected() if isinstance(self._connected, Later) else self._connected

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.namespace)

    @cached_property
    def _names(self) -> Names:
        return self._own_names or ForeignNames(self.namespace)

    # Looking

    def namespaces(self, parent: str = "") -> list[str]:
        """List the namespaces below one, or below the root."""
        within = _identifier(parent)
        return [show((*within, name)) for name in self._names.namespaces(within)]

    def tables(self, namespace: str | None = None) -> list[str]:
        """List the tables of a namespace, or all tables."""
        if namespace is None:
            return sorted(show(identifier) for identifier in self._names.all_tables())
        within = _identifier(namespace)
        return [show((*within, name)) for name in self._names.tables(within)]

    def properties(self, namespace: str = "") -> dict[str, str]:
        """Give the properties of a namespace."""
        return self._names.properties(_identifier(namespace))

    def __getitem__(self, name: str) -> "LakeTable":
        identifier = _identifier(name)
        if not self._names.has_table(identifier):
            import difflib

            near = difflib.get_close_matches(name, self.tables(), n=1)
            raise TableNotFoundError(
                f"There is no table {show(identifier)}",
                fix=f"Did you mean {near[0]}?" if near else "List the tables there are",
            )
        return self._table(identifier)

    def __contains__(self, name: str) -> bool:
        return self._names.has_table(_identifier(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables())

    # Changing

    def create_namespace(
        self, name: str, properties: Mapping[str, str] | None = None, *, exist_ok: bool = False
    ) -> None:
        """Create a namespace."""
        self._calls.create_namespace(
            {
                "id": list(_identifier(name)),
                "properties": dict(properties or {}),
                "mode": "ExistOk" if exist_ok else "Create",
            }
        )

    def create_table(self, name: str, data: Any, *, mode: str = "create") -> "LakeTable":
        """Create a table with its first rows; `mode` may be exist_ok or overwrite."""
        from lakeroot.lake.table import ipc

        identifier = _identifier(name)
        self._calls.create_table({"id": list(identifier), "mode": mode}, ipc(data))
        return self._table(identifier)

    def drop_table(self, name: str, *, now: bool = False) -> bool:
        """Drop a table; tell whether `undrop` can bring it back.

        A directory catalog keeps its data until `gc` collects it, unless it is to go `now`.
        """
        identifier = list(_identifier(name))
        if not now and getattr(self.namespace, "has_trash", False):
            return bool(own(self, "discard_table")(identifier))
        self._calls.drop_table({"id": identifier})
        return False

    def rename_table(self, name: str, new_name: str) -> None:
        """Give a table another name, in any namespace."""
        *parent, last = _identifier(new_name)
        self._calls.rename_table(
            {
                "id": list(_identifier(name)),
                "new_namespace_id": parent,
                "new_table_name": last,
            }
        )

    def transaction(self, message: str = "") -> Any:
        """Change several tables in one atomic step."""
        return own(self, "transaction")(message)

    # The past

    def history(self, limit: int | None = None) -> "History":
        """Tell what each commit changed, the newest first."""
        if self._own_names is not None:
            return History(self._own_names.history(limit))
        return History(own(self, "history")(limit))

    def at(self, moment: int | str | datetime | date) -> "Lake":
        """Give the catalog as it was: at one of its versions, or at a time; read only."""
        when = read_moment(moment)
        address = f"{self.address} at {moment}"
        if self._own_names is None:
            return Lake(own(self, "at")(**when), address)
        with translated():
            names = OwnNames(self._own_names.catalog.at(**when))
        return Lake(Later(lambda: own(self, "at")(**when)), address, names)

    def diff(
        self, before: int | str | datetime | date, after: int | str | datetime | date | None = None
    ) -> Diff:
        """Tell what differs between two moments, or between one and now."""
        return diff_of(self.at(before), self if after is None else self.at(after))

    def undo(self, commit: int | HistoryEntry, *, dry_run: bool = False) -> list[str]:
        """Take a commit back by a commit of its own; say what that changes."""
        version = commit.version if isinstance(commit, HistoryEntry) else commit
        return list(own(self, "undo")(version, dry_run=dry_run))

    def undrop(self, name: str) -> "LakeTable":
        """Give a table its name back, as long as its data is there."""
        identifier = _identifier(name)
        own(self, "undrop")(identifier)
        return self._table(identifier)

    def trash(self) -> "list[Trashed]":
        """List the tables that lost their names and still have their data, the latest first."""
        if self._own_names is not None:
            from lakeroot.catalog.undoing import trash

            with translated():
                return trash(self._own_names.catalog)
        return list(own(self, "trash")())

    # Looking after it

    def check(self, grace: timedelta = GRACE) -> "Findings":
        """Find everything that is wrong with the catalog and its tables; change nothing."""
        from lakeroot.lake.findings import Findings

        return Findings(own(self, "check")(grace))

    def repair(self, findings: "Iterable[Finding]", *, dry_run: bool = False) -> list[Any]:
        """Repair the findings that can be repaired without losing anything."""
        return list(own(self, "repair")(findings, dry_run=dry_run))

    def gc(
        self,
        older_than: timedelta = RETENTION,
        *,
        dry_run: bool = False,
        old_versions: bool = False,
        keep: int = 1,
    ) -> Any:
        """Delete what nothing in the catalog can reach, untouched for seven days.

        With `old_versions` also versions of tables that no state of these days shows, but for the
        last `keep` of each.
        """
        options = {"old_versions": True, "keep": keep} if old_versions else {}
        return own(self, "gc")(older_than, dry_run=dry_run, **options)

    def optimize(self) -> Any:
        """Put the manifest of a directory catalog in shape for clients that scan it."""
        return own(self, "optimize")()

    def _table(self, identifier: Identifier) -> "LakeTable":
        from lakeroot.lake.table import LakeTable

        return LakeTable(self.namespace, identifier)

    def __repr__(self) -> str:
        return f"<Lake {self.address}>"

    def _repr_html_(self) -> str:
        return html_table(["table"], [(name,) for name in self.tables()])


def own(lake: Lake, name: str) -> Any:
    """Give an operation that is not one of the Lance namespace, if the catalog has it."""
    method = getattr(lake.namespace, name, None)
    if method is None:
        names = lake._own_names  # noqa: SLF001 (of this module)
        past = names is not None and names.catalog.store.is_past
        raise UnsupportedOperationError(
            f"This catalog has no `{name}`",
            "it is open as of an earlier time"
            if past
            else "a catalog of this kind cannot do that, or it is served by another program",
        )
    return method


class History(list[HistoryEntry]):
    """Commits of a catalog, the newest first."""

    def _repr_html_(self) -> str:
        rows = [
            (entry.version, show_time(entry.timestamp_ms), entry.author, entry.message, what(entry))
            for entry in self
        ]
        return html_table(["version", "time (UTC)", "author", "message", "what"], rows)


def what(entry: HistoryEntry) -> str:
    """Sum a commit up on one line."""
    parts = [
        *(f"+{show(one)}" for one in entry.created),
        *(f"~{show(one)}" for one in entry.altered),
        *(f"-{show(one)}" for one in entry.removed),
        *(f"{show(table)}@{version}" for table, version in entry.versions),
    ]
    return " ".join(parts)


def _identifier(name: str) -> Identifier:
    return parse_dotted(name) if name else ROOT
