"""Create, rename, replace, delete, create again: names move, ids stay."""

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeroot.metastore import (
    CommitState,
    DeltaType,
    LifecycleState,
    Metastore,
    Partition,
    Transaction,
    manifest_of,
)
from lakeroot.metastore.manifests import ManifestEntry
from lakeroot.metastore.naming import RevisionPath, understand
from lakeroot.metastore.schemas import schema_of
from lakeroot.model.errors import (
    AlreadyExistsError,
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotFoundError,
    PermissionDeniedError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TableVersionNotFoundError,
)

from .conftest import SCHEMA, append, urls, with_table
from .memory import MemoryObjects

BAD = {"read_optimization_level": "some"}
STRANGE = ["a|b", "a/b", "../up", "é 漢字 🚀", "x" * 1000, " ", "rev", "txn", "_hidden", "a\nb"]


def only_partition(txn: Transaction) -> Partition:
    found = txn.find_partition(txn.stream("ns", "t"))
    assert found is not None
    return found


@pytest.mark.parametrize("name", STRANGE)
def test_strange_names_are_only_names(
    metastore: Metastore, another: Callable[[], Metastore], name: str
) -> None:
    with metastore.transaction() as txn:
        txn.create_namespace(name)
        txn.create_table(name, name, schema=SCHEMA)
    view = another().view()

    assert [namespace.name for namespace in view.namespaces()] == [name]
    assert view.table(name, name).name == name
    assert view.stream(name, name).locator.parent.parent.table_name == name


@pytest.mark.parametrize("name", ["", "\ud800", None, 5])
def test_what_is_no_name_is_refused(metastore: Metastore, name: Any) -> None:
    with pytest.raises(InvalidInputError), metastore.transaction() as txn:
        txn.create_namespace(name)
    assert metastore.view().namespaces() == []


def test_properties_that_cannot_be_stored_change_nothing(
    metastore: Metastore, objects: MemoryObjects
) -> None:
    with_table(metastore)
    before = dict(objects.held)
    for bad in (object(), datetime.date(2024, 5, 17), 2**70):
        with pytest.raises(InvalidInputError, match="MessagePack"), metastore.transaction() as txn:
            txn.create_namespace("other", {"key": bad})

    assert objects.held == before


def test_a_history_of_no_status_is_refused(metastore: Metastore) -> None:
    for bad in ({"status": "lost"}, {"limit": -1}):
        with pytest.raises(InvalidInputError):
            metastore.transactions(**bad)


def test_renames_keep_ids_and_everything_below(
    metastore: Metastore, another: Callable[[], Metastore]
) -> None:
    with_table(metastore)
    append(metastore, "data/1.pq")
    before = metastore.view()
    with metastore.transaction() as txn:
        txn.update_table("ns", "t", new_name="u", description="new")
    with metastore.transaction() as txn:
        txn.update_namespace("ns", new_name="other", properties={"a": 1})
    after = another().view()

    assert after.table("other", "u").id == before.table("ns", "t").id
    assert after.namespace("other").id == before.namespace("ns").id
    assert after.namespace("other").properties == {"a": 1}
    assert urls(another(), "other", "u") == ["data/1.pq"]
    assert after.find_namespace("ns") is None
    assert after.find_table("other", "t") is None
    assert before.table("ns", "t").name == "t"


def test_names_can_be_swapped_in_one_transaction(metastore: Metastore) -> None:
    with_table(metastore, table="a")
    with metastore.transaction() as txn:
        txn.create_table("ns", "b")
    ids = {name: metastore.view().table("ns", name).id for name in "ab"}
    with metastore.transaction() as txn:
        txn.update_table("ns", "a", new_name="tmp")
        txn.update_table("ns", "b", new_name="a")
        txn.update_table("ns", "tmp", new_name="b")

    assert metastore.view().table("ns", "a").id == ids["b"]
    assert metastore.view().table("ns", "b").id == ids["a"]
    assert [table.name for table in metastore.view().tables("ns")] == ["a", "b"]


def test_an_alias_leads_to_its_table_through_renames(
    metastore: Metastore, another: Callable[[], Metastore]
) -> None:
    with_table(metastore)
    with metastore.transaction() as txn:
        txn.add_table_alias("ns", "t", "also")
        txn.add_namespace_alias("ns", "space")
    with metastore.transaction() as txn:
        txn.update_table("ns", "t", new_name="u")
        txn.update_namespace("ns", new_name="n2")
    view = another().view()

    assert view.table("n2", "also").id == view.table("n2", "u").id
    assert view.namespace("space").name == "n2"
    with pytest.raises(TableAlreadyExistsError), metastore.transaction() as txn:
        txn.create_table("n2", "also")
    with metastore.transaction() as txn:
        txn.delete_table("n2", "u")
    assert metastore.view().find_table("n2", "also") is None


