"""Repairing a metastore: what the log knows is put back, what is dead is ended, names are mended.

Every repair does no harm if it was not needed, and is decided in the log where readers could
differ over it. Everything is looked at again before it is touched.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from lakeroot.metastore import Metastore, codecs, naming, txnlogs
from lakeroot.metastore.entries import VOID, Entry, EntryKind, unseal, write_entry
from lakeroot.metastore.locators import PartitionLocator
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.records import Namespace, Partition, Table
from lakeroot.metastore.vacuum import fence
from lakeroot.objects import Objects, Root
from lakeroot.storage.deltacat.translation import is_lance, location_directory, read_table
from lakeroot.storage.findings import Finding


class Repairable(Protocol):
    """A metastore catalog, as far as repairing it needs."""

    root: Root
    objects: Objects


def mend(store: Repairable, one: Finding) -> bool:
    """Repair a finding that only a metastore has; tell whether anything had to be done."""
    metastore = Metastore(store.objects, catalog_root=store.root.uri)
    return _REPAIRS[one.code](metastore, one)


def _fill_gap(metastore: Metastore, one: Finding) -> bool:
    log, number = metastore.log, naming.commit_number(one.path)
    is_filled = metastore.objects.exists(one.path)
    while not metastore.objects.exists(one.path):
        log.sync()  # gives commits their places again that were lost
        if log.index.head < number or number == 0:
            log.decide(VOID)
        else:
            # A checkpoint has its effects; only that its number is taken has to be said.
            metastore.objects.put_if_absent(one.path, write_entry(VOID))
    return not is_filled


def _void(metastore: Metastore, one: Finding) -> bool:
    metastore.log.sync()  # what it was is taken in again from its success log
    content = metastore.objects.get(one.path)
    if content is None or unseal(content) is not None:
        return False
    # Every reader takes a damaged entry for one that did nothing: now it says so.
    metastore.objects.put(one.path, write_entry(VOID))
    return True


def _checkpoint(metastore: Metastore, one: Finding) -> bool:
    metastore.log.sync()
    if one.path != naming.LATEST_CHECKPOINT:
        metastore.objects.delete([one.path])
    metastore.log.checkpoint()
    return True


def _publish(metastore: Metastore, one: Finding) -> bool:
    log = metastore.log
    log.sync()
    entry = log.entry(one.version)
    if entry is None or entry.kind is not EntryKind.COMMIT:
        return False
    path = naming.success_path(log.layout, entry.txn_id, entry.end_time)
    if log.objects.exists(path):
        return False
    for write in entry.writes:
        place = write.path_in(log.layout, entry.txn_id)
        if _is_kept(log, entry, write) and not log.objects.exists(place):
            log.objects.put(place, write.content or b"")
    log.objects.put(path, txnlogs.write_log(entry, log.layout, log.catalog_root))
    return True


def _is_kept(log: CommitLog, entry: Entry, write: Any) -> bool:
    chains = log.index.names if write.target is not None else log.index.objects
    chain = chains.get(write.directory, ())
    return any(r.number == write.number and r.txn_id == entry.txn_id for r in chain)


def _write_again(metastore: Metastore, one: Finding) -> bool:
    log = metastore.log
    log.sync()
    for number in sorted(log.index.marks):
        entry = log.entry(number) if number > 0 else None
        for write in entry.writes if entry is not None else ():
            if write.path_in(log.layout, entry.txn_id if entry else "") == one.path:
                if log.objects.get(one.path) == (write.content or b""):
                    return False
                log.objects.put(one.path, write.content or b"")
                return True
    if not log.objects.exists(one.path) and _names_nothing_else(one):
        log.objects.put(one.path, b"")
        return True
    return False


def _names_nothing_else(one: Finding) -> bool:
    return one.code == "name-file-missing"  # Such a file is empty: its name says it all.


def _forget_name(metastore: Metastore, one: Finding) -> bool:
    with metastore.transaction("Remove a name that leads nowhere") as txn:
        target = txn.target_of(one.path)
        parent = one.path.rpartition("/")[0]
        place = f"{parent}/{target}" if parent else str(target)
        if target is None or txn.record_at(place) is not None:
            return False
        txn.changes.footprint.steady.add(place)
        txn.stage_name(one.path, None)
    return True


def _give_name(metastore: Metastore, one: Finding) -> bool:
    with metastore.transaction("Give an object its name back") as txn:
        record = txn.record_at(one.path)
        parent = one.path.rpartition("/")[0]
        above = txn.record_at(parent) if parent else None
        if not isinstance(record, Namespace | Table):
            return False
        parts = (above.name, record.name) if isinstance(above, Namespace) else (record.name,)
        place = txn.name_directory(parts, parent)
        if txn.target_of(place) is not None:
            return False
        txn.stage_name(place, record.id)
        txn.stage(record)  # so that the transaction's log speaks of it
    return True


def _claim(metastore: Metastore, one: Finding) -> bool:
    with metastore.transaction("Claim the directory of a table") as txn:
        record = txn.record_at(one.path)
        above = txn.record_at(one.path.partition("/")[0])
        if not isinstance(record, Table) or not isinstance(above, Namespace):
            return False
        if not is_lance(record):
            return False
        table = read_table(codecs.with_names(record, above.name))
        txn.stage_name(location_directory(table.location), f"{above.id}.{record.id}")
        txn.changes.footprint.steady.add(one.path)
    return True


def _move_on(metastore: Metastore, one: Finding) -> bool:
    with metastore.transaction("Let a partition know its newest delta") as txn:
        record = txn.record_at(one.path)
        if not isinstance(record, Partition) or (record.stream_position or 0) >= one.version:
            return False
        assert isinstance(record.locator, PartitionLocator)  # noqa: S101 (for the type checker)
        txn.stage(replace(record, stream_position=one.version))
    return True


def _end(metastore: Metastore, one: Finding) -> bool:
    if not metastore.objects.exists(one.path):
        return False
    metastore.log.sync()
    fence(metastore.log, one.object)
    metastore.objects.delete([one.path])
    return True


def _delete(metastore: Metastore, one: Finding) -> bool:
    metastore.objects.delete([one.path])
    return True


_REPAIRS: Final[Mapping[str, Callable[[Metastore, Finding], bool]]] = {
    "log-gap": _fill_gap,
    "log-entry-damaged": _void,
    "checkpoint-damaged": _checkpoint,
    "commit-unpublished": _publish,
    "revision-damaged": _write_again,
    "name-file-missing": _write_again,
    "name-dangling": _forget_name,
    "object-unnamed": _give_name,
    "location-unclaimed": _claim,
    "position-behind": _move_on,
    "transaction-expired": _end,
    "leftover-lease": _delete,
}
MENDABLE: Final = frozenset(_REPAIRS)
"""The codes that are repaired here."""
