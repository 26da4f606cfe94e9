"""Metastore catalogs to be damaged, and the damage: by hand, and by careless transactions."""

import shutil
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import lance
import msgspec
import pyarrow as pa

from lakeroot.lake import Lake
from lakeroot.metastore import Metastore, Transaction, naming, schema_of
from lakeroot.metastore.data import TableWriter
from lakeroot.metastore.entries import Entry, EntryKind, Write, read_entry, write_entry
from lakeroot.metastore.leases import Lease
from lakeroot.metastore.records import Delta, Partition
from lakeroot.namespace.deltacat import DeltaCatNamespace
from lakeroot.storage.deltacat.translation import (
    MANAGES_VERSIONS,
    OWN,
    ROOT_NAMESPACE,
    location_directory,
    own_facts,
    read_version,
    write_version,
)
from tests.fsck.conftest import ROWS, fill, newest

LAYOUTS = ("spec", "deltacat-2")
NATIVE = pa.table({"a": [1, 2, 3]})


def opened(root: Path) -> Lake:
    return Lake(DeltaCatNamespace(root=str(root)), str(root))


def metastore_at(root: Path) -> Metastore:
    return Metastore.open(str(root))


def build(root: Path, layout: str) -> None:
    """Make Lance tables with a past, and a table whose rows the metastore itself keeps."""
    lake = Lake(DeltaCatNamespace(root=str(root), layout=layout), str(root))
    fill(lake)
    store = metastore_at(root)
    with store.transaction() as txn:
        txn.create_namespace("native")
        txn.create_table("native", "n", schema=schema_of(NATIVE.schema))
    for _ in range(2):
        with store.transaction() as txn:
            TableWriter(txn, "native", "n").append(NATIVE)


def location_of(root: Path, name: str) -> Path:
    (found,) = (root / "_lance").glob(f"*_{name}")
    return found


def entry_file(root: Path, number: int) -> Path:
    return root / naming.commit_path(number)


def head_of(root: Path) -> int:
    return metastore_at(root).log.index.head


def careless(root: Path, change: Callable[[Transaction], object]) -> None:
    with metastore_at(root).transaction("careless") as txn:
        change(txn)


# The log


def write_newer_entry(root: Path) -> None:
    data = write_entry(Entry(EntryKind.VOID)).replace(b"void", b"view")
    packed = data[8:]
    entry_file(root, head_of(root) + 1).write_bytes(
        data[:4] + zlib.crc32(packed).to_bytes(4, "big") + packed
    )


def lose_entry(root: Path) -> None:
    entry_file(root, head_of(root) - 1).unlink()


def damage_entry(root: Path) -> None:
    place = entry_file(root, head_of(root) - 1)
    place.write_bytes(place.read_bytes()[:-3])


def damage_checkpoint(root: Path) -> None:
    metastore_at(root).checkpoint()
    (place,) = [p for p in (root / naming.CHECKPOINTS).iterdir() if p.name != "_latest"]
    place.write_bytes(place.read_bytes()[:-3])


def lose_checkpoint(root: Path) -> None:
    metastore_at(root).checkpoint()
    (place,) = [p for p in (root / naming.CHECKPOINTS).iterdir() if p.name != "_latest"]
    place.unlink()


def leave_commit_unpublished(root: Path) -> None:
    """Leave what a writer leaves that dies right after its commit is decided."""
    store = metastore_at(root)
    txn = store.transaction("cut off")
    txn.create_namespace("cut")
    assert txn._decide() is not None


def lose_success_log(root: Path) -> None:
    store = metastore_at(root)
    number = store.log.index.head - 1
    entry = store.log.entry(number)
    assert entry is not None
    (root / naming.success_path(store.layout, entry.txn_id, entry.end_time)).unlink()


# Revisions and names


def revision_file(root: Path, depth: int, *, is_name: bool = False) -> tuple[Path, int]:
    """Find the newest file of an object of a depth, or of a name, and its commit."""
    log = metastore_at(root).log
    chains = log.index.names if is_name else log.index.objects
    place = max(p for p in chains if p.count("/") == depth - 1 and not p.startswith("_"))
    return root / log.path_of(place, chains[place][-1]), chains[place][-1].sequence


def lose_revision(root: Path) -> None:
    revision_file(root, 1)[0].unlink()


