"""What others do between the look at a table in a bucket and the commit of its next version."""

from collections.abc import Callable

import lance
import pytest
from benchmarks.manifests import renumbered
from obstore.store import MemoryStore

from lakeroot.catalog import Catalog
from lakeroot.catalog.staged_versions import NewVersion
from lakeroot.catalog.version_commits import VersionCommits
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.errors import (
    ConcurrentModificationError,
    LakerootError,
    ServiceUnavailableError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
)
from lakeroot.objects import Root
from lakeroot.objects.remote import RemoteObjects
from lakeroot.storage.lance_dir import DirectorySettings, LanceDirStore
from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name
from tests.versions.staging import ROWS

BUCKET = Root("s3://nowhere", is_local=False)
SETTINGS = DirectorySettings(dir_listing_enabled=False, table_version_management=True)
NAMES = ("t", "u")

Act = Callable[[Catalog], object]


class Interrupted(RemoteObjects):
    """A bucket in which somebody does something right before the next staged manifest is read."""

    act: Callable[[], object] | None = None

    def get(self, path: str) -> bytes | None:
        if self.act is not None and ".manifest-" in path:
            act, self.act = self.act, None
            act()
        return super().get(path)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Manifests of versions 1 and 2, and a third that tells itself from them."""
    table = tmp_path_factory.mktemp("meanwhile") / "t"
    for mode in ("create", "append", "append"):
        lance.write_dataset(ROWS, str(table), mode=mode)
    return [(table / "_versions" / manifest_name(n)).read_bytes() for n in (1, 2, 3)]


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


def opened(objects: RemoteObjects) -> Catalog:
    return Catalog(LanceDirStore(BUCKET, SETTINGS, objects))


def staged(catalog: Catalog, name: str, number: int, content: bytes, by: str) -> NewVersion:
    table = catalog.table((name,))
    files = TableVersions(catalog).files(table)
    path = f"{files.directory}/{staging_name(number, NamingScheme.V2, by)}"
    catalog.store.files(table).put(path, renumbered(content, number))
    return NewVersion((name,), number, files.address(path))


def put_directly(catalog: Catalog, content: bytes) -> None:
    table = catalog.table(("t",))
    files = TableVersions(catalog).files(table)
    path = f"{files.directory}/{manifest_name(2)}"
    catalog.store.files(table).put(path, renumbered(content, 2))


def numbers(catalog: Catalog, name: str) -> list[int]:
    return [one.version for one in TableVersions(catalog).list_versions((name,))[0]]


def drop(catalog: Catalog) -> None:
    catalog.drop_table(("t",))


def make_again(catalog: Catalog) -> None:
    catalog.drop_table(("t",))
    catalog.declare_table(("t",))


def fail(catalog: Catalog) -> None:
    raise ServiceUnavailableError("The bucket does not answer")


@pytest.mark.parametrize("when", ["as it looks", "after it has looked"])
@pytest.mark.parametrize("names", [NAMES[:1], NAMES], ids=["one table", "a batch"])
@pytest.mark.parametrize(
    ("act", "error", "left"),
    [
        ("commit", TableVersionAlreadyExistsError, [1, 2]),
        ("put directly", TableVersionAlreadyExistsError, [1, 2]),
        (drop, TableNotFoundError, None),
        (make_again, ConcurrentModificationError, []),
        (fail, ServiceUnavailableError, [1]),
    ],
)
def test_a_version_gives_way_to_what_others_do_meanwhile(
    memory: MemoryStore,
    contents: list[bytes],
    act: Act | str,
    error: type[LakerootError],
    left: list[int] | None,
    names: tuple[str, ...],
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = Interrupted(memory)
    ours, theirs = opened(objects), opened(RemoteObjects(memory))
    for name in NAMES:
        ours.declare_table((name,))
    first = [staged(ours, name, 1, contents[0], "first") for name in NAMES]
    VersionCommits(ours).create_versions(first)
    asked = [staged(ours, name, 2, contents[1], "ours") for name in names]

    def happens() -> None:
        if act == "commit":
            VersionCommits(theirs).create_versions([staged(theirs, "t", 2, contents[2], "theirs")])
        elif act == "put directly":
            put_directly(theirs, contents[2])
        elif not isinstance(act, str):
            act(theirs)

    if when == "as it looks":
        objects.act = happens
    else:
        commit = ours.commit

        def after(*changes: object, **more: object) -> object:
            monkeypatch.setattr(ours, "commit", commit)
            happens()
            return commit(*changes, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(ours, "commit", after)
    with pytest.raises(error):
        VersionCommits(ours).create_versions(asked)

    seen = opened(RemoteObjects(memory))
    assert numbers(seen, "u") == [1]
    if left is None:
        with pytest.raises(TableNotFoundError):
            numbers(seen, "t")
    else:
        assert numbers(seen, "t") == left
    if left == [1, 2]:
        table = seen.table(("t",))
        path = f"_versions/{manifest_name(2)}"
        assert seen.store.files(table).get(path) == renumbered(contents[2], 2)


def test_a_version_is_put_where_files_decide_by_then(
    memory: MemoryStore, contents: list[bytes]
) -> None:
    objects = Interrupted(memory)
    ours, theirs = opened(objects), opened(RemoteObjects(memory))
    ours.declare_table(("t",))
    VersionCommits(ours).create_versions([staged(ours, "t", 1, contents[0], "first")])
    asked = staged(ours, "t", 2, contents[1], "ours")
    objects.act = TableVersions(theirs).disable

    VersionCommits(ours).create_versions([asked])

    assert not ours.store.keeps_versions
    assert numbers(ours, "t") == [1, 2]
