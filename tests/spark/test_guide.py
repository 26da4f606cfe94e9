"""The examples of the Spark guide run, one after the other, as a reader would type them."""

import re
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from pyspark.sql import SparkSession

from lakeroot import DirectoryNamespace
from lakeroot.lake import open_lake
from lakeroot.metastore import Metastore, schema_of

GUIDE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Java resolves paths where the session was started, so the test says where they are.
RELATIVE = re.compile(r'"(?=\./|files/|images/|out/|daily/)')
# A bucket or a catalog on the network, and a job in a process of its own: tried by other tests.
ELSEWHERE = ('root="s3://', "catalog.example.com", "pyiceberg.catalog", 'jobs="spark"')


def test_every_example_of_the_guide_runs(spark: SparkSession, tmp_path: Path) -> None:
    lay_out(tmp_path)
    names: dict[str, Any] = {}
    count = 0
    for block in FENCE.finditer(GUIDE):
        language, code = block.groups()
        if language != "python" or any(word in code for word in ELSEWHERE):
            continue
        prepare(f"{tmp_path}/lake", code)
        place = f"docs/spark.md:{GUIDE[: block.start()].count(chr(10)) + 1}"
        exec(compile(RELATIVE.sub(f'"{tmp_path}/', code), place, "exec"), names)
        count += 1

    assert count > 20
    assert names["spark"] is spark


def lay_out(place: Path) -> None:
    """Put the files there that the guide speaks of."""
    for folder in ("files", "images", "daily/orders"):
        (place / folder).mkdir(parents=True)
    (place / "files/a.csv").write_text("id,city\n1,Oslo\n2,Rome\n")
    (place / "images/a.png").write_bytes(b"an image")
    (place / "daily/orders/a.csv").write_text("id,city,price\n1,Oslo,3\n2,Rome,4\n")
    pipeline = next(code for language, code in FENCE.findall(GUIDE) if language == "yaml")
    (place / "daily/pipeline.yaml").write_text(pipeline)
    open_lake(str(place / "daily/lake")).create_namespace("shop")
    orders = pa.schema([("id", pa.int64()), ("price", pa.float64())])
    with Metastore.open(str(place / "metastore")).transaction("begin") as transaction:
        transaction.create_namespace("shop")
        transaction.create_table("shop", "orders", schema=schema_of(orders, merge_keys=["id"]))


def prepare(root: str, code: str) -> None:
    """Make what an example only reads: a table to search in, a tag and a branch."""
    if "shop.items" in code:
        vectors = pa.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], pa.list_(pa.float32(), 3))
        items = pa.table({"text": ["red shoes", "blue hat"], "v": vectors})
        catalog = DirectoryNamespace(root=root)
        made = lance.write_dataset(
            items, namespace_client=catalog, table_id=["shop", "items"], mode="create"
        )
        made.create_scalar_index("text", "INVERTED")
    if "branch:trial" in code:
        catalog = DirectoryNamespace(root=root)
        table = lance.dataset(namespace_client=catalog, table_id=["shop", "orders"])
        table.tags.create("trained-on", 1)
        table.create_branch("trial")
