"""Real clients of the ecosystem over a Lakeroot catalog, with management off and on."""

import pickle
import subprocess
import sys
from pathlib import Path

import lance
import lance_namespace
import lancedb
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest

from lakeroot import DirectoryNamespace
from lakeroot.tables.versions import NamingScheme
from tests.versions.staging import ROWS, direct_append, directory_of, numbers, row_count

OTHER = pa.table({"id": pa.array([9], pa.int64()), "word": ["z"]})
PROCESSES, APPENDS = 8, 3


@pytest.fixture(params=["false", "true"], ids=["files decide", "catalog decides"])
def properties(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return {"root": str(tmp_path / "lake"), "table_version_management": request.param}


# pylance


@pytest.mark.parametrize("name", [["t"], ["prod", "t"], ["prod", "größe €"]])
def test_pylance_creates_appends_overwrites_and_travels_in_time(
    lake: DirectoryNamespace, name: list[str]
) -> None:
    lake.create_namespace(CreateNamespaceRequest(id=["prod"]))

    def write(rows: pa.Table, mode: str) -> lance.LanceDataset:
        return lance.write_dataset(rows, namespace_client=lake, table_id=name, mode=mode)

    assert write(ROWS, "create").version == 1
    assert write(ROWS, "append").version == 2
    assert write(OTHER, "overwrite").version == 3

    opened = lance.dataset(namespace_client=lake, table_id=name)
    assert (opened.version, opened.count_rows()) == (3, 1)
    for version, rows in ((1, 3), (2, 6), (3, 1)):
        assert row_count(lake, *name, version=version) == rows
        assert opened.checkout_version(version).count_rows() == rows
    assert [version["version"] for version in opened.versions()] == [1, 2, 3]
    assert numbers(lake, *name) == [1, 2, 3]


def test_pylance_changes_rows_schema_and_refs(lake: DirectoryNamespace) -> None:
    lance.write_dataset(ROWS, namespace_client=lake, table_id=["t"])
    opened = lance.dataset(namespace_client=lake, table_id=["t"])

    opened.delete("id = 1")
    opened.update({"word": "'x'"}, where="id = 2")
    opened.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(OTHER)
    opened.add_columns({"twice": "id * 2"})
    opened.create_scalar_index("id", "BTREE")
    opened.optimize.compact_files()
    opened.tags.create("good", opened.version)
    opened.checkout_version(1).restore()

    latest = lance.dataset(namespace_client=lake, table_id=["t"])
    assert latest.count_rows() == 3
    tagged = lance.dataset(namespace_client=lake, table_id=["t"], version="good")
    assert tagged.to_table(["id", "twice"]).sort_by("id").to_pylist() == [
        {"id": 2, "twice": 4},
        {"id": 3, "twice": 6},
        {"id": 9, "twice": 18},
    ]
    listed = numbers(lake, "t")
    assert listed == list(range(1, latest.version + 1))


def test_the_message_of_a_pylance_commit_is_in_the_history(managed: DirectoryNamespace) -> None:
    table = {"namespace_client": managed, "table_id": ["t"]}
    lance.write_dataset(ROWS, **table)
    before = managed.history(1)[0].message

    lance.write_dataset(ROWS, mode="append", commit_message="wöchentlich 🛬", **table)

    assert before == ""
    assert managed.history(1)[0].message == "wöchentlich 🛬"


def test_a_stale_pylance_handle_rebases_on_what_others_wrote(lake: DirectoryNamespace) -> None:
    lance.write_dataset(ROWS, namespace_client=lake, table_id=["t"])
    stale = lance.dataset(namespace_client=lake, table_id=["t"])
    for _ in range(3):
        lance.write_dataset(ROWS, namespace_client=lake, table_id=["t"], mode="append")

    lance.write_dataset(OTHER, stale, mode="append")

    assert row_count(lake, "t") == 13
    assert numbers(lake, "t") == [1, 2, 3, 4, 5]


def test_v1_names_stay_v1(lake: DirectoryNamespace) -> None:
    lance.write_dataset(ROWS, namespace_client=lake, table_id=["t"], enable_v2_manifest_paths=False)
    lance.write_dataset(ROWS, namespace_client=lake, table_id=["t"], mode="append")

    table = directory_of(lake, "t")
    names = sorted(file.name for file in (table / "_versions").glob("*.manifest"))
    assert names == ["1.manifest", "2.manifest"]
    assert numbers(lake, "t") == [1, 2]
    assert direct_append(table) == 3
    assert numbers(lake, "t") == [1, 2, 3]
    assert str(NamingScheme.V1) == "V1"


def test_a_root_with_a_strange_name_works(tmp_path: Path) -> None:
    for number, manages in enumerate(("false", "true")):
        root = tmp_path / f"my lake %20 ü# {number}"
        strange = DirectoryNamespace(root=str(root), table_version_management=manages)
        lance.write_dataset(ROWS, namespace_client=strange, table_id=["t"])
        lance.write_dataset(ROWS, namespace_client=strange, table_id=["t"], mode="append")

        assert row_count(strange, "t") == 6
        assert numbers(strange, "t") == [1, 2]


_APPENDER = """
import sys
import lance, lance_namespace, pyarrow as pa
root, number, appends = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
namespace = lance_namespace.connect("lakeroot.DirectoryNamespace", {"root": root})
for attempt in range(appends):
    rows = pa.table({"id": pa.array([number * 1000 + attempt], pa.int64()), "word": ["x"]})
    lance.write_dataset(rows, namespace_client=namespace, table_id=["t"], mode="append")
print("done")
"""


def test_no_row_of_eight_processes_is_lost(properties: dict[str, str]) -> None:
    namespace = DirectoryNamespace(**properties)
    lance.write_dataset(ROWS.slice(0, 0), namespace_client=namespace, table_id=["t"])

    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _APPENDER, properties["root"], str(number), str(APPENDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    for writer in writers:
        out, error = writer.communicate()
        assert out.strip() == b"done", error.decode()[-2000:]

    found = lance.dataset(namespace_client=namespace, table_id=["t"]).to_table()
    expected = {n * 1000 + a for n in range(PROCESSES) for a in range(APPENDS)}
    assert found.num_rows == len(expected)
    assert set(found["id"].to_pylist()) == expected
    assert numbers(namespace, "t") == list(range(1, len(expected) + 2))


_DIRECT = """
import sys
import lance, pyarrow as pa
for attempt in range(int(sys.argv[3])):
    number = int(sys.argv[2]) * 1000 + attempt
    rows = pa.table({"id": pa.array([number], pa.int64()), "word": ["x"]})
    lance.write_dataset(rows, sys.argv[1] + "/t.lance", mode="append")
print("done")
"""


def test_no_row_is_lost_beside_clients_that_ignore_the_catalog(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    namespace = DirectoryNamespace(root=root, table_version_management="true")
    lance.write_dataset(ROWS.slice(0, 0), namespace_client=namespace, table_id=["t"])

    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, root, str(number), "4"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number, script in enumerate((_APPENDER, _DIRECT, _APPENDER, _DIRECT))
    ]
    for writer in writers:
        out, error = writer.communicate()
        assert out.strip() == b"done", error.decode()[-2000:]

    expected = {number * 1000 + attempt for number in range(4) for attempt in range(4)}
    for opened in (
        lance.dataset(namespace_client=namespace, table_id=["t"]),
        lance.dataset(f"{root}/t.lance"),
    ):
        assert sorted(opened.to_table()["id"].to_pylist()) == sorted(expected)
    assert numbers(namespace, "t") == list(range(1, 18))


# lancedb


def test_lancedb_creates_adds_searches_lists_and_drops(properties: dict[str, str]) -> None:
    database = lancedb.connect_namespace("lakeroot.DirectoryNamespace", properties)
    rows = [{"vector": [1.0, 0.0], "word": "one"}, {"vector": [0.0, 1.0], "word": "two"}]

    table = database.create_table("t", data=rows)
    table.add([{"vector": [0.9, 0.1], "word": "three"}])

    assert database.list_tables().tables == ["t"]
    opened = database.open_table("t")
    assert opened.count_rows() == 3
    assert opened.search([1.0, 0.0]).limit(2).to_arrow()["word"].to_pylist() == ["one", "three"]
    opened.delete("word = 'two'")
    assert database.open_table("t").count_rows() == 2
    namespace = DirectoryNamespace(root=properties["root"])
    assert numbers(namespace, "t")[-1] == opened.version == 3

    database.drop_table("t")
    assert database.list_tables().tables == []


def test_lancedb_works_in_a_child_namespace(properties: dict[str, str]) -> None:
    database = lancedb.connect_namespace("lakeroot.DirectoryNamespace", properties)
    database.create_namespace(["prod"])

    database.create_table("t", data=[{"id": 1}], namespace_path=["prod"])

    assert database.list_tables(namespace_path=["prod"]).tables == ["t"]
    assert database.open_table("t", namespace_path=["prod"]).count_rows() == 1


# lance-ray: a class path and string properties, built again in every worker


_WORKER = """
import pickle, sys
import lance, lance_namespace, pyarrow as pa
properties = dict(pair.split("=", 1) for pair in sys.argv[1:])
namespace = lance_namespace.connect("lakeroot.DirectoryNamespace", properties)
found = lance.dataset(namespace_client=namespace, table_id=["t"])
rows = pa.table({"id": pa.array([7], pa.int64()), "word": ["w"]})
fragments = lance.fragment.write_fragments(rows, found)
sys.stdout.buffer.write(pickle.dumps(fragments))
"""


def test_workers_write_fragments_and_the_driver_commits_them(properties: dict[str, str]) -> None:
    namespace = lance_namespace.connect("lakeroot.DirectoryNamespace", properties)
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"])
    pairs = [f"{key}={value}" for key, value in properties.items()]

    work = [
        subprocess.run([sys.executable, "-c", _WORKER, *pairs], check=True, capture_output=True)
        for _ in range(2)
    ]
    fragments = [fragment for one in work for fragment in pickle.loads(one.stdout)]
    described = namespace.describe_table(lance_namespace.DescribeTableRequest(id=["t"]))
    # lance-ray does not say that the catalog arbitrates, so this goes straight to the files.
    lance.LanceDataset.commit(
        described.location,
        lance.LanceOperation.Append(fragments),
        read_version=1,
        namespace_client=namespace,
        table_id=["t"],
    )

    assert row_count(namespace, "t") == 5
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"], mode="append")
    assert row_count(namespace, "t") == 8
    assert numbers(namespace, "t") == [1, 2, 3]


def test_a_namespace_travels_to_another_process(properties: dict[str, str]) -> None:
    namespace = DirectoryNamespace(**properties)
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=["t"])

    again = pickle.loads(pickle.dumps(namespace))

    assert isinstance(again, DirectoryNamespace)
    assert again.namespace_id() == namespace.namespace_id()
    assert row_count(again, "t") == 3
    opened = pickle.loads(pickle.dumps(lance.dataset(namespace_client=namespace, table_id=["t"])))
    assert opened.count_rows() == 3
