"""A whole catalog, in the hand."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from lance_namespace import LanceNamespace

from lakeroot.lake.calls import Calls
from lakeroot.lake.changes import Diff, diff_of
from lakeroot.lake.display import html_table
from lakeroot.lake.findings import Findings
from lakeroot.lake.moments import read_moment, show_time
from lakeroot.lake.table import LakeTable, ipc
from lakeroot.model.errors import TableNotFoundError, UnsupportedOperationError
from lakeroot.model.identifiers import DELIMITER, ROOT, Identifier, parse_dotted, show
from lakeroot.storage.contract import HistoryEntry
from lakeroot.storage.lance_dir.checking import GRACE, Finding
from lakeroot.storage.lance_dir.vacuum import RETENTION


class Lake:
    """Namespaces and tables by dotted names."""

    def __init__(self, namespace: LanceNamespace, address: str) -> None:
        self.namespace = namespace
        """The LanceNamespace, for other libraries."""
        self.address = address
        self._calls = Calls(namespace)

    # Looking

    def namespaces(self, parent: str = "") -> list[str]:
        """List the namespaces below one, or below the root."""
        within = _identifier(parent)
        names = self._pages("list_namespaces", list(within), "namespaces")
        return [show((*within, name)) for name in names]

    def tables(self, namespace: str | None = None) -> list[str]:
        """List the tables of a namespace, or all tables."""
        if namespace is None:
            every = self._pages("list_all_tables", [], "tables")
            return sorted(show(tuple(name.split(DELIMITER))) for name in every)
        within = _identifier(namespace)
        return [show((*within, n)) for n in self._pages("list_tables", list(within), "tables")]

    def properties(self, namespace: str = "") -> dict[str, str]:
        """Give the properties of a namespace."""
        found = self._calls.describe_namespace({"id": list(_identifier(namespace))})
        return dict(found.properties or {})

    def __getitem__(self, name: str) -> LakeTable:
        identifier = _identifier(name)
        if not self._has(identifier):
            near = difflib.get_close_matches(name, self.tables(), n=1)
            raise TableNotFoundError(
                f"There is no table {show(identifier)}",
                fix=f"Did you mean {near[0]}?" if near else "`tables()` lists those there are",
            )
        return LakeTable(self.namespace, identifier)

    def __contains__(self, name: str) -> bool:
        return self._has(_identifier(name))

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

    def create_table(self, name: str, data: Any, *, mode: str = "create") -> LakeTable:
        """Create a table with its first rows; `mode` may be exist_ok or overwrite."""
        identifier = _identifier(name)
        self._calls.create_table({"id": list(identifier), "mode": mode}, ipc(data))
        return LakeTable(self.namespace, identifier)

    def drop_table(self, name: str) -> None:
        """Drop a table and its data."""
        self._calls.drop_table({"id": list(_identifier(name))})

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
        return self._ours("transaction")(message)

    # The past

    def history(self, limit: int | None = None) -> "History":
        """Tell what each commit changed, the newest first."""
        return History(self._ours("history")(limit))

    def at(self, moment: int | str | datetime | date) -> "Lake":
        """Give the catalog as it was: at one of its versions, or at a time; read only."""
        return Lake(self._ours("at")(**read_moment(moment)), f"{self.address} at {moment}")

    def diff(
        self, before: int | str | datetime | date, after: int | str | datetime | date | None = None
    ) -> Diff:
        """Tell what differs between two moments, or between one and now."""
        return diff_of(self.at(before), self if after is None else self.at(after))

    def undo(self, commit: int | HistoryEntry, *, dry_run: bool = False) -> list[str]:
        """Take a commit back by a commit of its own; say what that changes."""
        version = commit.version if isinstance(commit, HistoryEntry) else commit
        return list(self._ours("undo")(version, dry_run=dry_run))

    def undrop(self, name: str) -> LakeTable:
        """Give a table its name back, as long as its data is there."""
        identifier = _identifier(name)
        self._ours("undrop")(identifier)
        return LakeTable(self.namespace, identifier)

    # Looking after it

    def check(self, grace: timedelta = GRACE) -> Findings:
        """Find everything that is wrong with the catalog and its tables; change nothing."""
        return Findings(self._ours("check")(grace))

    def repair(self, findings: Iterable[Finding], *, dry_run: bool = False) -> list[Any]:
        """Repair the findings that can be repaired without losing anything."""
        return list(self._ours("repair")(findings, dry_run=dry_run))

    def gc(self, older_than: timedelta = RETENTION, *, dry_run: bool = False) -> Any:
        """Delete what nothing in the catalog can reach, untouched for seven days."""
        return self._ours("gc")(older_than, dry_run=dry_run)

    def optimize(self) -> Any:
        """Put the manifest of a directory catalog in shape for clients that scan it."""
        return self._ours("optimize")()

    def _ours(self, name: str) -> Any:
        method = getattr(self.namespace, name, None)
        if method is None:
            raise UnsupportedOperationError(
                f"This catalog has no `{name}`", "it is served by another implementation"
            )
        return method

    def _has(self, identifier: Identifier) -> bool:
        from lance_namespace import NamespaceNotFoundError
        from lance_namespace import TableNotFoundError as NoTable

        try:
            self._calls.table_exists({"id": list(identifier)})
        except (NoTable, NamespaceNotFoundError):
            return False
        return True

    def _pages(self, operation: str, identifier: list[str], field: str) -> list[str]:
        names: list[str] = []
        token = None
        while True:
            request = {"id": identifier, "page_token": token}
            page = getattr(self._calls, operation)(request)
            names += getattr(page, field)
            token = page.page_token
            if not token:
                return names

    def __repr__(self) -> str:
        return f"<Lake {self.address}>"

    def _repr_html_(self) -> str:
        return html_table(["table"], [(name,) for name in self.tables()])


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
