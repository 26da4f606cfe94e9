"""A checkpoint knows its tables again: wherever they have gone, and not by their names alone."""

import json
import shutil
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

import lakeroot.spark
from lakeroot.model.errors import InvalidTableStateError
from lakeroot.spark.catalogs import DIRECTORY
from lakeroot.spark.streaming import LakerootStream, stream_sink
from tests.spark.conftest import put

SCHEMA = st.StructType([st.StructField("id", st.LongType())])


def shop(root):
    client = lance_namespace.connect(DIRECTORY, {"root": str(root)})
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    return client


def ids(root, name):
    return sorted(lakeroot.open(str(root))[f"shop.{name}"].dataset().to_table()["id"].to_pylist())


def pour(spark, checkpoint, source, target):
    """Run one query from a table of one catalog into one of another."""
    stream = spark.readStream.format("lakeroot").option("root", str(source)).load("shop.a")
    writer = stream.writeStream.format("lakeroot").option("root", str(target))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start("shop.b").awaitTermination()


@pytest.mark.parametrize("making", ["vectors", "rows"])
def test_a_checkpoint_is_of_one_source_and_of_one_target(spark, tmp_path, making):
    """Both makings of the source: in Java, and Spark's own in Python."""
    spark.conf.set("spark.lakeroot.columnar", str(making == "vectors").lower())
    roots = [tmp_path / name for name in ("one", "two", "three")]
    for number, root in enumerate(roots):
        place = put(shop(root), "shop.a", pa.table({"id": [10 * number]}))
        lance.write_dataset(pa.table({"id": [10 * number + 1]}), place, mode="append")
    one, two, three = roots
    checkpoint = tmp_path / "checkpoint"
    try:
        pour(spark, checkpoint, one, one)
        lance.write_dataset(
            pa.table({"id": [12]}), lakeroot.open(str(two))["shop.a"].dataset().uri, mode="append"
        )
        with pytest.raises(Exception, match="would be left out or delivered twice"):
            pour(spark, checkpoint, two, one)
        lakeroot.spark.write(spark.range(2, 3), "shop.a", root=str(one))
        with pytest.raises(Exception, match="a stream into another table"):
            pour(spark, checkpoint, one, three)
        pour(spark, checkpoint, one, one)
    finally:
        spark.conf.unset("spark.lakeroot.columnar")
    assert ids(one, "b") == [0, 1, 2]
    # Nor was a table made for what was refused.
    assert lakeroot.open(str(three)).tables("shop") == ["shop.a"]


def offset(root, start):
    given = {"root": str(root), "path": "shop.a"}
    return LakerootStream(given, SCHEMA).latestOffset(start, ReadAllAvailable())


def test_a_catalog_that_has_moved_goes_on_with_its_checkpoint(tmp_path):
    place = put(shop(tmp_path / "old"), "shop.a", pa.table({"id": [1]}))
    reached = offset(tmp_path / "old", {"version": 0})
    lance.write_dataset(pa.table({"id": [2]}), place, mode="append")
    (tmp_path / "old").rename(tmp_path / "new")
    assert offset(tmp_path / "new", reached)["version"] == reached["version"] + 1


def test_a_table_that_was_made_again_is_another_however_many_versions_it_has(tmp_path):
    client = shop(tmp_path)
    put(client, "shop.a", pa.table({"id": [1]}))
    reached = offset(tmp_path, {"version": 0})
    client.drop_table(lance_namespace.DropTableRequest(id=["shop", "a"]))
    place = put(client, "shop.a", pa.table({"id": [1]}))
    lance.write_dataset(pa.table({"id": [2]}), place, mode="append")
    with pytest.raises(InvalidTableStateError, match="checkpoint of its own"):
        offset(tmp_path, reached)


def test_a_table_that_is_made_again_while_the_query_runs_is_another(tmp_path):
    """The stream has looked at its offsets before, and looks at them again."""
    client = shop(tmp_path)
    put(client, "shop.a", pa.table({"id": [1]}))
    stream = LakerootStream({"root": str(tmp_path), "path": "shop.a"}, SCHEMA)
    begin = stream.initialOffset()
    reached = stream.latestOffset(begin, ReadAllAvailable())
    assert len(stream.partitions(begin, reached)) == 1
    assert stream.latestOffset(reached, ReadAllAvailable()) == reached
    client.drop_table(lance_namespace.DropTableRequest(id=["shop", "a"]))
    place = put(client, "shop.a", pa.table({"id": [1]}))
    lance.write_dataset(pa.table({"id": [2]}), place, mode="append")
    for act in (
        lambda: stream.latestOffset(reached, ReadAllAvailable()),
        lambda: stream.partitions(begin, reached),
    ):
        with pytest.raises(InvalidTableStateError, match="delivered twice"):
            act()


