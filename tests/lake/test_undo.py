"""Commits taken back, and what cannot be."""

from pathlib import Path

import lance_namespace
import pyarrow as pa
import pytest

import lakeroot
from lakeroot.lake import Lake
from lakeroot.lake.lake import what

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(params=["false", "true"], ids=["files", "managed"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    return lakeroot.open(str(tmp_path / "lake"), table_version_management=request.param)


@pytest.fixture
def managed(tmp_path: Path) -> Lake:
    return lakeroot.open(str(tmp_path / "lake"), table_version_management="true")


def last(lake: Lake) -> int:
    return lake.history(1)[0].version


def state(lake: Lake) -> dict[str, object]:
    return {
        "namespaces": {name: lake.properties(name) for name in lake.namespaces()},
        "tables": {name: lake[name].to_arrow().to_pylist() for name in lake.tables()},
    }


def test_a_new_namespace_goes_and_comes_back(lake: Lake) -> None:
    lake.create_namespace("air", {"owner": "ada"})
    assert lake.undo(last(lake)) == ["drop namespace air"]
    assert lake.namespaces() == []
    assert lake.undo(lake.history(1)[0]) == ["create namespace air"]
    assert lake.properties("air") == {"owner": "ada"}


def test_a_dropped_namespace_comes_back_with_its_properties(lake: Lake) -> None:
    lake.create_namespace("air", {"owner": "ada"})
    lake.namespace.drop_namespace(lance_namespace.DropNamespaceRequest(id=["air"]))
    lake.undo(last(lake))
    assert lake.properties("air") == {"owner": "ada"}


def test_a_rename_is_taken_back(lake: Lake) -> None:
    lake.create_namespace("air")
    lake.create_table("air.flights", ROWS)
    before = state(lake)
    lake.rename_table("air.flights", "air.departures")
    assert lake.undo(last(lake)) == ["rename air.departures to air.flights"]
    assert state(lake) == before
    assert lake.check() == []


def test_a_deregistered_table_comes_back(lake: Lake) -> None:
    lake.create_namespace("air")
    lake.create_table("air.flights", ROWS)
    lake["air.flights"].append(ROWS)
    before = state(lake)
    lake.namespace.deregister_table(lance_namespace.DeregisterTableRequest(id=["air", "flights"]))
    assert lake.tables() == []
    lake.undo(last(lake))
    assert state(lake) == before
    lake["air.flights"].append(ROWS)
    assert lake["air.flights"].count() == 9
    assert lake.check() == []


def test_undrop_gives_a_name_back(lake: Lake) -> None:
    lake.create_table("flights", ROWS)
    lake.namespace.deregister_table(lance_namespace.DeregisterTableRequest(id=["flights"]))
    lake.create_namespace("later")
    assert lake.undrop("flights").count() == 3
    assert lake.tables() == ["flights"]
    with pytest.raises(lance_namespace.TableAlreadyExistsError):
        lake.undrop("flights")
    with pytest.raises(lance_namespace.TableNotFoundError):
        lake.undrop("never")
    assert lake.check() == []


def test_properties_go_back(lake: Lake) -> None:
    lake.create_namespace("air", {"owner": "ada"})
    overwrite = lance_namespace.CreateNamespaceRequest(
        id=["air"], properties={"owner": "bob"}, mode="Overwrite"
    )
    lake.namespace.create_namespace(overwrite)
    assert lake.properties("air") == {"owner": "bob"}
    lake.undo(last(lake))
    assert lake.properties("air") == {"owner": "ada"}


def test_a_dropped_table_cannot_come_back(lake: Lake) -> None:
    lake.create_table("flights", ROWS)
    lake.drop_table("flights", now=True)
    commit = last(lake)
    for attempt in (lambda: lake.undo(commit), lambda: lake.undrop("flights")):
        with pytest.raises(lance_namespace.InvalidTableStateError, match="data was deleted"):
            attempt()
    assert last(lake) == commit


def test_what_has_changed_since_is_left_alone(lake: Lake) -> None:
    lake.create_namespace("air", {"owner": "ada"})
    commit = last(lake)
    overwrite = lance_namespace.CreateNamespaceRequest(
        id=["air"], properties={"owner": "bob"}, mode="Overwrite"
    )
    lake.namespace.create_namespace(overwrite)
    with pytest.raises(
        lance_namespace.ConcurrentModificationError, match="since then air has changed"
    ):
        lake.undo(commit)
    assert lake.properties("air") == {"owner": "bob"}


def test_a_namespace_that_is_used_now_is_not_undone(lake: Lake) -> None:
    lake.create_namespace("air")
    commit = last(lake)
    lake.create_table("air.flights", ROWS)
    with pytest.raises(lance_namespace.NamespaceNotEmptyError):
        lake.undo(commit)
    assert lake["air.flights"].count() == 3


@pytest.mark.parametrize("commit", [0, -1, 999])
def test_a_commit_that_never_was_is_refused(lake: Lake, commit: int) -> None:
    lake.create_namespace("air")
    with pytest.raises(lance_namespace.InvalidInputError, match="no commit"):
        lake.undo(commit)


def test_a_version_of_a_table_is_restored(managed: Lake) -> None:
    managed.create_table("flights", ROWS)
    managed["flights"].append(ROWS)
    commit = last(managed)
    assert managed.undo(commit) == ["restore flights to version 1"]
    assert managed["flights"].count() == 3
    assert managed["flights"].version == 3
    assert managed.history(1)[0].message == f"Undo version {commit}"
    with pytest.raises(
        lance_namespace.ConcurrentModificationError, match="since then flights has changed"
    ):
        managed.undo(commit)
    managed.undo(last(managed))
    assert managed["flights"].count() == 6


def test_a_commit_over_several_tables_is_taken_back_in_one(managed: Lake) -> None:
    managed.create_table("a", ROWS)
    managed.create_table("b", ROWS)
    before = state(managed)
    with managed.transaction("both and a new one") as tx:
        tx.append(["a"], ROWS)
        tx.delete(["b"], "id = 1")
        tx.create(["c"], ROWS)
    done = managed.undo(last(managed))
    assert sorted(done) == [
        "restore a to version 1",
        "restore b to version 1",
        "take the name away (the data stays) of c",
    ]
    assert state(managed) == before
    entry = managed.history(1)[0]
    assert dict(entry.versions) == {("a",): 3, ("b",): 3}
    assert entry.removed == (("c",),)
    assert managed.undrop("c").count() == 3
    assert managed.check() == []


def test_the_first_rows_of_a_table_are_undone_with_its_creation(managed: Lake) -> None:
    managed.create_table("flights", ROWS)
    created = next(e.version for e in managed.history() if ("flights",) in e.created)
    with pytest.raises(
        lance_namespace.InvalidTableStateError, match="before it flights had no rows"
    ):
        managed.undo(last(managed))
    managed.undo(created)
    assert managed.tables() == []
    assert managed.undrop("flights").count() == 3


def test_a_dry_run_changes_nothing(lake: Lake) -> None:
    lake.create_namespace("air")
    commit = last(lake)
    assert lake.undo(commit, dry_run=True) == ["drop namespace air"]
    assert last(lake) == commit
    assert lake.namespaces() == ["air"]
    assert what(lake.history(1)[0]) == "+air"


def test_trash_lists_what_can_come_back(lake: Lake) -> None:
    for name in ("kept", "gone", "dropped"):
        lake.create_table(name, ROWS)
    lake.namespace.deregister_table(lance_namespace.DeregisterTableRequest(id=["gone"]))
    lake.drop_table("dropped", now=True)
    found = lake.namespace.trash()  # type: ignore[attr-defined]
    assert [one.table.identifier for one in found] == [("gone",)]
    lake.undrop("gone")
    assert lake.namespace.trash() == []  # type: ignore[attr-defined]