def damage_revision(root: Path) -> None:
    place, _ = revision_file(root, 2)
    place.write_bytes(place.read_bytes()[:-1])


def lose_revision_for_good(root: Path) -> None:
    place, sequence = revision_file(root, 6)
    entry = read_entry(entry_file(root, sequence).read_bytes())
    bare = tuple(
        write._replace(content=None) if write.directory.count("/") == 5 else write
        for write in entry.writes
    )
    entry_file(root, sequence).write_bytes(write_entry(replace(entry, writes=bare)))
    place.write_bytes(b"?")


def skip_revision(root: Path) -> None:
    store = metastore_at(root)
    place = store.view().namespace("air").id
    number = store.log.index.last_number(place, is_name=False) + 2
    revision = store.log.index.objects[place][-1]
    content = store.objects.get(store.log.path_of(place, revision))
    txn_id = store.transaction().txn_id
    write = Write(place, number, "update", None, content)
    end = store.log.index.last_end_time + 1
    entry = Entry(EntryKind.COMMIT, txn_id, end, "careless", (write,))
    assert store.log.decide(entry)
    store.log.finish(entry)


def lose_name_file(root: Path) -> None:
    revision_file(root, 1, is_name=True)[0].unlink()


def leave_name(root: Path) -> None:
    careless(root, lambda txn: txn.stage_name(txn.name_directory(("nobody",)), str(uuid4())))


def name_wrongly(root: Path) -> None:
    def change(txn: Transaction) -> None:
        table = txn.table("native", "n")
        parent = table.ancestor_ids[0]
        txn.stage_name(txn.name_directory(("native", "other"), parent), table.id)

    careless(root, change)


def name_twice(root: Path) -> None:
    def change(txn: Transaction) -> None:
        txn.stage(replace(txn.namespace("native"), id=str(uuid4())))

    careless(root, change)


def forget_name(root: Path) -> None:
    careless(root, lambda txn: txn.stage_name(txn.name_directory(("native",)), None))


def share_location(root: Path) -> None:
    def change(txn: Transaction) -> None:
        table = txn.table("air", "t")
        txn.create_table("air", "twin", properties=table.properties, stream_format="lance")

    careless(root, change)


def forget_claim(root: Path) -> None:
    location = location_of(root, "t").relative_to(root).as_posix()
    careless(root, lambda txn: txn.stage_name(location_directory(location), None))


# Deltas


def native_partition(txn: Transaction) -> Partition:
    (found,) = txn.partitions(txn.stream("native", "n"))
    return found


def forget_position(root: Path) -> None:
    careless(root, lambda txn: txn.stage(replace(native_partition(txn), stream_position=1)))


def data_file(root: Path) -> Path:
    return min((root / "data").rglob("*.pq"))


def lose_data_file(root: Path) -> None:
    data_file(root).unlink()


def cut_data_file(root: Path) -> None:
    data_file(root).write_bytes(data_file(root).read_bytes()[:-9])


def point_version_elsewhere(root: Path) -> None:
    """Leave what a writer leaves that dies before it puts its manifest into place."""
    place = newest(location_of(root, "r"))
    staged = place.with_name(f"{place.name}-{uuid4()}")
    place.rename(staged)

    def change(txn: Transaction) -> None:
        version = txn.table_version("$root", "r")
        stream = txn.find_stream(version, "lance")
        assert stream is not None
        (partition,) = txn.partitions(stream)
        delta = txn.find_delta(partition, 1)
        assert isinstance(delta, Delta)
        kept = msgspec.structs.replace(read_version(delta), manifest_path=str(staged).lstrip("/"))
        txn.stage(write_version(partition, kept))

    careless(root, change)


# Transactions, and what they leave


def leave_transaction(root: Path) -> None:
    """Leave what a writer leaves that dies before it commits."""
    txn = metastore_at(root).transaction("cut off")
    TableWriter(txn, "native", "n").append(NATIVE)


def leave_lease(root: Path) -> None:
    store = metastore_at(root)
    txn = next(iter(store.transactions()))
    Lease(store.log, txn.id, None).renew()


def leave_file(root: Path) -> None:
    """Leave a data file whose transaction is over and did not commit."""
    txn = metastore_at(root).transaction("given up")
    TableWriter(txn, "native", "n").append(NATIVE)
    txn.lease.release()


