"""Keys that a catalog lends and that expire: a job that outlives them asks for new ones."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import lance_namespace
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.server.run import serving
from lakeroot.server.settings import Settings
from lakeroot.spark.catalogs import DIRECTORY, EXPIRES, Located, locate, renewed
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, table_of
from lakeroot.spark.planning import plan_read
from lakeroot.spark.scanning import batches
from lakeroot.spark.types import spark_schema
from lakeroot.spark.write_tasks import write_rows
from lakeroot.spark.writing import finish, prepare
from tests.s3 import S3

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


@dataclass(frozen=True)
class Lender:
    """Lends the keys of the bucket for a while, as a token service would."""

    keys: Mapping[str, str] = field(repr=False)
    seconds: int = 3600

    def vend(self, location: str, *, writes: bool) -> Mapping[str, str]:
        """Lend the keys."""
        del location, writes
        return {**self.keys, EXPIRES: str(int((time.time() + self.seconds) * 1000))}


@pytest.fixture
def where(s3: S3) -> Iterator[dict[str, str]]:
    settings = Settings(
        port=0,
        impl=DIRECTORY,
        properties={"root": s3.new_root(), **s3.properties},
        log_requests=False,
        credential_vendor=Lender(s3.options),
    )
    with serving(settings) as url:
        client = lance_namespace.connect("rest", {"uri": url})
        client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
        yield {"impl": "rest", "property.uri": url, "table": "shop.t"}


def outlived(table: Located) -> Located:
    """The same table, hours later: what it was lent opens nothing any more."""
    spoiled = {**(table.storage_options or {}), "aws_secret_access_key": "no longer good"}
    return replace(table, storage_options={**spoiled, EXPIRES: "1000"})


def test_tasks_and_the_commit_of_a_long_job_get_new_keys(where):
    ref = table_of(where)
    schema = spark_schema(ROWS.schema)
    finish(prepare(ref, schema, WriteOptions()), [])
    plan = prepare(ref, schema, WriteOptions(mode="append"))
    late = replace(plan, table=outlived(plan.table))
    written = write_rows(late, ROWS.to_batches())
    assert written.rows == 10
    finish(late, [written])
    read = plan_read(ref, ReadOptions())
    assert read.scan.table is not None
    scan = replace(read.scan, table=outlived(read.scan.table), dataset=b"opened with old keys")
    found = [batch for task in read.tasks for batch in batches(scan, task)]
    assert pa.Table.from_batches(found) == ROWS


def test_a_long_write_to_a_branch_gets_new_keys(where):
    ref = table_of(where)
    schema = spark_schema(ROWS.schema)
    finish(prepare(ref, schema, WriteOptions()), [])
    open_table(locate(ref)).create_branch("draft")
    # Versions of the branch go beyond those of the main one, where they cannot be looked up.
    for _ in range(3):
        plan = prepare(ref, schema, WriteOptions(mode="append", branch="draft"))
        late = replace(plan, table=outlived(plan.table))
        finish(late, [write_rows(late, ROWS.to_batches())])
    draft = open_table(locate(ref), ("draft", None))
    assert draft.count_rows() == 30
    assert open_table(locate(ref)).count_rows() == 0


def test_keys_that_are_still_good_are_kept(where):
    ref = table_of(where)
    finish(prepare(ref, spark_schema(ROWS.schema), WriteOptions()), [])
    table = locate(ref)
    assert renewed(table) is table
    assert renewed(outlived(table)).storage_options == locate(ref).storage_options


def test_a_frame_of_a_table_with_lent_keys_is_read_by_tasks(spark, where):
    name = where.pop("table")
    rows = spark.range(0, 40, 1, 2)
    assert lakeroot.spark.write(rows, name, **where).version == 1
    assert lakeroot.spark.read(spark, name, **where).selectExpr("sum(id)").first()[0] == 780
