"""V1, V2 and compatibility mode on one directory."""

import time
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lakeroot
from lakeroot.model.errors import InvalidInputError, TableAlreadyExistsError
from lakeroot.model.progress import listening
from tests.asking import ROWS, Lake, refused
from tests.lance_dir.conftest import Opener, files


def test_reading_never_makes_the_root(opened: Opener, root: Path) -> None:
    for mode in ("v1", "v2", "compat"):
        lake = opened(mode)
        assert lake.tables() == lake.namespaces() == []
        assert not lake.table_exists("t")
        assert lake.list_all_tables().tables == []
        assert lake.describe_namespace() == {}
    assert not root.exists()


@pytest.mark.parametrize("mode", ["v1", "v2", "compat"])
def test_a_root_that_is_a_file_is_no_empty_catalog(opened: Opener, root: Path, mode: str) -> None:
    root.write_text("not a catalog")
    with refused(13) as first:
        opened(mode)
    with refused(13) as second:
        lakeroot.open(f"file://{root}").tables()
    for error in (first.value, second.value):
        assert "is a file, not a directory" in str(error)
    assert root.read_text() == "not a catalog"


@pytest.mark.parametrize("mode", ["v1", "v2", "compat"])
def test_a_refused_write_never_makes_the_root(opened: Opener, root: Path, mode: str) -> None:
    lake = opened(mode)
    for refuse in (
        lambda: lake.declare_table("nowhere", "t"),
        lambda: lake.create_table("nowhere", "t"),
        lambda: lake.create_namespace("nowhere", "a"),
        lambda: lake.declare_table("a/b"),
        lambda: lake.drop_table("t"),
        lambda: lake.drop_namespace("a"),
        lambda: lake.register_table("t", location="t.lance"),
        lambda: lake.rename_table("t", to="u"),
    ):
        with refused(1, 4, 13):
            refuse()
    assert not root.exists()


def test_a_refused_write_changes_nothing_on_disk(compat: Lake, root: Path) -> None:
    compat.create_namespace("a")
    compat.create_table("a", "t")
    compat.create_table("t")
    before = files(root)

    for refuse in (
        lambda: compat.declare_table("t"),
        lambda: compat.declare_table("a", "t"),
        lambda: compat.create_table("t"),
        lambda: compat.create_namespace("a"),
        lambda: compat.declare_table("a"),
        lambda: compat.drop_namespace("a"),
        lambda: compat.rename_table("t", to="a"),
        lambda: compat.rename_table("t", to="t", into=["a"]),
        lambda: compat.register_table("u", location="t.lance"),
        lambda: compat.register_table("u", location="nothing.lance"),
        lambda: compat.declare_table("u", location="t.lance"),
        lambda: compat.drop_table("u"),
        lambda: compat.deregister_table("u"),
    ):
        with refused(2, 3, 4, 5, 13):
            refuse()
    assert files(root) == before


def test_root_tables_are_where_v1_clients_look(compat: Lake, v1: Lake, root: Path) -> None:
    compat.create_table("t")
    compat.create_namespace("a")
    compat.create_table("a", "t")

    assert v1.tables() == ["t"]
    assert (root / "t.lance" / "_versions").is_dir()
    (child,) = root.glob("*_a$t")
    assert len(child.name.partition("_")[0]) == 8


def test_a_table_of_v1_is_found_beside_the_manifest(compat: Lake, v1: Lake, v2: Lake) -> None:
    v1.create_table("old")
    compat.create_table("new")

    assert compat.tables() == ["new", "old"]
    assert compat.list_all_tables().tables == ["new", "old"]
    assert compat.table_exists("old")
    assert v1.tables() == ["new", "old"]
    assert v2.tables() == ["new"]


def test_a_table_of_v1_can_be_dropped_beside_the_manifest(
    compat: Lake, v1: Lake, root: Path
) -> None:
    compat.create_namespace("a")
    v1.create_table("t")

    dropped = compat.drop_table("t")

    assert dropped.location == str(root / "t.lance")
    assert not (root / "t.lance").exists()
    assert compat.tables() == v1.tables() == []


def test_a_table_of_v1_can_be_deregistered_beside_the_manifest(
    compat: Lake, v1: Lake, root: Path
) -> None:
    compat.create_namespace("a")
    v1.create_table("t")

    compat.deregister_table("t")

    assert compat.tables() == v1.tables() == []
    assert (root / "t.lance" / ".lance-deregistered").is_file()
    compat.register_table("t", location="t.lance")
    assert compat.tables() == v1.tables() == ["t"]