def orphan_directory(root: Path) -> None:
    lance.write_dataset(ROWS, str(root / "_lance" / "0123456789abcdef_gone"))


# The Lance tables


def lose_table(root: Path) -> None:
    shutil.rmtree(location_of(root, "r"))


def damage_manifest(root: Path) -> None:
    place = newest(location_of(root, "r"))
    place.write_bytes(place.read_bytes()[:-20])


def lose_data_of_table(root: Path) -> None:
    next((location_of(root, "r") / "data").iterdir()).unlink()


def cut_data_of_table(root: Path) -> None:
    place = next((location_of(root, "r") / "data").iterdir())
    place.write_bytes(place.read_bytes()[:-1])


def lose_index_of_table(root: Path) -> None:
    shutil.rmtree(next((location_of(root, "t") / "_indices").iterdir()))


def lose_versions_of_table(root: Path) -> None:
    stored = metastore_at(root).view().table("air", "declared")
    place = root / own_facts(stored)["location"]
    (place / "data").mkdir(parents=True)
    (place / "data" / "x.lance").write_bytes(b"rows")


def lose_newest_version(root: Path) -> None:
    newest(location_of(root, "t")).unlink()


def clean_up_version(root: Path) -> None:
    max((location_of(root, "t") / "_versions").glob("*.manifest")).unlink()


def put_version_directly(root: Path) -> None:
    lance.write_dataset(ROWS, str(location_of(root, "r")), mode="append")


def leave_staged_manifest(root: Path) -> None:
    place = newest(location_of(root, "r"))
    shutil.copy(place, place.with_name(f"18446744073709551600.manifest-{uuid4()}"))


def keep_versions_unmanaged(root: Path) -> None:
    with metastore_at(root).transaction() as txn:
        stored = txn.find_namespace(ROOT_NAMESPACE) or txn.create_namespace(ROOT_NAMESPACE)
        own = {**own_facts(stored), MANAGES_VERSIONS: False}
        txn.update_namespace(ROOT_NAMESPACE, properties={**(stored.properties or {}), OWN: own})


def leave_private_directory(root: Path) -> None:
    private = location_of(root, "r") / f"_lakeroot-{uuid4().hex}"
    private.mkdir()
    shutil.copy(newest(location_of(root, "r")), private)


def leave_unfinished_file(root: Path) -> None:
    (root / "txn" / "x#12300000000").write_bytes(b"half")


Damage = Callable[[Path], None]
CASES: list[tuple[str, Damage]] = [
    ("log-unreadable", write_newer_entry),
    ("log-gap", lose_entry),
    ("log-entry-damaged", damage_entry),
    ("checkpoint-damaged", damage_checkpoint),
    ("checkpoint-damaged", lose_checkpoint),
    ("commit-unpublished", leave_commit_unpublished),
    ("commit-unpublished", lose_success_log),
    ("revision-damaged", lose_revision),
    ("revision-damaged", damage_revision),
    ("revision-lost", lose_revision_for_good),
    ("revision-gap", skip_revision),
    ("name-file-missing", lose_name_file),
    ("name-dangling", leave_name),
    ("name-wrong", name_wrongly),
    ("name-duplicate", name_twice),
    ("object-unnamed", forget_name),
    ("row-location-shared", share_location),
    ("location-unclaimed", forget_claim),
    ("position-behind", forget_position),
    ("data-file-missing", lose_data_file),
    ("data-file-damaged", cut_data_file),
    ("transaction-expired", leave_transaction),
    ("leftover-lease", leave_lease),
    ("file-orphan", leave_file),
    ("directory-orphan", orphan_directory),
    ("table-missing", lose_table),
    ("table-unreadable", damage_manifest),
    ("table-file-missing", lose_data_of_table),
    ("table-file-damaged", cut_data_of_table),
    ("table-index-missing", lose_index_of_table),
    ("table-without-version", lose_versions_of_table),
    ("version-missing", lose_newest_version),
    ("version-stale", clean_up_version),
    ("version-unfinished", point_version_elsewhere),
    ("version-direct", put_version_directly),
    ("version-row-unmanaged", keep_versions_unmanaged),
    ("leftover-staged-manifest", leave_staged_manifest),
    ("leftover-private-directory", leave_private_directory),
    ("leftover-unfinished-file", leave_unfinished_file),
]