def test_a_name_can_be_used_again_after_a_drop(metastore: Metastore) -> None:
    with_table(metastore)
    first = metastore.view().table("ns", "t").id
    append(metastore, "data/old.pq")
    for _ in range(3):
        with metastore.transaction() as txn:
            txn.delete_table("ns", "t")
        assert metastore.view().find_table("ns", "t") is None
        with metastore.transaction() as txn:
            txn.create_table("ns", "t", schema=SCHEMA)

    assert metastore.view().table("ns", "t").id != first
    assert urls(metastore) == []


def test_what_exists_cannot_be_created_and_what_does_not_cannot_be_changed(
    metastore: Metastore,
) -> None:
    with_table(metastore)
    refused: list[tuple[type[LakerootError], Callable[[Transaction], object]]] = [
        (NamespaceAlreadyExistsError, lambda txn: txn.create_namespace("ns")),
        (TableAlreadyExistsError, lambda txn: txn.create_table("ns", "t")),
        (NamespaceNotFoundError, lambda txn: txn.create_table("none", "t")),
        (NamespaceNotFoundError, lambda txn: txn.delete_namespace("none")),
        (TableNotFoundError, lambda txn: txn.update_table("ns", "none", new_name="x")),
        (NamespaceNotEmptyError, lambda txn: txn.delete_namespace("ns")),
        (TableVersionNotFoundError, lambda txn: txn.stream("ns", "t", "9")),
        (NotFoundError, lambda txn: txn.stream("ns", "t", "1", "hudi")),
        (InvalidInputError, lambda txn: txn.create_table("ns", "x", version="one")),
        (InvalidInputError, lambda txn: txn.create_table("ns", "x", properties=BAD)),
    ]
    for error, change in refused:
        head = metastore.log.sync().head
        with pytest.raises(error), metastore.transaction() as txn:
            change(txn)
        assert metastore.log.sync().head == head


def test_a_new_version_that_is_not_active_leaves_the_active_one(metastore: Metastore) -> None:
    with_table(metastore)
    with metastore.transaction() as txn:
        made = txn.create_table_version("ns", "t", schema=SCHEMA)
    view = metastore.view()

    assert (made.id, made.previous_table_version) == ("2", "1")
    assert view.table_version("ns", "t").id == "1"
    assert view.table("ns", "t").latest_table_version == "2"
    assert [table.name for table in view.tables("ns")] == ["t"]
    with metastore.transaction() as txn:
        txn.update_table_version(txn.table_version("ns", "t", "2"), state=LifecycleState.ACTIVE)
    assert metastore.view().table_version("ns", "t").id == "2"
    with metastore.transaction() as txn:
        txn.delete_table_version("ns", "t", "2")
    assert metastore.view().table_version("ns", "t").id == "1"
    assert metastore.view().table("ns", "t").latest_table_version == "1"


def test_a_new_schema_joins_the_history(metastore: Metastore) -> None:
    with_table(metastore)
    wider = schema_of(pa.schema([*SCHEMA.arrow, ("more", pa.int8())]), schema_id=1)
    with metastore.transaction() as txn:
        txn.update_table_version(txn.table_version("ns", "t"), schema=wider)
    version = metastore.view().table_version("ns", "t")

    assert version.schema == wider
    assert version.schemas == (SCHEMA, wider)


def test_a_staged_stream_replaces_the_current_one_when_it_is_committed(
    metastore: Metastore,
) -> None:
    with_table(metastore)
    append(metastore, "data/old.pq")
    with metastore.transaction() as txn:
        staged = txn.stage_stream(txn.table_version("ns", "t"))
    assert urls(metastore) == ["data/old.pq"]
    with metastore.transaction() as txn:
        txn.commit_stream(staged)
    view = metastore.view()

    assert view.stream("ns", "t").id == staged.id
    assert view.stream("ns", "t").state is CommitState.COMMITTED
    assert urls(metastore) == []
    with pytest.raises(ConcurrentModificationError), metastore.transaction() as txn:
        txn.commit_stream(staged)


