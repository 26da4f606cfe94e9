"""pylance and LanceDB as clients of the metastore catalog, and several of them at once."""

import multiprocessing
import os
import pickle
import time
from pathlib import Path
from typing import Any

import lance
import lancedb
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DescribeTableRequest,
    DropTableRequest,
    ListTablesRequest,
    RegisterTableRequest,
    RenameTableRequest,
)

import lakeroot

ROWS = pa.table({"id": [1, 2, 3], "x": [1.0, 2.0, 3.0]})


@pytest.fixture(params=["spec", "deltacat-2"])
def namespace(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    made = lakeroot.DeltaCatNamespace(root=str(tmp_path), layout=request.param)
    made.create_namespace(CreateNamespaceRequest(id=["ml"]))
    return made


def versions(namespace: Any, *names: str) -> list[int]:
    table = namespace.store.read().get(names)
    return sorted(namespace.store.versions(table, None))


def test_pylance_writes_and_reads_through_the_catalog(namespace: Any) -> None:
    table_id = ["ml", "items"]
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id, mode="create")
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id, mode="append")
    lance.dataset(namespace_client=namespace, table_id=table_id).delete("id = 1")
    found = lance.dataset(namespace_client=namespace, table_id=table_id)

    assert (found.version, found.count_rows()) == (3, 4)
    assert versions(namespace, "ml", "items") == [1, 2, 3]
    told = [entry.versions for entry in namespace.history() if entry.versions]
    assert told == [((("ml", "items"), n),) for n in (3, 2, 1)]


def test_lancedb_opens_creates_and_adds(namespace: Any, tmp_path: Path) -> None:
    db = lancedb.connect_namespace("lakeroot.DeltaCatNamespace", {"root": str(tmp_path)})
    table = db.create_table("items", ROWS, namespace_path=["ml"])
    table.add(ROWS)

    assert db.open_table("items", namespace_path=["ml"]).count_rows() == 6
    assert versions(namespace, "ml", "items") == [1, 2]
    listed = namespace.list_tables(ListTablesRequest(id=["ml"])).tables
    assert list(listed) == ["items"]


def test_a_version_put_beside_the_catalog_is_taken_in(namespace: Any) -> None:
    table_id = ["ml", "items"]
    made = lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id, mode="create")
    lance.write_dataset(ROWS, made.uri, mode="append")
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id, mode="append")

    assert lance.dataset(namespace_client=namespace, table_id=table_id).count_rows() == 9
    assert versions(namespace, "ml", "items") == [1, 2, 3]


def test_several_tables_are_published_in_one_transaction_of_the_metastore(namespace: Any) -> None:
    for name in ("a", "b"):
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=["ml", name])
    before = len(list(namespace.metastore.transactions()))
    with namespace.transaction("publish both") as txn:
        txn.append(["ml", "a"], ROWS)
        txn.append(["ml", "b"], ROWS)
    history = list(namespace.metastore.transactions())

    assert len(history) == before + 1
    assert history[0].message == "publish both"
    assert set(namespace.history(1)[0].versions) == {(("ml", "a"), 2), (("ml", "b"), 2)}
    for name in ("a", "b"):
        assert lance.dataset(namespace_client=namespace, table_id=["ml", name]).count_rows() == 6


def test_the_past_of_the_catalog_leads_to_the_past_of_a_table(namespace: Any) -> None:
    table_id = ["ml", "items"]
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id)
    moment = namespace.history(1)[0].version
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id, mode="append")
    past = namespace.at(moment)

    assert lance.dataset(namespace_client=past, table_id=table_id).count_rows() == 3
    assert lance.dataset(namespace_client=namespace, table_id=table_id).count_rows() == 6


def test_renames_within_and_across_namespaces_keep_versions(namespace: Any) -> None:
    namespace.create_namespace(CreateNamespaceRequest(id=["prod"]))
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["ml", "items"])
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["ml", "items"], mode="append")
    before = namespace.describe_table(DescribeTableRequest(id=["ml", "items"])).location
    namespace.rename_table(RenameTableRequest(id=["ml", "items"], new_table_name="things"))
    namespace.rename_table(
        RenameTableRequest(id=["ml", "things"], new_table_name="things", new_namespace_id=["prod"])
    )

    after = namespace.describe_table(DescribeTableRequest(id=["prod", "things"])).location
    assert after == before
    assert versions(namespace, "prod", "things") == [1, 2]
    assert lance.dataset(namespace_client=namespace, table_id=["prod", "things"]).count_rows() == 6


def test_a_table_is_registered_and_dropped_with_its_data(namespace: Any, tmp_path: Path) -> None:
    lance.write_dataset(ROWS, str(tmp_path / "outside"))
    namespace.register_table(RegisterTableRequest(id=["ml", "found"], location="outside"))
    assert lance.dataset(namespace_client=namespace, table_id=["ml", "found"]).count_rows() == 3
    namespace.drop_table(DropTableRequest(id=["ml", "found"]))

    assert not (tmp_path / "outside").exists()
    assert not namespace.list_tables(ListTablesRequest(id=["ml"])).tables


def test_it_can_be_sent_to_another_process(namespace: Any) -> None:
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["ml", "items"])
    again = pickle.loads(pickle.dumps(namespace))

    assert lance.dataset(namespace_client=again, table_id=["ml", "items"]).count_rows() == 3


def test_a_table_may_be_in_no_namespace(namespace: Any) -> None:
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["alone"])

    assert list(namespace.list_tables(ListTablesRequest(id=[])).tables) == ["alone"]
    assert lance.dataset(namespace_client=namespace, table_id=["alone"]).count_rows() == 3


def test_a_vacuum_removes_directories_that_are_nobodys(namespace: Any, tmp_path: Path) -> None:
    table_id = ["ml", "items"]
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id)
    # One that never had a name may be a job's that runs for days.
    days_old = {"old": 8, "young": 6, "new": 0}
    for name, days in days_old.items():
        lance.write_dataset(ROWS, str(tmp_path / "_lance" / name))
        then = time.time() - days * 24 * 60 * 60
        for path in (tmp_path / "_lance" / name).rglob("*"):
            os.utime(path, (then, then))
    assert namespace.vacuum(retention_ms=0, dry_run=True).other == ("_lance/old",)
    namespace.vacuum(retention_ms=0)

    assert not (tmp_path / "_lance" / "old").exists()
    assert (tmp_path / "_lance" / "young").exists()
    assert (tmp_path / "_lance" / "new").exists()
    assert lance.dataset(namespace_client=namespace, table_id=table_id).count_rows() == 3
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=table_id, mode="append")
    assert lance.dataset(namespace_client=namespace, table_id=table_id).count_rows() == 6


def _append(root: str, count: int) -> None:
    namespace = lakeroot.DeltaCatNamespace(root=root)
    for _ in range(count):
        lance.write_dataset(
            ROWS, namespace_client=namespace, table_id=["ml", "items"], mode="append"
        )


def test_writers_in_several_processes_lose_no_rows(tmp_path: Path) -> None:
    namespace: Any = lakeroot.DeltaCatNamespace(root=str(tmp_path))
    namespace.create_namespace(CreateNamespaceRequest(id=["ml"]))
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["ml", "items"])
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append, args=(str(tmp_path), 3)) for _ in range(2)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()

    assert [process.exitcode for process in writers] == [0, 0]
    found = lance.dataset(namespace_client=namespace, table_id=["ml", "items"])
    assert found.count_rows() == 3 * (1 + 2 * 3)
    assert versions(namespace, "ml", "items") == list(range(1, 8))
