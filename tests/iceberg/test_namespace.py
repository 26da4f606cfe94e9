"""The Lance namespace over a real Iceberg REST catalog, with pylance as the client."""

import json
import pickle
import subprocess
import sys
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    AlterTableAddColumnsRequest,
    BatchCommitTablesRequest,
    BatchCreateTableVersionsRequest,
    BatchDeleteTableVersionsRequest,
    CreateNamespaceRequest,
    CreateTableRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeTableRequest,
    DescribeTableVersionRequest,
    ListTablesRequest,
    ListTableVersionsRequest,
    RegisterTableRequest,
)
from pyiceberg.catalog.rest import RestCatalog

import lakeroot
from tests.iceberg.servers import BUCKET, Weed, fresh_name
from tests.iceberg.test_schema_conversion import EXACT, NEAREST

ROWS = pa.table({"id": [1, 2, 3], "vector": pa.array([[0.0] * 4] * 3, pa.list_(pa.float32(), 4))})

APPEND = """
import json, sys, lance, lakeroot, pyarrow as pa
properties, table, writer = json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
namespace = lakeroot.IcebergNamespace(**properties)
for number in range(int(sys.argv[4])):
    rows = pa.table({"writer": [writer], "number": [number]})
    for _ in range(50):
        try:
            lance.write_dataset(rows, namespace_client=namespace, table_id=table, mode="append")
            break
        except Exception as error:
            if "ommit" not in str(error):
                raise
    else:
        raise SystemExit("gave up")
"""


@pytest.fixture(params=["storage", "impl"])
def managed_by(request) -> str:
    return str(request.param)


@pytest.fixture
def namespace(catalog: Weed, managed_by: str):
    opened = lakeroot.IcebergNamespace(**catalog.properties, managed_by=managed_by)
    yield opened
    opened.close()


@pytest.fixture
def parent(namespace) -> str:
    name = fresh_name()
    namespace.create_namespace(CreateNamespaceRequest(id=[name]))
    return name


def ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def is_storable(arrow: pa.DataType) -> bool:
    """Tell whether Lance itself takes a type."""
    refused = (pa.types.is_interval, pa.types.is_run_end_encoded, pa.types.is_union)
    return not any(is_one(arrow) for is_one in refused)


def entry_of(namespace, *names: str):
    return namespace.store.entries.get(names)


def pyiceberg(catalog: Weed) -> RestCatalog:
    plain = catalog.properties
    return RestCatalog(
        "test",
        uri=plain["endpoint"],
        warehouse=BUCKET,
        credential=plain["credential"],
        **{"oauth2-server-uri": f"{plain['endpoint']}/v1/oauth/tokens"},
    )


def test_pylance_writes_appends_reads_and_travels_in_time(namespace, parent, managed_by):
    table = [parent, "t"]
    for mode in ("create", "append", "append"):
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=table, mode=mode)
    dataset = lance.dataset(namespace_client=namespace, table_id=table)
    assert (dataset.version, dataset.count_rows()) == (3, 9)
    first = lance.dataset(namespace_client=namespace, table_id=table, version=1)
    assert first.count_rows() == 3
    described = namespace.describe_table(DescribeTableRequest(id=table))
    assert bool(described.managed_versioning) == (managed_by == "impl")
    versions = namespace.list_table_versions(ListTableVersionsRequest(id=table)).versions
    assert [version.version for version in versions] == [1, 2, 3]
    if managed_by == "impl":
        assert entry_of(namespace, parent, "t").definition.version == 3


def test_the_catalog_shows_schema_and_version_to_pyiceberg(catalog, namespace, parent):
    request = CreateTableRequest(id=[parent, "t"])
    assert namespace.create_table(request, ipc(ROWS)).version == 1
    seen = pyiceberg(catalog).load_table((parent, "t"))
    assert [field.name for field in seen.schema().fields] == ["id", "vector"]
    assert seen.current_snapshot().snapshot_id == 1
    assert seen.properties["gc.enabled"] == "false"
    columns = {"new_columns": [{"name": "twice", "expression": "id * 2"}]}
    namespace.alter_table_add_columns(AlterTableAddColumnsRequest(id=[parent, "t"], **columns))
    seen = pyiceberg(catalog).load_table((parent, "t"))
    assert [field.name for field in seen.schema().fields] == ["id", "vector", "twice"]
    assert seen.current_snapshot().snapshot_id == 2
    with pytest.raises(Exception, match="NOT-MIRRORED-lance-version-2"):
        seen.scan().to_arrow()


def test_sync_follows_a_writer_that_does_not_know_the_catalog(catalog, namespace, parent):
    namespace.create_table(CreateTableRequest(id=[parent, "t"]), ipc(ROWS))
    location = entry_of(namespace, parent, "t").location
    lance.write_dataset(ROWS, location, mode="append", storage_options=catalog.storage)
    lance.dataset(location, storage_options=catalog.storage).drop_columns(["vector"])
    listed = namespace.list_table_versions(ListTableVersionsRequest(id=[parent, "t"])).versions
    assert [version.version for version in listed] == [1, 2, 3]
    assert namespace.sync_table([parent, "t"])
    assert not namespace.sync_table([parent, "t"])
    seen = pyiceberg(catalog).load_table((parent, "t"))
    assert [field.name for field in seen.schema().fields] == ["id"]