def test_a_table_of_v1_can_be_renamed_beside_the_manifest(compat: Lake, v1: Lake) -> None:
    compat.create_namespace("a")
    v1.create_table("t")

    compat.rename_table("t", to="u", into=["a"])

    assert compat.tables() == v1.tables() == []
    assert compat.tables("a") == ["u"]
    assert lance.dataset(compat.client.catalog.store.uri("t.lance")).count_rows() == 3


def test_declaring_over_a_table_of_v1_does_not_touch_it(compat: Lake, v1: Lake, root: Path) -> None:
    v1.declare_table("declared")
    v1.create_table("written")
    compat.create_namespace("a")
    before = files(root)

    for name in ("declared", "written"):
        with refused(5):
            compat.declare_table(name)
    assert files(root) == before
    assert v1.tables() == ["declared", "written"]


def test_a_bulk_that_is_refused_leaves_a_declared_table_of_v1(
    compat: Lake, v1: Lake, root: Path
) -> None:
    v1.declare_table("t")
    with pytest.raises(TableAlreadyExistsError):
        compat.client.catalog.declare_tables([(("s",), {}), (("t",), {}), (("u",), {})])
    assert v1.tables() == ["t"]
    assert not (root / "s.lance").exists()
    assert not (root / "u.lance").exists()


def test_what_was_seen_for_a_refused_bulk_is_not_believed_later(compat: Lake, v1: Lake) -> None:
    compat.declare_table("b")
    with pytest.raises(TableAlreadyExistsError):
        compat.client.catalog.declare_tables([(("a",), {}), (("b",), {}), (("c",), {})])
    with pytest.raises(InvalidInputError):
        compat.client.catalog.declare_tables([(("d",), {}), (("e/f",), {})])
    for name in ("c", "d"):
        v1.create_table(name)
        assert compat.table_exists(name)


def test_deregistering_hides_a_table_from_every_client(
    compat: Lake, v1: Lake, v2: Lake, root: Path
) -> None:
    compat.create_table("t")
    compat.deregister_table("t")

    for client in (compat, v1, v2):
        assert client.tables() == []
        assert not client.table_exists("t")
    assert lance.dataset(str(root / "t.lance")).count_rows() == 3


def test_renaming_hides_the_old_name_from_every_client(compat: Lake, v1: Lake, v2: Lake) -> None:
    compat.create_table("t")
    compat.rename_table("t", to="u")

    assert v1.tables() == []
    assert compat.tables() == v2.tables() == ["u"]
    compat.rename_table("u", to="t")
    assert v1.tables() == compat.tables() == v2.tables() == ["t"]


def test_a_refused_rename_does_not_show_the_old_name_again(compat: Lake, v1: Lake) -> None:
    compat.create_table("t")
    compat.rename_table("t", to="u")
    compat.declare_table("taken")

    with refused(5):
        compat.rename_table("u", to="taken")
    assert v1.tables() == ["taken"]
    assert compat.tables() == ["taken", "u"]


def test_registering_under_another_name_does_not_show_the_directorys_own(
    compat: Lake, v1: Lake
) -> None:
    compat.create_table("t")
    compat.deregister_table("t")
    compat.register_table("u", location="t.lance")

    assert compat.tables() == ["u"]
    assert v1.tables() == []


def test_a_new_table_never_lands_in_anothers_directory(compat: Lake, root: Path) -> None:
    compat.create_table("t")
    compat.rename_table("t", to="u")
    compat.create_table("t", rows=ROWS.slice(0, 1))

    locations = [str(compat.client.catalog.table((name,)).location) for name in ("t", "u")]
    assert locations[1] == "t.lance"
    assert locations[0] != "t.lance"
    compat.drop_table("t")
    assert lance.dataset(str(root / "t.lance")).count_rows() == 3


def test_v1_drops_a_deregistered_table(v1: Lake, root: Path) -> None:
    v1.create_table("t")
    v1.deregister_table("t")
    v1.drop_table("t")

    assert not (root / "t.lance").exists()


def test_v1_does_not_create_over_a_deregistered_table(v1: Lake, root: Path) -> None:
    v1.create_table("t")
    v1.deregister_table("t")

    with refused(5) as error:
        v1.create_table("t", mode="Overwrite")
    assert "register" in str(error.value).lower()
    v1.register_table("t", location="t.lance")
    assert lance.dataset(str(root / "t.lance")).count_rows() == 3


