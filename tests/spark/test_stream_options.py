"""What a stream out of a table is asked for, and cannot do."""

import datetime as dt
import json

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.sql import types as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError, InvalidTableStateError
from lakeroot.spark.commits import MESSAGE
from lakeroot.spark.streaming import BATCH, LakerootStream, stream_sink
from tests.spark.test_streaming import batches_of, pump
from tests.spark.test_writing import frame, rows, where


@pytest.fixture(params=["vectors", "rows"])
def streaming(request, spark):
    """Both makings of the source: in Java, and Spark's own in Python."""
    spark.conf.set("spark.lakeroot.columnar", str(request.param == "vectors").lower())
    yield spark
    spark.conf.unset("spark.lakeroot.columnar")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"version": "1"}, "'version' is not for streams"),
        ({"branch": "dev"}, "'branch' is not for streams"),
        ({"limit": "5"}, "'limit' is not for streams"),
        ({"asOf": "2099-01-01"}, "'asOf' is not for streams"),
        ({"startingVersion": "9"}, "no version 9 to start after"),
        ({"maxVersionsPerTrigger": "0"}, "above 0"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(streaming, root, catalog, tmp_path, option, words):
    lakeroot.spark.write(frame(streaming, 0, 4), "shop.a", root=root)
    if "branch" in option:
        lakeroot.open(root)["shop.a"].dataset().create_branch("dev")
    with pytest.raises(Exception, match=words):
        pump(streaming, root, str(tmp_path / "c"), "shop.a", "shop.b", **option)


def test_a_table_that_was_made_again_stops_the_stream(streaming, root, catalog, tmp_path):
    checkpoint = str(tmp_path / "c")
    for start in (0, 2):
        lakeroot.spark.write(frame(streaming, start, start + 2), "shop.a", root=root)
    pump(streaming, root, checkpoint, "shop.a", "shop.b")
    catalog.drop_table(lance_namespace.DropTableRequest(id=["shop", "a"]))
    lakeroot.spark.write(frame(streaming, 7, 9), "shop.a", root=root)
    with pytest.raises(Exception, match="up to version 2, and its newest is 1"):
        pump(streaming, root, checkpoint, "shop.a", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_the_checkpoint_of_another_table_stops_the_stream(streaming, root, catalog, tmp_path):
    checkpoint = tmp_path / "c"
    for name, first in (("a", 0), ("other", 10)):
        for start in (first, first + 2):
            lakeroot.spark.write(frame(streaming, start, start + 2), f"shop.{name}", root=root)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    lakeroot.spark.write(frame(streaming, 14, 16), "shop.other", root=root)
    words = "a stream out of table shop.a, and this one reads table shop.other"
    with pytest.raises(Exception, match=words):
        pump(streaming, root, str(checkpoint), "shop.other", "shop.b")
    # A batch that is repeated is planned from the checkpoint alone.
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    with pytest.raises(Exception, match=words):
        pump(streaming, root, str(checkpoint), "shop.other", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_a_table_with_another_name_goes_on_with_its_checkpoint(streaming, root, catalog, tmp_path):
    checkpoint = str(tmp_path / "c")
    lakeroot.spark.write(frame(streaming, 0, 2), "shop.a", root=root)
    pump(streaming, root, checkpoint, "shop.a", "shop.b")
    catalog.rename_table(
        lance_namespace.RenameTableRequest(id=["shop", "a"], new_table_name="renamed")
    )
    lakeroot.spark.write(frame(streaming, 2, 4), "shop.renamed", root=root)
    pump(streaming, root, checkpoint, "shop.renamed", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_a_checkpoint_that_names_no_table_goes_on(streaming, root, catalog, tmp_path):
    """Checkpoints of before hold nothing but a version."""
    checkpoint = tmp_path / "c"
    lakeroot.spark.write(frame(streaming, 0, 2), "shop.a", root=root)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    offsets = checkpoint / "offsets" / "0"
    *about, last = offsets.read_text().splitlines()
    assert json.loads(last)["table"] == "shop.a"
    offsets.write_text("\n".join([*about, '{"version": 1}']))
    (checkpoint / "offsets" / ".0.crc").unlink(missing_ok=True)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    assert not (checkpoint / "offsets" / "1").exists()
    lakeroot.spark.write(frame(streaming, 2, 4), "shop.a", root=root)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_a_stream_begins_after_the_version_that_it_is_told(streaming, root, catalog, tmp_path):
    for start in (0, 2, 4):
        lakeroot.spark.write(frame(streaming, start, start + 2), "shop.a", root=root)
    pump(streaming, root, str(tmp_path / "c"), "shop.a", "shop.b", startingVersion="2")
    assert rows(where(catalog, "shop", "b")) == [4, 5]


def test_a_bounded_stream_begins_with_all_rows_whatever_has_become_of_them(
    streaming, root, catalog, tmp_path
):
    """Rows were changed before, and the versions in which they came are gone."""
    checkpoint = tmp_path / "c"
    lakeroot.spark.write(frame(streaming, 0, 4), "shop.a", root=root)
    source = where(catalog, "shop", "a")
    lance.dataset(source).delete("id = 1")
    lakeroot.spark.write(frame(streaming, 4, 6), "shop.a", root=root)
    lance.dataset(source).cleanup_old_versions(older_than=dt.timedelta(0))
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b", maxVersionsPerTrigger="1")
    assert rows(where(catalog, "shop", "b")) == [0, 2, 3, 4, 5]
    assert batches_of(checkpoint) == [0]
    for start in (6, 8):
        lakeroot.spark.write(frame(streaming, start, start + 2), "shop.a", root=root)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b", maxVersionsPerTrigger="1")
    assert rows(where(catalog, "shop", "b")) == [0, 2, *range(3, 10)]
    assert batches_of(checkpoint) == [0, 1, 2]


def test_a_stream_after_version_0_goes_through_all_of_them(streaming, root, catalog, tmp_path):
    """With a bound or without, it meets every change, and versions that are gone."""
    for start in (0, 2):
        lakeroot.spark.write(frame(streaming, start, start + 2), "shop.a", root=root)
    bound = {"startingVersion": "0", "maxVersionsPerTrigger": "1"}
    pump(streaming, root, str(tmp_path / "c"), "shop.a", "shop.b", **bound)
    assert batches_of(tmp_path / "c") == [0, 1]
    source = lance.dataset(where(catalog, "shop", "a"))
    source.delete("id = 1")
    with pytest.raises(Exception, match=r"Version 3 of table shop.a changes rows"):
        pump(streaming, root, str(tmp_path / "d"), "shop.a", "shop.c", startingVersion="0")
    source.cleanup_old_versions(older_than=dt.timedelta(0))
    with pytest.raises(Exception, match=r"Version 1 of table shop.a is gone"):
        pump(streaming, root, str(tmp_path / "e"), "shop.a", "shop.c", startingVersion="0")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def four_versions(tmp_path):
    """Make a table with a row in each of its versions."""
    place = str(tmp_path / "t.lance")
    for number in range(4):
        mode = "append" if number else "create"
        lance.write_dataset(pa.table({"id": [number]}), place, mode=mode)
    return place


def stream_of(place, **options):
    schema = st.StructType([st.StructField("id", st.LongType())])
    return LakerootStream({"location": place, **options}, schema)


def test_a_bounded_checkpoint_of_before_goes_on_where_it_was(tmp_path):
    """New queries with a bound began at the first version, and may not have finished a batch."""
    stream = stream_of(four_versions(tmp_path), maxVersionsPerTrigger="2")

    def delivered(start, end):
        parts = stream.partitions(start, end)
        found = [batch for part in parts for batch in stream.read(part)]
        return sorted(value for batch in found for value in batch.column("id").to_pylist())

    first = {"version": 2}
    assert delivered(stream.initialOffset(), first) == [0, 1]
    after = stream.latestOffset(first, ReadMaxFiles(2))
    assert after["version"] == 4
    assert delivered(first, after) == [2, 3]


def test_what_a_version_has_added_needs_the_version_before_it(tmp_path):
    place = four_versions(tmp_path)
    lance.dataset(place).cleanup_old_versions(older_than=dt.timedelta(0))
    for newest in (4, 5):
        stream = stream_of(place, startingVersion=str(newest - 1))
        start = stream.initialOffset()
        with pytest.raises(
            InvalidTableStateError, match=f"Version {newest - 1} of table .* is gone"
        ):
            stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
        lance.dataset(place).add_columns({f"n{newest}": "id * 2"})  # May come with rows, too.
        lance.dataset(place).cleanup_old_versions(older_than=dt.timedelta(0))


def test_options_of_a_write_are_those_of_a_sink(streaming, root, catalog, tmp_path):
    lakeroot.spark.write(frame(streaming, 0, 8).repartition(1), "shop.a", root=root)
    stream = streaming.readStream.format("lakeroot").option("root", root).load("shop.a")
    sink = stream.writeStream.format("lakeroot").option("checkpointLocation", str(tmp_path / "c"))
    given = {"maxRowsPerFile": 3, "storageVersion": "2.0", "stableRowIds": True, "message": "why"}
    sink = sink.options(root=root, **given).trigger(availableNow=True)
    sink.start("shop.b").awaitTermination()
    table = lance.dataset(where(catalog, "shop", "b"))
    fragments = [each.metadata for each in table.get_fragments()]
    assert [each.physical_rows for each in fragments] == [3, 3, 2]
    files = {(file.file_major_version, file.file_minor_version) for file in fragments[0].files}
    assert (files, table.has_stable_row_ids) == ({(2, 0)}, True)
    said = table.read_transaction(table.version).transaction_properties
    assert (said[MESSAGE], said[BATCH]) == ("why", "0")


def test_a_sink_takes_no_name_of_a_job(root, catalog):
    given = {"root": root, "table": "shop.b", "streamId": "s", "jobId": "j"}
    with pytest.raises(InvalidInputError, match="'jobId' is not for streams"):
        stream_sink(given, st.StructType([st.StructField("id", st.LongType())]))
    assert lakeroot.open(root).tables("shop") == []