def test_every_column_of_a_table_is_shown_whatever_its_type(catalog, namespace, parent):
    columns = {f"c{n}": arrow for n, arrow in enumerate([*EXACT, *NEAREST]) if is_storable(arrow)}
    rows = pa.table({name: pa.array([None], arrow) for name, arrow in columns.items()})
    table = [parent, "t"]
    lance.write_dataset(
        rows, namespace_client=namespace, table_id=table, data_storage_version="2.1"
    )
    # Of a table whose versions live in storage the catalog hears when somebody opens it.
    lance.dataset(namespace_client=namespace, table_id=table)
    seen = pyiceberg(catalog).load_table((parent, "t"))
    assert [field.name for field in seen.schema().fields] == list(columns)
    assert seen.current_snapshot().snapshot_id == 1


def test_all_tables_are_brought_in_step_at_once(catalog, namespace, parent):
    for name in ("a", "b"):
        namespace.create_table(CreateTableRequest(id=[parent, name]), ipc(ROWS))
    location = entry_of(namespace, parent, "b").location
    lance.dataset(location, storage_options=catalog.storage).drop_columns(["vector"])
    assert namespace.sync_tables([parent]) == [[parent, "b"]]
    assert namespace.sync_tables([parent]) == []


def test_a_deregistered_table_is_registered_again_with_its_versions(namespace, parent, managed_by):
    for mode in ("create", "append"):
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=[parent, "t"], mode=mode)
    location = namespace.deregister_table(DeregisterTableRequest(id=[parent, "t"])).location
    namespace.register_table(RegisterTableRequest(id=[parent, "u"], location=location))
    lance.write_dataset(ROWS, namespace_client=namespace, table_id=[parent, "u"], mode="append")
    dataset = lance.dataset(namespace_client=namespace, table_id=[parent, "u"])
    assert (dataset.version, dataset.count_rows()) == (3, 9)
    if managed_by == "impl":
        assert sorted(entry_of(namespace, parent, "u").definition.snapshots) == [1, 2, 3]


def test_a_declared_table_says_so(namespace, parent, managed_by):
    declared = namespace.declare_table(DeclareTableRequest(id=[parent, "t"], properties={"a": "b"}))
    assert declared.location.startswith(f"s3://{BUCKET}/")
    assert declared.storage_options["aws_endpoint"]
    assert bool(declared.managed_versioning) == (managed_by == "impl")
    described = namespace.describe_table(
        DescribeTableRequest(id=[parent, "t"], check_declared=True)
    )
    assert described.is_only_declared
    assert described.properties == {"a": "b"}
    assert namespace.list_tables(ListTablesRequest(id=[parent])).tables == ["t"]


def test_it_is_found_by_name_and_travels_to_other_processes(catalog, namespace, parent):
    namespace.declare_table(DeclareTableRequest(id=[parent, "t"]))
    connected = lance_namespace.connect("lakeroot.IcebergNamespace", catalog.properties)
    for copy in (connected, pickle.loads(pickle.dumps(namespace))):
        assert copy.list_tables(ListTablesRequest(id=[parent])).tables == ["t"]
    assert "lakeroot-test" not in repr(namespace) + namespace.namespace_id()


def test_a_wrong_configuration_is_an_error_of_the_ecosystem():
    with pytest.raises(lance_namespace.InvalidInputError):
        lakeroot.IcebergNamespace(endpoint="nowhere")


