"""The metastore catalog does what the memory store, which is the specification, does."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeroot.model.commits import (
    AlterNamespace,
    AlterTable,
    Change,
    Commit,
    CreateNamespace,
    CreateTableVersions,
    DeclareTable,
    DeleteTableVersions,
    DeregisterTable,
    DropNamespace,
    DropTable,
    PointTableVersions,
    RenameTable,
    Unchanged,
)
from lakeroot.model.errors import LakerootError, UnsupportedOperationError
from lakeroot.model.records import Table, TableVersion
from lakeroot.objects import parse_root
from lakeroot.storage.deltacat import DeltaCatStore
from lakeroot.storage.memory import MemoryStore
from tests.metastore.memory import MemoryObjects

names = st.sampled_from(["a", "b", "c"])
namespaces = st.tuples(names)
tables = st.tuples(names) | st.tuples(names, names)
properties = st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2)
locations = st.sampled_from(["l1", "l2", "l3", "l4"])
numbers = st.integers(1, 4)
versions = st.lists(
    st.builds(TableVersion, numbers, st.sampled_from(["m1", "m2"]), numbers),
    min_size=1,
    max_size=2,
    unique_by=lambda version: version.version,
).map(tuple)
changes = st.one_of(
    st.builds(CreateNamespace, namespaces, properties),
    st.builds(AlterNamespace, namespaces | st.just(()), properties),
    st.builds(DropNamespace, namespaces),
    st.builds(DeclareTable, tables, locations, properties),
    st.builds(AlterTable, tables, properties),
    st.builds(DeregisterTable, tables),
    st.builds(DropTable, tables),
    st.builds(RenameTable, tables, tables),
    st.builds(CreateTableVersions, tables, versions),
    st.builds(PointTableVersions, tables, versions),
    st.builds(DeleteTableVersions, tables, st.lists(numbers, max_size=2).map(tuple)),
)
commits = st.lists(changes, min_size=1, max_size=3).map(tuple)


def outcome(store: Any, changes: tuple[Change, ...]) -> Any:
    try:
        store.commit(Commit(changes, message="m", author="me"))
    except LakerootError as error:
        return type(error)
    return None


def picture(store: Any) -> dict[Any, Any]:
    view = store.read()
    found: dict[Any, Any] = {(): dict(view.get(()).properties)}
    for namespace in [(), *((name,) for name in view.namespaces((), None, None))]:
        found[namespace] = dict(view.get(namespace).properties)
        for name in view.tables(namespace, None, None):
            table = view.get((*namespace, name))
            assert isinstance(table, Table)
            assert view.owner_of(table.location) == (*namespace, name)
            kept = {
                n: (v.manifest_path, v.manifest_size)
                for n, v in store.versions(table, None).items()
            }
            found[*namespace, name] = (table.location, dict(table.properties), kept)
    assert view.all_tables(None, None) == sorted(
        k for k, v in found.items() if isinstance(v, tuple)
    )
    return found


def told(store: Any) -> list[Any]:
    # A commit that changes nothing leaves no trace here.
    found = [(e.author, e.message, e.created, e.altered, e.removed) for e in store.history()]
    return [entry for entry in found if any(entry[2:])]


@given(st.lists(commits, max_size=12), st.sampled_from(["spec", "deltacat-2"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_sequence_of_commits_ends_the_same(
    history: list[tuple[Change, ...]], layout: str
) -> None:
    root = parse_root("memory://conformance")
    memory = MemoryStore(root, keeps_versions=True)
    store = DeltaCatStore(root, layout=layout, objects=MemoryObjects())
    for commit in history:
        expected = outcome(memory, commit)
        assert outcome(store, commit) is expected, commit
        assert picture(store) == picture(memory)
    assert told(store) == told(memory)
    reopened = DeltaCatStore(root, objects=store.objects)
    assert picture(reopened) == picture(memory)


@pytest.fixture
def store(tmp_path: Path) -> DeltaCatStore:
    return DeltaCatStore(parse_root(str(tmp_path)))


def test_the_past_is_as_it_was(store: DeltaCatStore) -> None:
    pictures = []
    for number in range(4):
        committed = store.commit(Commit((CreateNamespace((f"n{number}",)),), message=f"{number}"))
        pictures.append((committed, picture(store)))
    for committed, expected in pictures:
        assert picture(store.at(committed.version)) == expected
    last = pictures[-1]
    assert picture(store.at(timestamp_ms=last[0].timestamp_ms)) == last[1]
    with pytest.raises(LakerootError, match="before its first commit"):
        store.at(timestamp_ms=1)
    past = store.at(pictures[0][0].version)
    assert past.is_past
    with pytest.raises(UnsupportedOperationError):
        past.commit(Commit((CreateNamespace(("x",)),)))
    assert [entry.message for entry in store.history(2)] == ["3", "2"]


def test_deeper_namespaces_are_a_clear_error(store: DeltaCatStore) -> None:
    store.commit(Commit((CreateNamespace(("a",)),)))
    with pytest.raises(UnsupportedOperationError, match="one level"):
        store.commit(Commit((CreateNamespace(("a", "b")),)))
    with pytest.raises(LakerootError, match=r"no namespace a\.b"):
        store.commit(Commit((DeclareTable(("a", "b", "c"), "l"),)))


def test_a_requirement_is_checked_where_it_cannot_be_raced(store: DeltaCatStore) -> None:
    store.commit(Commit((CreateNamespace(("a",)), DeclareTable(("a", "t"), "l", {"x": "1"}))))
    before = store.read().get(("a", "t"))
    store.commit(Commit((AlterTable(("a", "t"), {"x": "2"}),)))

    with pytest.raises(LakerootError, match="has changed"):
        store.commit(
            Commit((AlterTable(("a", "t"), {}),), requires=(Unchanged(("a", "t"), before),))
        )


def test_tables_of_other_formats_are_left_alone(store: DeltaCatStore) -> None:
    with store.metastore.transaction() as txn:
        txn.create_namespace("a", {"tier": 1})
        txn.create_table("a", "rows")
    view = store.read()

    assert view.tables(("a",), None, None) == []
    assert view.get(("a", "rows")) is None
    assert not view.is_empty(("a",))
    found = view.get(("a",))
    assert found is not None
    assert found.properties == {"tier": "1"}
    with pytest.raises(LakerootError, match="already a table"):
        store.commit(Commit((DeclareTable(("a", "rows"), "l"),)))


@pytest.mark.parametrize("place", ["", "../x", "/etc/x", "txn/x", "data/x", "a//b", "s3://b/x"])
def test_no_location_escapes(store: DeltaCatStore, place: str) -> None:
    with pytest.raises(LakerootError):
        store.location_of(place)
