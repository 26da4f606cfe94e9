"""One server as it runs for a team: several processes, a bucket, both protocols, real clients."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import boto3
import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import CreateNamespaceRequest, LanceNamespace
from pyiceberg.catalog import Catalog, load_catalog

from tests.s3 import ACCESS_KEY, BUCKET, S3, SECRET_KEY
from tests.server.http import Client
from tests.server.processes import Served, served

# Everything that needs the S3 server runs in one worker, so that there is one S3 server.
pytestmark = pytest.mark.xdist_group("s3")

ROWS = pa.table({"x": pa.array([1, 2], pa.int64()), "word": ["a", "b"]})
TABLE = ["prod", "t"]


@pytest.fixture(scope="module")
def server(s3: S3) -> Iterator[Served]:
    settings = ["--workers", "2", "--log-format", "none", "--vend-storage-options"]
    settings += ["--iceberg-mirror", "--iceberg-scan-planning"]
    properties = {**s3.properties, "table_version_management": "true"}
    with served(s3.new_root(), *settings, **properties) as running:
        yield running
    assert running.process.returncode == 0
    assert SECRET_KEY not in "".join(running.said)


@pytest.fixture(scope="module")
def rest(server: Served) -> LanceNamespace:
    found = lance_namespace.connect("rest", {"uri": server.url})
    found.create_namespace(CreateNamespaceRequest(id=["prod"]))
    return found


@pytest.fixture(scope="module")
def iceberg(server: Served) -> Catalog:
    return load_catalog("lake", type="rest", uri=f"{server.url}/iceberg")


def test_writers_at_several_processes_lose_nothing_and_everybody_reads_it(
    server: Served, rest: LanceNamespace, iceberg: Catalog
) -> None:
    lance.write_dataset(ROWS, namespace_client=rest, table_id=TABLE)

    def append(_: int) -> None:
        # A client of its own, so that the connections go to both processes.
        client = lance_namespace.connect("rest", {"uri": server.url})
        for _ in range(2):
            lance.write_dataset(ROWS, namespace_client=client, table_id=TABLE, mode="append")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    assert lance.dataset(namespace_client=rest, table_id=TABLE).count_rows() == 18

    table = iceberg.load_table("prod.t")
    current = table.current_snapshot()
    assert current is not None
    assert current.snapshot_id == 9
    assert (
        table.scan("x = 2", selected_fields=("word",)).to_arrow().to_pylist() == [{"word": "b"}] * 9
    )
    assert table.scan("x = 2").count() == 9
    assert table.scan(snapshot_id=1).to_arrow().num_rows == 2


def test_a_stale_commit_is_a_conflict_in_both_protocols(
    server: Served, rest: LanceNamespace, s3: S3
) -> None:
    for name in ("stale", "other"):
        for mode in ("create", "append"):
            lance.write_dataset(ROWS, namespace_client=rest, table_id=["prod", name], mode=mode)
    with Client(server.url) as http:
        path, another = (
            http.post(f"/v1/table/prod%24{name}/version/describe", {})
            .json["version"]["manifest_path"]
            .rpartition(f"{BUCKET}/")[2]
            for name in ("stale", "other")
        )
        staged = f"{path}-11111111-2222-3333-4444-555555555555"
        # Another writer's version 2, staged as Lance stages it, comes too late.
        boto3.client(
            "s3",
            endpoint_url=s3.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        ).copy_object(Bucket=BUCKET, Key=staged, CopySource={"Bucket": BUCKET, "Key": another})
        late = {"version": 2, "manifest_path": staged}
        answer = http.post("/v1/table/prod%24stale/version/create", late)
        assert (answer.status, answer.json["code"]) == (409, 14), answer.body
        where = "/iceberg/v1/namespaces/prod/tables/stale"
        metadata = http.get(where).json["metadata"]
        assert metadata["current-snapshot-id"] == 2
        snapshot = {
            "snapshot-id": 2,
            "timestamp-ms": metadata["last-updated-ms"],
            "summary": {"operation": "append", "lance.manifest": staged},
        }
        main = {"ref-name": "main", "type": "branch", "snapshot-id": 2}
        commit = {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", **main},
            ],
        }
        answer = http.post(where, commit)
        assert (answer.status, answer.json["error"]["type"]) == (409, "CommitFailedException")
    assert lance.dataset(namespace_client=rest, table_id=["prod", "stale"]).count_rows() == 4