def test_a_staged_partition_replaces_the_current_one_when_it_is_committed(
    metastore: Metastore,
) -> None:
    with_table(metastore)
    append(metastore, "data/old.pq")
    with metastore.transaction() as txn:
        staged = txn.stage_partition(txn.stream("ns", "t"))
        txn.put_delta(staged, 1, manifest_of([ManifestEntry("data/new.pq")]))
    assert urls(metastore) == ["data/old.pq"]
    with metastore.transaction() as txn:
        txn.commit_partition(staged)

    assert urls(metastore) == ["data/new.pq"]
    assert append(metastore, "data/newer.pq") == 2


def test_a_deleted_partition_is_gone_and_can_be_made_again(metastore: Metastore) -> None:
    with_table(metastore)
    append(metastore, "data/old.pq")
    with metastore.transaction() as txn:
        partition = only_partition(txn)
        txn.delete_partition(partition)
    view = metastore.view()

    assert view.partitions(view.stream("ns", "t")) == []
    assert view.find_partition(view.stream("ns", "t")) is None
    assert urls(metastore) == []
    assert append(metastore, "data/new.pq") == 1
    assert urls(metastore) == ["data/new.pq"]


def test_a_delta_says_which_was_before_it(metastore: Metastore) -> None:
    with_table(metastore)
    append(metastore, "data/1.pq")
    with metastore.transaction() as txn:
        partition = only_partition(txn)
        assert txn.put_delta(partition, 7, None).previous_stream_position == 1
        added = txn.put_delta(partition, 2**40, None, delta_type=DeltaType.ADD)
        assert added.previous_stream_position is None


def test_positions_only_grow(metastore: Metastore) -> None:
    with_table(metastore)
    append(metastore, "data/1.pq")
    for position in (1, 0, -1, 2**40):
        txn = metastore.transaction()
        partition = only_partition(txn)
        with pytest.raises(InvalidInputError):
            txn.put_delta(partition, position, None)
    assert append(metastore, "data/2.pq") == 2


def test_adds_have_no_place_in_the_order(metastore: Metastore) -> None:
    with_table(metastore)
    append(metastore, "data/1.pq")
    with metastore.transaction() as txn:
        manifest = manifest_of([ManifestEntry("data/add.pq")])
        delta = txn.append_delta(txn.stream("ns", "t"), manifest, delta_type=DeltaType.ADD)
    view = metastore.view()
    partition = view.find_partition(view.stream("ns", "t"))

    assert partition is not None
    assert delta.stream_position > 2**32 - 1
    assert partition.stream_position == 1
    assert urls(metastore) == ["data/1.pq", "data/add.pq"]


def test_ids_can_be_chosen_once(metastore: Metastore) -> None:
    with_table(metastore)
    with metastore.transaction() as txn:
        txn.stage_stream(txn.table_version("ns", "t"), stream_id="mine")
    with pytest.raises(AlreadyExistsError), metastore.transaction() as txn:
        txn.stage_stream(txn.table_version("ns", "t"), stream_id="mine")


def test_a_read_only_catalog_is_not_written(metastore: Metastore, objects: MemoryObjects) -> None:
    with_table(metastore)
    reader = Metastore(objects, read_only=True)
    before = dict(objects.held)

    with pytest.raises(PermissionDeniedError), reader.transaction() as txn:
        txn.create_namespace("x")
    assert reader.view().table("ns", "t").name == "t"
    assert objects.held == before


def test_the_layout_is_recognised_and_cannot_be_another(
    metastore: Metastore, objects: MemoryObjects, layout: str
) -> None:
    with_table(metastore)
    other = "spec" if layout == "deltacat-2" else "deltacat-2"

    assert Metastore(objects).layout == layout
    with pytest.raises(InvalidInputError, match="has the layout"):
        Metastore(objects, layout=other)
    with pytest.raises(InvalidInputError, match="is not a layout"):
        Metastore(objects, layout="none")


def test_opening_an_empty_root_writes_nothing(objects: MemoryObjects) -> None:
    assert Metastore(objects).view().namespaces() == []
    assert objects.held == {}


def test_the_file_of_a_name_says_what_was_done_to_it(
    metastore: Metastore, objects: MemoryObjects
) -> None:
    with_table(metastore)
    with metastore.transaction() as txn:
        txn.delete_table("ns", "t")
        txn.create_table("ns", "t")
    with metastore.transaction() as last:
        last.delete_table("ns", "t")

    names = [path for path in map(understand, objects.held) if isinstance(path, RevisionPath)]
    of_the_table = sorted(
        (path.number, path.operation.value)
        for path in names
        if path.is_name and path.directory.count("/") == 1
    )
    assert of_the_table == [(1, "create"), (2, "replace"), (3, "delete")]
