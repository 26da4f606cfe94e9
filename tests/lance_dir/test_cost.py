"""What operations cost in requests and bytes, whatever the size of the catalog; no times."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from benchmarks.manifests import renumbered
from obstore.store import MemoryStore

from lakeroot import DirectoryNamespace
from lakeroot.catalog import Catalog
from lakeroot.catalog.staged_versions import NewVersion
from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.catalog.versions import TableVersions
from lakeroot.objects import Listing, LocalObjects, ObjectInfo, Objects, Root
from lakeroot.objects.remote import RemoteObjects
from lakeroot.storage.lance_dir import DirectorySettings, LanceDirStore
from lakeroot.storage.lance_dir.drafts import Draft
from lakeroot.storage.lance_dir.rows import NAMESPACE, TABLE_ROW, Row
from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name

SIZES = (10, 1_000, 10_000)
BUCKET = Root("s3://nowhere", is_local=False)
V2 = DirectorySettings(dir_listing_enabled=False)


class CountingObjects:
    """Objects that count requests: all of them, and those that the caller waited for in turn."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.forget()

    def forget(self) -> None:
        self.requests: Counter[str] = Counter()
        self.in_turn = 0
        self.bytes_written = 0
        self._caller = threading.get_ident()

    def _count(self, kind: str, written: bytes = b"") -> None:
        self.requests[kind] += 1
        self.bytes_written += len(written)
        # What a helping thread asks for goes on while the caller asks for something itself.
        self.in_turn += threading.get_ident() == self._caller

    def get(self, path: str) -> bytes | None:
        self._count("get")
        return self._objects.get(path)

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        self._count("put", data)
        self._objects.put(path, data, is_named_later=is_named_later)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._count("put", data)
        return self._objects.put_if_absent(path, data)

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        self._count("move")
        return self._objects.move_if_absent(source, target, flush=flush)

    def flush(self, paths: Sequence[str], *, are_named_later: bool = False) -> None:
        self._objects.flush(paths, are_named_later=are_named_later)

    def head(self, path: str) -> ObjectInfo | None:
        self._count("head")
        return self._objects.head(path)

    def exists(self, path: str) -> bool:
        self._count("head")
        return self._objects.exists(path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._count("list")
        return self._objects.list(prefix)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        self._count("list")
        return self._objects.list_names(prefix)

    def list_directory(self, prefix: str) -> Listing:
        self._count("list")
        return self._objects.list_directory(prefix)

    def has_any(self, prefix: str) -> bool:
        self._count("list")
        return self._objects.has_any(prefix)

    def delete(self, paths: Iterable[str]) -> None:
        self._count("delete")
        self._objects.delete(paths)

    def delete_directory(self, prefix: str) -> None:
        self._count("list")
        self._objects.delete_directory(prefix)

    def prune_directory(self, prefix: str) -> None:
        self._objects.prune_directory(prefix)


def rows(objects: int) -> Iterator[Row]:
    yield Row("space", NAMESPACE, None, None)
    for number in range(1, objects):
        object_id = f"space$table{number}"
        yield Row(object_id, TABLE_ROW, f"{number:08x}_{object_id}", None)


def opened(
    objects: Objects, settings: DirectorySettings = V2, size: int = 0
) -> tuple[Catalog, CountingObjects]:
    counting = CountingObjects(objects)
    store = LanceDirStore(BUCKET, settings, counting)
    if size:
        assert store.manifest is not None
        assert store.manifest.publish(Draft({row.identifier: row for row in rows(size)}))
    return Catalog(store), counting


def bucket(size: int, settings: DirectorySettings = V2) -> tuple[Catalog, CountingObjects]:
    """Give a warm catalog of so many objects in a bucket."""
    catalog, counting = opened(RemoteObjects(MemoryStore()), settings, size)
    catalog.describe_namespace(("space",))
    counting.forget()
    return catalog, counting


def cost(counting: CountingObjects, operation: Callable[[], object]) -> tuple[int, int]:
    counting.forget()
    operation()
    return counting.requests.total(), counting.in_turn


@pytest.mark.parametrize("size", SIZES)
def test_a_strong_read_is_two_requests_at_once(size: int):
    catalog, counting = bucket(size)
    reads: list[Callable[[], object]] = [
        lambda: catalog.table(("space", "table3")),
        lambda: catalog.describe_namespace(("space",)),
        lambda: catalog.list_tables(("space",), limit=10),
        lambda: catalog.list_namespaces(),
        lambda: catalog.list_all_tables(limit=10),
    ]
    for read in reads:
        assert cost(counting, read) == (2, 1)


@pytest.mark.parametrize("size", SIZES)
def test_creating_a_namespace_is_two_requests_in_turn(size: int):
    catalog, counting = bucket(size)
    total, in_turn = cost(counting, lambda: catalog.create_namespace(("new",)))
    assert (total, in_turn) == (2, 2)
    assert counting.requests["put"] == 2


@pytest.mark.parametrize("size", SIZES)
def test_declaring_a_table_puts_its_marker_while_its_row_is_written(size: int):
    catalog, counting = bucket(size)
    total, in_turn = cost(counting, lambda: catalog.declare_table(("space", "new")))
    assert total <= 3
    assert in_turn <= 2


@pytest.mark.parametrize("size", SIZES)
def test_declaring_a_root_table_in_compatibility_mode_takes_one_look_more(size: int):
    catalog, counting = bucket(size, DirectorySettings())
    total, in_turn = cost(counting, lambda: catalog.declare_table(("new",)))
    assert total <= 4
    assert in_turn <= 3


@pytest.mark.parametrize("size", SIZES)
def test_taking_names_away_is_two_looks_and_one_commit_at_most(size: int):
    catalog, counting = bucket(size)
    catalog.create_namespace(("empty",))
    changes: list[Callable[[], object]] = [
        lambda: catalog.deregister_table(("space", "table3")),
        lambda: catalog.rename_table(("space", "table4"), ("space", "renamed")),
        lambda: catalog.drop_namespace(("empty",)),
    ]
    for change in changes:
        total, in_turn = cost(counting, change)
        assert total <= 6
        assert in_turn <= 4


def test_a_refusal_is_believed_only_after_a_fresh_look():
    catalog, counting = bucket(10)
    with pytest.raises(Exception, match="already"):
        catalog.create_namespace(("space",))
    assert counting.requests["put"] == 0
    assert counting.in_turn <= 2


def test_following_the_commit_of_another_writer_reads_only_what_is_new():
    storage = RemoteObjects(MemoryStore())
    catalog, counting = opened(storage, size=10_000)
    other, _ = opened(storage)
    for number in range(3):
        other.create_namespace((f"new{number}",))
        total, _ = cost(counting, lambda n=number: catalog.describe_namespace((f"new{n}",)))  # type: ignore[misc]
        assert total <= 4
        assert counting.requests["list"] == 0


def test_declaring_many_tables_is_one_commit():
    catalog, counting = bucket(1_000)
    names = [("space", f"new{number}") for number in range(100)]
    total, in_turn = cost(counting, lambda: catalog.declare_tables((n, {}) for n in names))
    assert total == 100 + 2
    assert in_turn == 2


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    table = tmp_path_factory.mktemp("cost") / "t.lance"
    lance.write_dataset(pa.table({"id": [1]}), str(table))
    return (table / "_versions" / manifest_name(1)).read_bytes()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tables", [1, 6])
def test_creating_versions_is_three_requests_a_table_and_few_in_turn(
    size: int, tables: int, manifest: bytes
):
    settings = DirectorySettings(dir_listing_enabled=False, table_version_management=True)
    catalog, counting = bucket(size, settings)
    commits = VersionCommits(catalog)

    def staged(name: str, number: int) -> NewVersion:
        table = catalog.table(("space", name))
        files = TableVersions(catalog).files(table)
        path = f"{files.directory}/{staging_name(number, NamingScheme.V2, 'next')}"
        catalog.store.files(table).put(path, renumbered(manifest, number))
        return NewVersion(("space", name), number, files.address(path))

    for number in (1, 2, 3):
        asked = [staged(f"table{one}", number) for one in range(1, tables + 1)]
        total, in_turn = cost(counting, lambda asked=asked: commits.create_versions(asked))  # type: ignore[misc]
        # Its manifest is read while its newest version is looked for, and copied to its place.
        assert total <= 3 * tables + 5
        assert in_turn <= 6


def test_bytes_per_commit_do_not_grow_with_the_catalog():
    written: dict[int, list[int]] = {}
    for size in SIZES:
        catalog, counting = bucket(size)
        written[size] = []
        for number in range(24):
            counting.forget()
            catalog.create_namespace((f"new{number:02d}",))
            written[size].append(counting.bytes_written)
    # Rows of the same millisecond share a page, so a few bytes come and go.
    for size in SIZES[1:]:
        assert sum(written[size]) <= 1.2 * sum(written[SIZES[0]])
    assert max(written[SIZES[-1]]) < 25_000


def test_data_files_stay_few_over_many_commits(tmp_path: Path):
    catalog, _ = opened(LocalObjects(str(tmp_path)), size=10)
    store = catalog.store
    assert isinstance(store, LanceDirStore)
    assert store.manifest is not None
    for number in range(300):
        catalog.create_namespace((f"new{number}",))
        assert len(store.manifest.head.fragments) <= 8


@pytest.mark.parametrize("parent", [[], ["a"], ["a", "b"], ["a", "bc"], ["empty"]])
def test_a_first_listing_does_not_load_the_catalog(tmp_path: Path, parent: list[str]) -> None:
    properties = {"root": str(tmp_path), "dir_listing_enabled": "false"}
    writer = DirectoryNamespace(**properties)
    many = [["a"], ["a", "b"], ["a", "bc"], ["empty"], ["äö"]]
    writer.create_namespaces([*many, *(["a", "b", f"n{number}"] for number in range(20))])
    writer.declare_tables([["a", "b", f"t{number}"] for number in range(20)])
    writer.declare_tables([["a", "bc", "t"], ["a", "t"], ["root"]])
    writer.deregister_table({"id": ["a", "b", "t3"]})
    writer.drop_namespace({"id": ["a", "b", "n3"]})

    for list_children in ("list_namespaces", "list_tables"):
        reader = DirectoryNamespace(**properties)
        first = getattr(reader, list_children)({"id": parent})
        manifest = reader._store.manifest
        assert manifest is not None
        assert manifest._state is None
        again = getattr(writer, list_children)({"id": parent})
        assert first == again
