"""Cleaning up old versions of tables, through Lance's own operation.

A version goes only if no state of the window shows it: a later version took its place before the
window began. So `at`, `undo` and readers that opened the table within the window find everything
they can ask for. The newest versions, tags, and versions that branches grew from stay however old
they are. What Lance removes is told in bytes before, from the manifests.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.commits import DeleteTableVersions
from lakeroot.model.errors import InvalidInputError, LakerootError, TableNotFoundError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.progress import each
from lakeroot.model.records import Namespace, Table
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import ObjectInfo, Objects
from lakeroot.storage.garbage import SHORTEST, Garbage
from lakeroot.storage.lance_dir.checking.tables import MANIFEST
from lakeroot.storage.lance_dir.manifest_facts import everything_named_in
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import decode
from lakeroot.tables.handle import TableHandle, steadily, working_on
from lakeroot.tables.versions import parse_manifest_name

KEPT_AT_LEAST: Final = 1
_LOOKS: Final = 20


class Plan(Struct, frozen=True):
    """The versions of a table that can go, and the files that only they name."""

    versions: tuple[int, ...]
    files: tuple[str, ...]
    size_bytes: int


def by_its_files(catalog: Catalog, table: Table) -> TableHandle:
    """Open a table by its files, with what opens the root."""
    return TableHandle(catalog.store.uri(table.location), catalog.store.root.storage_options)


def _nothing(catalog: Catalog, table: Table) -> None:
    """Do nothing more."""


def require_kept(keep: int) -> None:
    """Refuse to clean up every version of a table."""
    if keep < 1:
        raise InvalidInputError(
            "At least one version of each table is kept", fix="Keep one version or more"
        )


def collect_old_versions(
    catalog: Catalog,
    older_than: timedelta,
    *,
    keep: int = KEPT_AT_LEAST,
    dry_run: bool = False,
    under: Identifier = (),
    opened: Callable[[Catalog, Table], TableHandle] = by_its_files,
    afterwards: Callable[[Catalog, Table], None] = _nothing,
    spread: Spread = here,
) -> tuple[Garbage, ...]:
    """Clean up every table of a catalog, or of a namespace; ``dry_run`` only says what would go.

    ``opened`` opens a table by its files, where the options of the root do not, and ``afterwards``
    is called for every table that was cleaned. Whomever `spread` finds does the work.
    """
    require_kept(keep)
    window = max(older_than, SHORTEST).total_seconds()
    cutoff_ms = int((time.time() - window) * 1000)
    tables = catalog.store.read().all_tables(None, None)
    inside = [one for one in tables if one[: len(under)] == under]
    cleaning = _Cleaning(catalog, opened, afterwards, cutoff_ms, keep, dry_run=dry_run)
    return tuple(one for one in spread(cleaning, inside) if one is not None)


@dataclass(frozen=True, slots=True)
class _Cleaning:
    """Cleans up tables one by one, here or in another process; it pickles."""

    catalog: Catalog
    opened: Callable[[Catalog, Table], TableHandle]
    afterwards: Callable[[Catalog, Table], None]
    cutoff_ms: int
    keep: int
    dry_run: bool

    def __call__(self, tables: Sequence[Identifier]) -> list[Garbage | None]:
        """Clean up some tables; give what went of each."""
        view = self.catalog.store.read()
        return [self._cleaned(view.get(one)) for one in each(tables, "Looking at old versions")]

    def _cleaned(self, table: Namespace | Table | None) -> Garbage | None:
        if not isinstance(table, Table):
            return None
        try:
            # By its files: what the catalog keeps of its versions is brought in step below.
            handle = self.opened(self.catalog, table)
            done = _clean(
                self.catalog, table, handle, self.cutoff_ms, self.keep, dry_run=self.dry_run
            )
        except TableNotFoundError:
            return None  # only declared, or dropped meanwhile
        if done is None:
            return None
        if not self.dry_run:
            self.afterwards(self.catalog, table)
        why = f"{len(done.versions)} old versions of {show(table.identifier)}"
        return Garbage(table.location, done.size_bytes, why)


def _clean(
    catalog: Catalog, table: Table, handle: TableHandle, cutoff_ms: int, keep: int, *, dry_run: bool
) -> Plan | None:
    files = catalog.store.files(table)
    if not catalog.store.has_data(table):
        return None
    with working_on(handle, "Cleaning up the table") as bench:
        dataset = bench.open()
        plan = plan_of(files, cutoff_ms, keep, _pinned(dataset))
        if plan is None or dry_run:
            return plan
        _forget(catalog, table, plan)
        dataset.cleanup_old_versions(
            versions=list(plan.versions), error_if_tagged_old_versions=False
        )
    # Lance leaves the transactions of the versions it removes, now and then.
    files.delete([path for path in plan.files if path.startswith("_transactions/")])
    return plan


def _pinned(dataset: Any) -> set[int]:
    """Give the versions of the main branch that a tag or a branch names."""
    tags = {tag["version"] for tag in steadily(dataset.tags.list).values()}
    branches = {branch["parent_version"] for branch in steadily(dataset.branches.list).values()}
    return {int(one) for one in tags | branches if one is not None}


def _forget(catalog: Catalog, table: Table, plan: Plan) -> None:
    """Take versions out of the catalog before their files go, so that it never shows them."""
    if not catalog.store.keeps_versions or not TableVersions(catalog).is_managed(None):
        return
    kept = catalog.store.versions(table, None)
    gone = tuple(number for number in plan.versions if number in kept)
    if gone:
        message = f"Clean up {len(gone)} old versions of {show(table.identifier)}"
        catalog.commit(DeleteTableVersions(table.identifier, gone), message=message)


def plan_of(files: Objects, cutoff_ms: int, keep: int, pinned: set[int]) -> Plan | None:
    """Work out what can go; nothing if there is nothing, or if a manifest cannot be read."""
    for _ in range(_LOOKS):
        try:
            return _plan(_Manifests(files), cutoff_ms, keep, pinned)
        except _VanishedError:
            continue  # A writer has put a staged manifest into its place: look again.
        except (MalformedError, ValueError, LakerootError):
            break  # What a damaged manifest names is not known.
    return None


class _VanishedError(Exception):
    """A file that was listed is not there any more."""


class _Manifests:
    """The files of a table, and what each of its manifests names."""

    def __init__(self, files: Objects) -> None:
        self._files = files
        self.listed = {info.path: info for info in files.list("")}
        self.own: dict[int, ObjectInfo] = {}
        self.others: list[str] = []
        for path, info in self.listed.items():
            match = MANIFEST.fullmatch(path)
            if match is None or ".manifest" not in match[2]:
                continue
            name = parse_manifest_name(match[2])
            if match[1] or name is None:
                self.others.append(path)  # of a branch, or staged: whatever it names stays
            else:
                self.own[name.version] = info

    def read(self, path: str) -> bytes:
        """Read a manifest."""
        content = self._files.get(path)
        if content is None:
            raise _VanishedError
        return content


def _plan(found: _Manifests, cutoff_ms: int, keep: int, pinned: set[int]) -> Plan | None:
    own, numbers = found.own, sorted(found.own)
    contents = {number: found.read(own[number].path) for number in numbers}
    superseded = {
        earlier: max(own[later].modified_ms, decode(contents[later]).timestamp_ms)
        for earlier, later in pairwise(numbers)
    }
    gone = [
        number
        for number in numbers[:-keep]
        if number not in pinned and superseded[number] <= cutoff_ms
    ]
    if not gone:
        return None
    kept = [contents[number] for number in numbers if number not in gone]
    kept += [found.read(path) for path in found.others]
    needed = {one for content in kept for one in everything_named_in(content)}
    free = {one for number in gone for one in everything_named_in(contents[number])} - needed
    paths = [path for path in sorted(found.listed) if path in free or _index_of(path) in free]
    paths += [own[number].path for number in gone]
    return Plan(tuple(gone), tuple(paths), sum(found.listed[path].size for path in paths))


def _index_of(path: str) -> str:
    return "/".join(path.split("/")[:2])
