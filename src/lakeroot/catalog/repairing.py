"""Repairing what can be repaired without losing anything.

Every repair can be undone or does no harm, none deletes the data of a table, and rows change by
ordinary commits only. Everything is looked at again before it is touched.
"""

import contextlib
from collections.abc import Callable, Iterable

from msgspec import Struct

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.known_versions import KnownVersions
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.errors import InvalidTableStateError, LakerootError
from lakeroot.model.records import Table
from lakeroot.storage.findings import Finding
from lakeroot.storage.lance_dir import LanceDirStore
from lakeroot.storage.lance_dir.removing import REMOVABLE, remove
from lakeroot.tables.versions import VersionRange


class Repair(Struct, frozen=True):
    """What became of a finding: repaired, or why not."""

    finding: Finding
    outcome: str


Mend = Callable[[Catalog, Finding], bool]
"""Repairs one finding of a catalog; tells whether anything had to be done."""


def repair(
    catalog: Catalog, mend: Mend, findings: Iterable[Finding], *, dry_run: bool = False
) -> list[Repair]:
    """Repair the findings that are safe to repair; one that fails does not stop the others."""
    done = []
    for one in findings:
        if not one.repairable:
            continue
        if dry_run:
            done.append(Repair(one, "would be repaired"))
            continue
        try:
            outcome = "repaired" if mend(catalog, one) else "was in order by now"
        except LakerootError as error:
            outcome = f"not repaired: {error}"
        done.append(Repair(one, outcome))
    return done


def mend_directory(store: LanceDirStore) -> Mend:
    """Give what repairs a directory catalog."""

    def mend(catalog: Catalog, one: Finding) -> bool:
        if one.code in REMOVABLE:
            return remove(store.objects, one, lambda place: _is_owned(catalog, place))
        if one.code == "row-duplicate":
            return store.remove_repeated_rows([one.identifier], catalog.author)
        if one.code == "history-restarted":
            return store.put_back(one.version, catalog.author)
        return mend_versions(catalog, one)

    return mend


def mend_versions(catalog: Catalog, one: Finding) -> bool:
    """Bring the versions that the catalog keeps of a table in step with its files."""
    versions = TableVersions(catalog)
    if one.code == "version-row-unmanaged":
        return versions.forget_unmanaged(one.identifier)
    if one.code == "version-unfinished":
        versions.describe_version(one.identifier, one.version)
        return True
    known = versions.known(catalog.table(one.identifier))
    if one.code == "version-missing":
        return _go_back(versions, known, one)
    taken_in = versions.taken_in(known)
    if taken_in:
        catalog.commit(*taken_in, message=f"Take in versions of {one.object}")
    return bool(taken_in)


def _go_back(versions: TableVersions, known: KnownVersions, one: Finding) -> bool:
    """Forget a version that was cleaned up, so that the one before is the newest again."""
    if known.newest != one.version:
        return False
    with contextlib.suppress(InvalidTableStateError):
        known.version(one.version)
        return False  # Somebody has put it back.
    versions.delete_versions(one.identifier, [VersionRange(one.version, one.version + 1)])
    return True


def mend_leftovers(catalog: Catalog, one: Finding) -> bool:
    """Remove what a dead writer has left in the directory of a table."""
    found = (catalog.store.read().get(name) for name in catalog.store.read().all_tables(None, None))
    for table in found:
        if isinstance(table, Table) and one.path.startswith(f"{table.location}/"):
            below = one.path.removeprefix(f"{table.location}/")
            files = catalog.store.files(table)
            if one.code == "leftover-private-directory":
                files.delete_directory(below)
            else:
                files.delete([below])
            return True
    return False


def _is_owned(catalog: Catalog, place: str) -> bool:
    return catalog.store.read().owner_of(place) is not None