@pytest.mark.parametrize("managed_by", ["impl"], indirect=True)
class TestManaged:
    def test_versions_of_two_tables_are_committed_together_or_not_at_all(self, namespace, parent):
        staged = [self.stage(namespace, parent, name) for name in ("a", "b")]
        request = BatchCreateTableVersionsRequest.model_validate({"entries": staged})
        created = namespace.batch_create_table_versions(request).versions
        assert [version.version for version in created] == [2, 2]
        for name in ("a", "b"):
            dataset = lance.dataset(namespace_client=namespace, table_id=[parent, name])
            assert (dataset.version, dataset.count_rows()) == (2, 6)
        staged = [self.stage(namespace, parent, "a"), {**staged[1], "version": 2}]
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=[parent, "a"], mode="append")
        namespace_b = entry_of(namespace, parent, "b").definition.version
        with pytest.raises(lance_namespace.LanceNamespaceError):
            namespace.batch_create_table_versions(
                BatchCreateTableVersionsRequest.model_validate({"entries": staged})
            )
        assert entry_of(namespace, parent, "b").definition.version == namespace_b

    def test_a_batch_of_commits_is_one_transaction(self, namespace, parent):
        staged = [self.stage(namespace, parent, name) for name in ("a", "b")]
        operations = [{"create_table_version": one} for one in staged]
        request = BatchCommitTablesRequest.model_validate({"operations": operations})
        assert len(namespace.batch_commit_tables(request).results) == 2
        assert [entry_of(namespace, parent, n).definition.version for n in ("a", "b")] == [2, 2]
        declared = [{"declare_table": {"id": [parent, name]}} for name in ("c", "d")]
        with pytest.raises(lance_namespace.UnsupportedOperationError):
            namespace.batch_commit_tables(
                BatchCommitTablesRequest.model_validate({"operations": declared})
            )
        listed = namespace.list_tables(ListTablesRequest(id=[parent]))
        assert listed.tables == ["a", "b"]

    def test_a_schema_that_a_writer_changes_is_seen_in_the_catalog(self, namespace, parent):
        table = [parent, "t"]
        lance.write_dataset(ROWS, namespace_client=namespace, table_id=table)
        dataset = lance.dataset(namespace_client=namespace, table_id=table)
        dataset.add_columns({"twice": "id * 2"})
        entry = entry_of(namespace, *table)
        assert entry.definition.version == 2
        names = [field["name"] for field in entry.definition.schema["fields"]]
        assert names == ["id", "vector", "twice"]

    def test_old_versions_are_deleted_and_the_rest_stays_readable(self, namespace, parent):
        for mode in ("create", "append", "append"):
            lance.write_dataset(ROWS, namespace_client=namespace, table_id=[parent, "t"], mode=mode)
        ranges = [{"start_version": 1, "end_version": 3}]
        request = {"id": [parent, "t"], "ranges": ranges}
        deleted = namespace.batch_delete_table_versions(
            BatchDeleteTableVersionsRequest.model_validate(request)
        )
        assert deleted.deleted_count == 2
        assert sorted(entry_of(namespace, parent, "t").definition.snapshots) == [3]
        dataset = lance.dataset(namespace_client=namespace, table_id=[parent, "t"])
        assert dataset.count_rows() == 9

    def test_any_reader_finishes_what_a_dead_writer_left(self, namespace, parent):
        staged = self.stage(namespace, parent, "t")
        entry = entry_of(namespace, parent, "t")
        from lakeroot.model.commits import CreateTableVersions
        from lakeroot.model.records import TableVersion

        version = TableVersion(2, staged["manifest_path"])
        namespace.catalog.commit(CreateTableVersions(entry.identifier, (version,)))
        files = namespace.store.files_of(entry)
        assert not files.exists("_versions/18446744073709551613.manifest")
        namespace.describe_table_version(DescribeTableVersionRequest(id=[parent, "t"], version=2))
        assert files.exists("_versions/18446744073709551613.manifest")
        dataset = lance.dataset(namespace_client=namespace, table_id=[parent, "t"])
        assert (dataset.version, dataset.count_rows()) == (2, 6)

    def test_four_processes_append_and_no_row_is_lost(self, catalog, namespace, parent):
        start = pa.table({"writer": [0], "number": [-1]})
        lance.write_dataset(start, namespace_client=namespace, table_id=[parent, "t"])
        properties = json.dumps({**catalog.properties, "managed_by": "impl"})
        appends = 25
        table = json.dumps([parent, "t"])
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", APPEND, properties, table, str(w), str(appends)],
                stderr=subprocess.PIPE,
            )
            for w in range(4)
        ]
        for writer in writers:
            _, errors = writer.communicate(timeout=500)
            assert writer.returncode == 0, errors.decode()[-2000:]
        dataset = lance.dataset(namespace_client=namespace, table_id=[parent, "t"])
        rows = dataset.to_table().to_pydict()
        written = sorted(zip(rows["writer"], rows["number"], strict=True))
        assert written == sorted([(0, -1), *((w, n) for w in range(4) for n in range(appends))])
        assert dataset.version == 4 * appends + 1
        assert entry_of(namespace, parent, "t").definition.version == dataset.version

    def stage(self, namespace, parent: str, name: str) -> dict[str, Any]:
        """Write a table of two versions, and take the second one back as a staged manifest."""
        table = [parent, name]
        try:
            namespace.describe_table(DescribeTableRequest(id=table))
        except lance_namespace.TableNotFoundError:
            lance.write_dataset(ROWS, namespace_client=namespace, table_id=table)
        entry = entry_of(namespace, *table)
        files = namespace.store.files_of(entry)
        before = entry.definition.version
        dataset = lance.dataset(entry.location, storage_options=dict(entry.storage_options))
        lance.write_dataset(ROWS, dataset, mode="append")
        final = f"_versions/{2**64 - 2 - before:020}.manifest"
        content = files.get(final)
        files.put(f"{final}-staged", content)
        files.delete([final])
        key = entry.location.removeprefix(f"s3://{BUCKET}/")
        return {"id": table, "version": before + 1, "manifest_path": f"{key}/{final}-staged"}
