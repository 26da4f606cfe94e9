"""A root table that is dropped and made again: nobody who knew the old one touches the new one."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import DeclareTableRequest

from lakeroot import DirectoryNamespace
from lakeroot.lake.table import ipc
from lakeroot.storage.lance_dir import markers
from tests.s3 import S3
from tests.versions.conftest import Open

OLD = pa.table({"id": [1, 2], "name": ["ann", "bob"]})
NEW = pa.table({"id": [7, 8], "name": ["xi", "yu"]})
ID = ["t"]

REFUSED = (
    lance_namespace.ConcurrentModificationError,
    lance_namespace.TableNotFoundError,
    OSError,
)

Change = Callable[[Any, Any], object]
CHANGES: dict[str, Change] = {
    "append": lambda catalog, rows: catalog.insert_into_table({"id": ID}, rows),
    "overwrite": lambda catalog, rows: catalog.insert_into_table(
        {"id": ID, "mode": "overwrite"}, rows
    ),
    "merge": lambda catalog, rows: catalog.merge_insert_into_table(
        {"id": ID, "on": ["id"], "when_not_matched_insert_all": True}, rows
    ),
    "append by Lance": lambda catalog, rows: lance.write_dataset(
        rows, lance.dataset(namespace_client=catalog, table_id=ID), mode="append"
    ),
}


def rows_after(act: Callable[[], object]) -> pa.RecordBatchReader:
    """Rows that come after something else has happened."""

    def batches() -> Iterator[pa.RecordBatch]:
        act()
        yield from OLD.to_batches()

    return pa.RecordBatchReader.from_batches(OLD.schema, batches())


def make_again(catalog: DirectoryNamespace) -> None:
    catalog.drop_table({"id": ID})
    catalog.create_table({"id": ID}, ipc(NEW))


def found(catalog: DirectoryNamespace) -> pa.Table:
    return lance.dataset(namespace_client=catalog, table_id=ID).to_table()


def make_marks_old(root: Path) -> None:
    then = time.time() - timedelta(days=8).total_seconds()
    for path in root.glob("t.lance/**/*"):
        os.utime(path, (then, then))


@pytest.fixture(params=["on a disk", "in a bucket"])
def catalog(request: pytest.FixtureRequest, open_lake: Open) -> DirectoryNamespace:
    if request.param == "on a disk":
        opened = open_lake(table_version_management="true")
    else:
        s3: S3 = request.getfixturevalue("s3")
        opened = DirectoryNamespace(
            root=s3.new_root(), table_version_management="true", **s3.properties
        )
    opened.create_table({"id": ID}, ipc(OLD))
    return opened


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_the_old_table_does_not_reach_the_new_one(
    catalog: DirectoryNamespace, change: str
) -> None:
    is_made = threading.Event()

    def make() -> None:
        make_again(catalog)
        is_made.set()

    with pytest.raises(REFUSED):
        CHANGES[change](catalog, rows_after(make))

    # A merge reads the table meanwhile, and fails while the rows are still waited for.
    assert is_made.wait(60)
    assert found(catalog) == NEW


def test_a_change_does_not_bring_back_a_table_that_is_dropped(catalog: DirectoryNamespace) -> None:
    with pytest.raises(lance_namespace.TableNotFoundError):
        CHANGES["append"](catalog, rows_after(lambda: catalog.drop_table({"id": ID})))

    assert catalog.list_tables({"id": []}).tables == []
    with pytest.raises(lance_namespace.TableNotFoundError):
        catalog.describe_table({"id": ID})


def test_who_has_the_old_table_open_cannot_append_to_the_new_one(
    catalog: DirectoryNamespace,
) -> None:
    opened = lance.dataset(namespace_client=catalog, table_id=ID)
    make_again(catalog)

    with pytest.raises(OSError, match="unknown"):
        lance.write_dataset(OLD, opened, mode="append")

    assert found(catalog) == NEW


def test_what_a_drop_leaves_is_not_a_table(catalog: DirectoryNamespace) -> None:
    catalog.drop_table({"id": ID})

    with pytest.raises(lance_namespace.InvalidInputError, match="no table at"):
        catalog.register_table({"id": ID, "location": "t.lance"})
    with pytest.raises(lance_namespace.InvalidTableStateError, match="cannot be brought back"):
        catalog.undrop(ID)
    assert catalog.check() == []


def test_what_a_drop_and_late_writers_leave_goes_with_the_garbage(
    managed: DirectoryNamespace, root: Path
) -> None:
    managed.create_table({"id": ID}, ipc(OLD))
    with pytest.raises(lance_namespace.TableNotFoundError):
        CHANGES["append"](managed, rows_after(lambda: managed.drop_table({"id": ID})))
    assert any((root / "t.lance" / "data").iterdir())
    assert not managed.gc().garbage
    make_marks_old(root)

    assert [one.path for one in managed.gc().garbage] == ["t.lance"]

    assert not (root / "t.lance").exists()
    managed.create_table({"id": ID}, ipc(NEW))
    assert (root / "t.lance").exists()


def test_a_deregistered_table_stays_whatever_its_age(
    managed: DirectoryNamespace, root: Path
) -> None:
    managed.create_table({"id": ID}, ipc(OLD))
    managed.deregister_table({"id": ID})
    make_marks_old(root)

    managed.gc()

    managed.register_table({"id": ID, "location": "t.lance"})
    assert found(managed) == OLD


@pytest.mark.parametrize("takes_away", ["drop", "deregister"])
def test_a_directory_that_the_caller_gives_is_refused_while_it_is_a_dropped_tables(
    managed: DirectoryNamespace, root: Path, takes_away: str
) -> None:
    location = str(root / "t.lance")
    batch = {"operations": [{"declare_table": {"id": ID, "location": location}}]}
    managed.declare_table({"id": ID, "location": location})
    managed.create_table({"id": ID}, ipc(OLD))
    (managed.drop_table if takes_away == "drop" else managed.deregister_table)({"id": ID})

    (one,) = managed.declare_each([DeclareTableRequest(id=ID, location=location)])
    assert isinstance(one, lance_namespace.InvalidInputError)
    with pytest.raises(lance_namespace.InvalidInputError, match="until `gc` removes its mark"):
        managed.batch_commit_tables(batch)
    with pytest.raises(lance_namespace.InvalidInputError, match="another directory, or give none"):
        managed.declare_table({"id": ID, "location": location})

    assert managed.declare_table({"id": ID}).location != location
    with pytest.raises(lance_namespace.TableAlreadyExistsError):
        managed.declare_table({"id": ID, "location": location})


DECLARATIONS: dict[str, Callable[[DirectoryNamespace], object]] = {
    "one": lambda lake: lake.declare_table({"id": ID}),
    "many": lambda lake: lake.declare_tables([ID, ["u"]]),
    "each": lambda lake: _told(lake.declare_each([DeclareTableRequest(id=ID)])),
    "batch": lambda lake: lake.batch_commit_tables({"operations": [{"declare_table": {"id": ID}}]}),
    "batch with another's directory": lambda lake: lake.batch_commit_tables(
        {
            "operations": [
                {"declare_table": {"id": ["u"], "location": "elsewhere"}},
                {"declare_table": {"id": ID}},
            ]
        }
    ),
}


def _told(outcomes: list[Any]) -> None:
    for one in outcomes:
        if isinstance(one, Exception):
            raise one


def lose_places(
    lake: DirectoryNamespace, other: DirectoryNamespace, times: int, patch: pytest.MonkeyPatch
) -> None:
    """Let somebody make a table and take it away in each directory that is chosen, some times."""
    place = lake.catalog.store.place
    left = iter(range(times))

    def place_and_lose(identifier: tuple[str, ...]) -> str:
        chosen: str = place(identifier)
        if identifier == ("t",) and next(left, None) is not None:
            other.create_table({"id": ID}, ipc(OLD))
            other.deregister_table({"id": ID})
            return "t.lance"
        return chosen

    patch.setattr(lake.catalog.store, "place", place_and_lose)


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_a_declaration_whose_directory_is_lost_gets_another(
    lake: DirectoryNamespace, open_lake: Open, monkeypatch: pytest.MonkeyPatch, declare: str
) -> None:
    lose_places(lake, open_lake(), 1, monkeypatch)

    DECLARATIONS[declare](lake)

    location = lake.describe_table({"id": ID}).location
    assert location is not None
    assert location.endswith("_t")


@pytest.mark.parametrize("declare", ["one", "many", "each", "batch"])
def test_a_declaration_that_always_loses_its_directory_is_a_conflict(
    lake: DirectoryNamespace, open_lake: Open, monkeypatch: pytest.MonkeyPatch, declare: str
) -> None:
    lose_places(lake, open_lake(), 9, monkeypatch)

    with pytest.raises(lance_namespace.ConcurrentModificationError, match="Try again"):
        DECLARATIONS[declare](lake)

    assert lake.list_tables({"id": []}).tables == []


def test_a_table_is_not_declared_where_one_of_its_name_is_being_deleted(
    lake: DirectoryNamespace, open_lake: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory was chosen before the other was made, and dropped, by somebody else."""
    other = open_lake()
    lake.create_namespace({"id": ["n"]})
    deletes, may_delete = threading.Event(), threading.Event()
    delete_table, place = markers.delete_table, lake.catalog.store.place

    def wait_and_delete(*given: Any, **named: Any) -> None:
        deletes.set()
        may_delete.wait()
        delete_table(*given, **named)

    monkeypatch.setattr(markers, "delete_table", wait_and_delete)
    dropping = threading.Thread(target=lambda: other.drop_table({"id": ID}))

    def choose_and_wait(identifier: tuple[str, ...]) -> str:
        chosen: str = place(identifier)
        monkeypatch.setattr(lake.catalog.store, "place", place)
        other.create_table({"id": ID}, ipc(OLD))
        dropping.start()
        deletes.wait()
        return chosen

    monkeypatch.setattr(lake.catalog.store, "place", choose_and_wait)
    try:
        declared = lake.declare_table({"id": ID}).location
        lake.create_table({"id": ID}, ipc(NEW))
    finally:
        may_delete.set()
        dropping.join()

    assert declared is not None
    assert declared.endswith("_t")
    assert found(lake) == NEW
