"""A client between pylance and the catalog that keeps new versions back.

pylance commits a version of a managed table by writing a manifest to one side and asking the
catalog to make it the next version. Asked through this client, the version is noted instead, and
whoever looks at the table through it sees the noted version as the newest.

pylance puts the manifest of any staged version it is shown into its final place, where everybody
would see it. So it is shown a copy in a private directory, which looks final to it.

pylance itself looks into the table's directory for versions of others, and builds on the newest. A
version that was built past those kept back is refused, and pylance must not try again: it would
find the others there each time, for half a minute. It stops where it cannot find out what became of
its version, so those of others are not shown from then on.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from msgspec import Struct

from lakeroot.catalog.staged_versions import NewVersion, Staged
from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.catalog.versions import TableVersions, are_one
from lakeroot.model.errors import ConcurrentModificationError, TableVersionNotFoundError
from lakeroot.model.identifiers import Identifier, identifier_of, show
from lakeroot.model.records import Table
from lakeroot.objects import Objects
from lakeroot.storage.lance_dir.manifest_facts import files_named_in
from lakeroot.tables.litter import HINT
from lakeroot.tables.versions import naming_scheme


class ReplacedError(ConcurrentModificationError):
    """A name that was worked on is that of another table now."""

    def __init__(self, identifier: Identifier) -> None:
        super().__init__(
            f"{show(identifier)} is another table now",
            "the one before was dropped or renamed",
            "Look at the table that is there now",
        )
        self.identifier = identifier


class Base(Struct, frozen=True):
    """What the kept-back versions of a table stand on."""

    table: Table
    version: int
    digest: str | None = None
    """What the manifest of that version held, if the catalog keeps it: numbers come again."""


class StagingClient:
    """Passes reads on to a catalog, with the versions that are kept back on top.

    Whoever begins anew hands over the tables that were seen before: a name must not lead to
    another table than it did at first.
    """

    def __init__(self, namespace: Any, tables: dict[Identifier, Table] | None = None) -> None:
        self._namespace = namespace
        self._tables = {} if tables is None else tables
        self._versions = TableVersions(namespace.catalog)
        self._commits = VersionCommits(namespace.catalog)
        self._staged: dict[Identifier, list[Staged]] = {}
        self._base: dict[Identifier, Base] = {}
        self._may_follow = False
        self.disturbance: ConcurrentModificationError | None = None
        """What another writer did, after which no version of its table is kept back any more."""
        self._private = f"_lakeroot-{uuid4().hex}"

    @property
    def staged(self) -> list[Staged]:
        """Give the versions that are kept back, those of one table in order."""
        return [one for of_table in self._staged.values() for one in of_table]

    def newest(self, identifier: Identifier) -> int:
        """Tell which version of a table is the newest that is shown; 0 if it is only declared."""
        return self.base_version(identifier) + len(self._staged.get(identifier, ()))

    def is_empty(self, table: Table) -> bool:
        """Tell whether a table is only declared, with nothing kept back for it either."""
        return not self._staged.get(table.identifier) and self._versions.latest(table) == 0

    @property
    def bases(self) -> list[Base]:
        """Give the tables that were looked at, with the versions they had."""
        return list(self._base.values())

    def base_version(self, identifier: Identifier) -> int:
        """Tell which version of a table its kept-back versions stand on."""
        return self.base(identifier).version

    def table(self, identifier: Identifier) -> Table:
        """Find a table; refuse another one that has its name by now."""
        now: Table = self._namespace.catalog.table(identifier)
        if not are_one(self._tables.setdefault(identifier, now), now):
            raise ReplacedError(identifier)
        return now

    def base(self, identifier: Identifier) -> Base:
        """Tell what the kept-back versions of a table stand on; it stays so from the first look."""
        if identifier not in self._base:
            table = self.table(identifier)
            found = self._versions.known(table)
            self._base[identifier] = Base(table, found.newest, found.digest(found.newest))
        return self._base[identifier]

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Let a change stand on what others commit while it is made, if nothing is below it."""
        self._may_follow = True
        try:
            yield
        finally:
            self._may_follow = False

    def namespace_id(self) -> str:
        """Name the catalog behind."""
        return f"staging of {self._namespace.namespace_id()}"

    def describe_table(self, request: Any) -> Any:
        """Describe a table as the catalog does."""
        return self._namespace.describe_table(request)

    def list_table_versions(self, request: Any) -> Any:
        """List versions with those kept back; the newest alone when that is asked for."""
        identifier = identifier_of(request["id"])
        staged = self._staged.get(identifier, [])
        base = self.base_version(identifier)
        if request.get("limit") == 1 and request.get("descending"):
            if staged:
                return {"versions": [self._described(staged[-1])]}
            newest = {"id": list(identifier), "version": base}
            return {"versions": [self.describe_table_version(newest)["version"]] if base else []}
        listed = self._namespace.list_table_versions(
            {**request, "limit": None, "page_token": None}
        )["versions"]
        found = [one for one in listed if one["version"] <= base]
        found += [self._described(one) for one in staged]
        found.sort(key=lambda one: one["version"], reverse=bool(request.get("descending")))
        limit = request.get("limit")
        return {"versions": found if limit is None else found[:limit]}

    def describe_table_version(self, request: Any) -> Any:
        """Describe a version, kept back or not."""
        identifier = identifier_of(request["id"])
        staged = self._staged.get(identifier, [])
        for one in staged:
            if one.asked.version == request.get("version"):
                return {"version": self._described(one)}
        shown = self.base_version(identifier) + len(staged)
        if self.disturbance is not None and (request.get("version") or 0) > shown:
            raise TableVersionNotFoundError(
                f"{show(identifier)} is at version {shown} in this transaction"
            )
        return self._namespace.describe_table_version(request)

    def create_table_version(self, request: Any) -> Any:
        """Keep a new version back."""
        asked = NewVersion(
            identifier=identifier_of(request["id"]),
            version=request["version"],
            manifest_path=request["manifest_path"],
            branch=request.get("branch"),
            scheme=naming_scheme(request.get("naming_scheme")),
            metadata=request.get("metadata") or {},
        )
        staged = self._staged.setdefault(asked.identifier, [])
        base = self.base(asked.identifier)
        expected = base.version + len(staged) + 1
        one = self._commits.stage(asked, base.table)
        if asked.version > expected and self._may_follow and not staged:
            self._base[asked.identifier] = Base(base.table, asked.version - 1)
        elif asked.version != expected:
            # Another writer came between: Lance has built on a version that we do not show.
            self._remove([one], asked.version - 1)
            self.disturbance = ConcurrentModificationError(
                f"Version {expected} of {show(asked.identifier)} was committed by another writer"
            )
            raise self.disturbance
        self._files(one).put(self._copy(one), one.content)
        staged.append(one)
        return {"version": self._described(one)}

    def forget_copies(self) -> None:
        """Remove the private copies; the versions themselves are published."""
        for one in self.staged:
            self._files(one).delete_directory(self._private)

    def discard(self) -> None:
        """Remove everything that was written for versions that will not be published."""
        for identifier, staged in self._staged.items():
            if staged:
                self._remove(staged, self.base_version(identifier))
        self.forget_copies()

    def _remove(self, staged: list[Staged], base: int) -> None:
        """Remove staged versions of a table, and what was written for them on top of another."""
        files = self._files(staged[0])
        written = set[str]().union(*(files_named_in(one.content) for one in staged))
        below = staged[0].files.path_of(base) if base else None
        content = None if below is None else files.get(below)
        if content is not None:
            # What the version below is made of stays; the rest is nobody's.
            written -= files_named_in(content)
        if not base:
            # A table that is only declared has nothing in the directory of its versions.
            written.add(HINT)
        if content is not None or not base:
            files.delete(sorted(written))
        files.delete([one.manifest.path for one in staged])

    def _files(self, one: Staged) -> Objects:
        files: Objects = self._namespace.catalog.store.files(one.table)
        return files

    def _copy(self, one: Staged) -> str:
        return f"{self._private}/{one.manifest.final}"

    def _described(self, one: Staged) -> dict[str, Any]:
        return {
            "version": one.asked.version,
            "manifest_path": one.files.address(self._copy(one)),
            "manifest_size": len(one.content),
            "metadata": dict(one.asked.metadata),
        }