@pytest.mark.parametrize("mode", ["v1", "compat"])
def test_only_directories_with_files_are_tables(opened: Opener, root: Path, mode: str) -> None:
    root.mkdir()
    (root / "file.lance").write_bytes(b"a plain file")
    (root / "empty.lance").mkdir()
    (root / "hollow.lance" / "data" / "deep").mkdir(parents=True)
    (root / ".lance").mkdir()
    (root / "other").mkdir()
    (root / "other" / "x").write_bytes(b"x")
    (root / "real.lance").mkdir()
    (root / "real.lance" / "x").write_bytes(b"x")
    lake = opened(mode)

    assert lake.tables() == ["real"]
    assert lake.list_all_tables().tables == ["real"]
    assert lake.list_tables(include_declared=False).tables == []
    for name in ("file", "empty", "hollow", "other", ""):
        with refused(4, 13):
            lake.drop_table(name)
    assert (root / "file.lance").read_bytes() == b"a plain file"


def test_a_table_can_be_created_in_an_empty_directory(compat: Lake, root: Path) -> None:
    (root / "t.lance").mkdir(parents=True)

    compat.create_table("t")
    assert compat.tables() == ["t"]


@pytest.mark.parametrize("mode", ["v1", "compat"])
def test_a_plain_file_in_the_way_is_told_and_left_alone(
    opened: Opener, root: Path, mode: str
) -> None:
    root.mkdir()
    (root / "t.lance").write_bytes(b"a plain file")
    lake = opened(mode)

    for call in (lake.declare_table, lake.create_table):
        with refused(5, 13):
            call("t")
    assert (root / "t.lance").read_bytes() == b"a plain file"
    assert lake.tables() == []


def test_a_listing_sees_changes_of_directories_it_has_seen(compat: Lake, v1: Lake) -> None:
    # What is remembered of a directory must not outlive a change, however the clock ticks.
    v1.create_table("t")
    time.sleep(2.1)
    assert compat.tables() == ["t"]
    v1.deregister_table("t")
    assert compat.tables() == []
    v1.register_table("t", location="t.lance")
    assert compat.tables() == ["t"]


def test_a_catalog_that_was_deleted_is_empty(compat: Lake, v2: Lake, root: Path) -> None:
    import shutil

    compat.create_namespace("a")
    assert v2.namespaces() == ["a"]
    shutil.rmtree(root)

    for client in (compat, v2):
        assert client.namespaces() == []
        assert not client.namespace_exists("a")
    compat.create_namespace("b")
    assert v2.namespaces() == ["b"]


def test_a_child_table_never_looks_like_a_table_of_v1(compat: Lake, v1: Lake) -> None:
    compat.create_namespace("a")
    compat.create_table("a", "x.lance")

    assert v1.tables() == []
    assert compat.tables("a") == ["x.lance"]
    compat.deregister_table("a", "x.lance")
    assert v1.tables() == compat.tables() == []


def test_migration_gives_every_table_a_row(compat: Lake, v1: Lake, v2: Lake, root: Path) -> None:
    for name in ("a", "b", "c"):
        v1.create_table(name)
    v1.declare_table("declared")
    v1.create_table("gone")
    v1.deregister_table("gone")
    before = files(root)

    trial = compat.client.migrate(dry_run=True)
    assert trial.migrated == (("a",), ("b",), ("c",))
    assert trial.declared == (("declared",),)
    assert trial.dry_run
    assert files(root) == before

    done = compat.client.migrate()
    assert done.migrated == trial.migrated
    assert v2.tables() == ["a", "b", "c"]
    assert compat.tables() == v1.tables() == ["a", "b", "c", "declared"]
    assert len(compat.client.history()) == 1
    assert compat.client.migrate().migrated == ()
    assert len(compat.client.history()) == 1


def test_migration_leaves_tables_alone_whose_names_no_row_can_hold(
    compat: Lake, root: Path
) -> None:
    for name in ("a", "x$y"):
        lance.write_dataset(pa.table({"id": [1]}), str(root / f"{name}.lance"))

    done = compat.client.migrate()
    assert done.migrated == (("a",),)
    assert done.unnameable == (("x$y",),)
    assert compat.tables() == ["a", "x$y"]
    [left] = compat.client.check()
    assert left.code == "directory-unregistered"
    assert left.fix == "Register x$y.lance under another name"


def test_migration_tells_how_far_it_is(compat: Lake, v1: Lake) -> None:
    for name in ("a", "b"):
        v1.create_table(name)
    heard: list[tuple[str, int, int]] = []

    with listening(lambda *how_far: heard.append(how_far)):
        compat.client.migrate()
    assert heard == [("Looking at tables", done, 2) for done in range(3)]


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_migration_needs_both_schemes(opened: Opener, mode: str) -> None:
    with refused(0):
        opened(mode).client.migrate()