def test_an_offset_without_a_transaction_goes_on_at_its_place_alone(tmp_path):
    """As they were written before they had one; the oldest are nothing but a number."""
    place = put(shop(tmp_path / "old"), "shop.a", pa.table({"id": [1]}))
    reached = offset(tmp_path / "old", {"version": 0})
    del reached["transaction"]
    lance.write_dataset(pa.table({"id": [2]}), place, mode="append")
    assert offset(tmp_path / "old", reached)["version"] == reached["version"] + 1
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(InvalidTableStateError, match="startingVersion"):
        offset(tmp_path / "new", reached)
    oldest = {"version": reached["version"]}
    assert offset(tmp_path / "new", oldest)["version"] == reached["version"] + 1


def test_where_a_version_was_cleaned_up_only_the_place_can_tell(tmp_path):
    place = put(shop(tmp_path / "old"), "shop.a", pa.table({"id": [1]}))
    reached = offset(tmp_path / "old", {"version": 0})
    lance.write_dataset(pa.table({"id": [2]}), place, mode="append")
    first = max(Path(place.removeprefix("file://"), "_versions").glob("*.manifest"))
    first.unlink()
    assert offset(tmp_path / "old", reached)["version"] == reached["version"] + 1
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(InvalidTableStateError, match="startingVersion"):
        offset(tmp_path / "new", reached)


def sink(tmp_path, place, **more):
    """Prepare a stream into a table, an empty one first, as the query of a checkpoint does."""
    if not Path(place).exists():
        lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), place)
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": "the-query"}))
    return stream_sink({"location": place, "checkpointLocation": str(checkpoint), **more}, SCHEMA)


def arrive(target, number, *rows):
    batches = [pa.record_batch({"id": pa.array(rows, pa.int64())})] if rows else []
    target.commit([target.write(iter(batches))], number)


def test_a_stream_is_known_by_its_first_batch_even_if_that_brought_nothing(tmp_path):
    place = str(tmp_path / "t.lance")
    arrive(sink(tmp_path, place), 0)
    arrive(sink(tmp_path, place), 1, 7)
    lance.dataset(place).cleanup_old_versions()
    arrive(sink(tmp_path, place), 2, 8)
    assert sorted(lance.dataset(place).to_table()["id"].to_pylist()) == [7, 8]


def test_a_stream_that_was_known_before_there_were_notes_goes_on(tmp_path):
    place = str(tmp_path / "t.lance")
    arrive(sink(tmp_path, place), 0, 7)
    (note,) = (tmp_path / "t.lance" / "_lakeroot" / "streams").rglob("*.json")
    note.unlink()
    arrive(sink(tmp_path, place), 1, 8)
    assert sorted(lance.dataset(place).to_table()["id"].to_pylist()) == [7, 8]


def test_a_checkpoint_that_has_gone_on_makes_no_table_unless_the_stream_is_named(tmp_path):
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text(json.dumps({"id": "the-query"}))
    given = {"location": str(tmp_path / "t.lance"), "checkpointLocation": f"{tmp_path}/checkpoint"}
    for number in (0, 1):
        (tmp_path / "checkpoint" / "offsets" / str(number)).write_text("v1")
    with pytest.raises(InvalidTableStateError, match="streamId` to the-query"):
        stream_sink(given, SCHEMA)
    # Java knows the number, wherever the checkpoint lies.
    with pytest.raises(InvalidTableStateError, match="batch 7"):
        stream_sink(given, SCHEMA, query="the-query", batch=7)
    assert not Path(given["location"]).exists()
    arrive(stream_sink({**given, "streamId": "the-query"}, SCHEMA), 1, 8)
    assert lance.dataset(given["location"]).count_rows() == 1
    shutil.rmtree(given["location"])
    arrive(stream_sink(given, SCHEMA, query="the-query", batch=0), 0, 8)
    assert lance.dataset(given["location"]).count_rows() == 1


def test_a_later_batch_into_another_table_is_refused_unless_the_stream_is_named(tmp_path):
    arrive(sink(tmp_path, str(tmp_path / "t.lance")), 0, 7)
    other = str(tmp_path / "other.lance")
    with pytest.raises(InvalidTableStateError, match="streamId` to the-query"):
        arrive(sink(tmp_path, other), 1, 8)
    assert lance.dataset(other).count_rows() == 0
    arrive(sink(tmp_path, other, streamId="the-query"), 1, 8)
    assert lance.dataset(other).count_rows() == 1


def test_a_later_batch_of_a_stream_that_has_left_its_branch_is_refused(tmp_path):
    place = str(tmp_path / "t.lance")
    sink(tmp_path, place)  # makes the table
    lance.dataset(place).create_branch("team/dev")
    arrive(sink(tmp_path, place, branch="team/dev"), 0, 7)
    arrive(sink(tmp_path, place, branch="team/dev"), 1, 8)
    with pytest.raises(InvalidTableStateError, match="a stream into another table"):
        arrive(sink(tmp_path, place), 2, 9)
    assert lance.dataset(place).count_rows() == 0
    arrive(sink(tmp_path, place, branch="team/dev"), 2, 9)
    branch = lance.dataset(place).checkout_version(("team/dev", None))
    assert sorted(branch.to_table()["id"].to_pylist()) == [7, 8, 9]
