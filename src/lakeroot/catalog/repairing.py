"""Repairing what can be repaired without losing anything.

Every repair can be undone or does no harm, none deletes the data of a table, and rows change by
ordinary commits only. Everything is looked at again before it is touched.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.errors import LakerootError
from lakeroot.storage.lance_dir import LanceDirStore
from lakeroot.storage.lance_dir.checking import Finding
from lakeroot.storage.lance_dir.removing import REMOVABLE, remove


@dataclass(frozen=True, slots=True)
class Repair:
    """What became of a finding: repaired, or why not."""

    finding: Finding
    outcome: str


def repair(
    catalog: Catalog, store: LanceDirStore, findings: Iterable[Finding], *, dry_run: bool = False
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
            changed = _repair(catalog, store, one)
            outcome = "repaired" if changed else "was in order by now"
        except LakerootError as error:
            outcome = f"not repaired: {error}"
        done.append(Repair(one, outcome))
    return done


def _repair(catalog: Catalog, store: LanceDirStore, one: Finding) -> bool:
    if one.code in REMOVABLE:
        return remove(store.objects, one, lambda place: _is_owned(store, place))
    if one.code == "row-duplicate":
        return store.remove_repeated_rows([one.identifier], catalog.author)
    if one.code == "history-restarted":
        return store.put_back(one.version, catalog.author)
    versions = TableVersions(catalog)
    if one.code == "version-unfinished":
        versions.describe_version(one.identifier, one.version)
        return True
    known = versions.known(catalog.table(one.identifier))
    taken_in = versions.taken_in(known)
    if taken_in:
        catalog.commit(*taken_in, message=f"Take in versions of {one.object}")
    return bool(taken_in)


def _is_owned(store: LanceDirStore, place: str) -> bool:
    return store.read().owner_of(place) is not None
