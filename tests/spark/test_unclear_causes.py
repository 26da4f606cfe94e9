"""Damaged tables, impossible wishes and tables that go away: each is called what it is."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableColumnNotFoundError,
    TableSchemaValidationError,
)
from lakeroot.spark.catalogs import exists
from lakeroot.spark.options import table_of
from tests.spark.conftest import put


def words(rows: int = 3000) -> pa.Table:
    return pa.table({"id": list(range(rows)), "s": [f"word {i} of {i % 17}" for i in range(rows)]})


def wait_for(sign: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not sign():
        assert time.monotonic() < end
        time.sleep(0.02)


def _compact(spark, where):
    lakeroot.spark.compact(spark, **where)


def _merge(spark, where):
    source = spark.range(3).selectExpr("id", "concat('m', id) AS s")
    lakeroot.spark.merge(source, on="s", strategy="driver", **where)


def _delete(spark, where):
    lakeroot.spark.delete(spark, where="s = '5'", **where)


def _index(spark, where):
    lakeroot.spark.index(spark, column="s", kind="BTREE", **where)


def _backfill(spark, where):
    lakeroot.spark.backfill(spark, values={"z": "concat(s, 'x')"}, job_id="z", **where)


def _function(spark, where):
    def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([batch["s"]], names=["z"])

    lakeroot.spark.backfill(spark, values=shout, reads=["s"], job_id="f", **where)


JOBS = [_compact, _merge, _delete, _index, _backfill, _function]


def _damaged(raw: bytes) -> bytes:
    """Overwrite the first half, where the values are."""
    return np.random.default_rng(7).bytes(len(raw) // 2) + raw[len(raw) // 2 :]


@pytest.mark.parametrize("job", JOBS)
def test_a_data_file_that_is_missing_is_named(spark, root, catalog, job):
    place = put(catalog, "shop.t", words(), max_rows_per_file=1500)
    file = next(Path(place).glob("data/*.lance"))
    file.unlink()
    with pytest.raises(InvalidTableStateError, match=f"data/{file.name} is missing") as raised:
        job(spark, {"table": "shop.t", "root": root})
    assert "lakeroot fsck" in str(raised.value)
    assert lance.dataset(place).version == 1


@pytest.mark.parametrize("job", JOBS)
def test_a_data_file_that_is_damaged_is_told_without_words_of_rust(spark, root, catalog, job):
    place = put(catalog, "shop.t", words(), max_rows_per_file=1500)
    file = next(Path(place).glob("data/*.lance"))
    file.write_bytes(_damaged(file.read_bytes()))
    with pytest.raises(InvalidTableStateError, match="damaged and cannot be read") as raised:
        job(spark, {"table": "shop.t", "root": root})
    assert "panicked" not in str(raised.value)
    assert lance.dataset(place).version == 1


def test_spans_of_time_are_given_as_text(spark, root, people):
    assert lakeroot.spark.fsck(spark, root=root, grace="1d") == []
    text = lakeroot.spark.gc(spark, root=root, older_than="30d", dry_run=True)
    assert text == lakeroot.spark.gc(spark, root=root, older_than=timedelta(30), dry_run=True)


@pytest.mark.parametrize("given", ["soon", "1", 86400, 1.5, None])
def test_what_is_no_span_of_time_is_bad_input(spark, root, people, given):
    with pytest.raises(InvalidInputError, match="a number and a unit"):
        lakeroot.spark.fsck(spark, root=root, grace=given)
    with pytest.raises(InvalidInputError, match="a number and a unit"):
        lakeroot.spark.gc(spark, root=root, older_than=given)


@pytest.mark.parametrize(
    ("column", "kind", "fits"),
    [
        ("age", "INVERTED", "Use BTREE, BITMAP"),
        ("age", "NGRAM", "Use BTREE, BITMAP"),
        ("name", "LABEL_LIST", "NGRAM"),
        ("tags", "BTREE", "LABEL_LIST"),
        ("whole", "IVF_FLAT", ""),
    ],
)
def test_an_index_that_the_type_of_a_column_cannot_have_is_refused(
    root, catalog, column, kind, fits
):
    data = {"age": [1], "name": ["a"], "tags": [["x"]]}
    whole = pa.array([[1, 2]], pa.list_(pa.int32(), 2))
    put(catalog, "shop.t", pa.table(data).append_column("whole", whole))
    with pytest.raises(InvalidInputError, match="cannot have an index") as raised:
        lakeroot.spark.index(None, "shop.t", root=root, column=column, kind=kind, dry_run=True)
    assert fits in raised.value.fix


def test_a_column_with_nanoseconds_has_an_index(spark, root, catalog):
    place = put(catalog, "shop.t", pa.table({"t": pa.array([1, 2, 3], pa.timestamp("ns"))}))
    lakeroot.spark.index(spark, "shop.t", root=root, column="t", kind="BTREE")
    assert [each.name for each in lance.dataset(place).describe_indices()] == ["t_idx"]


def test_too_few_rows_for_the_numbers_of_an_index_are_bad_input(spark, root, catalog):
    vectors = pa.array([[float(i), 1.0] for i in range(300)], pa.list_(pa.float32(), 2))
    put(catalog, "shop.t", pa.table({"v": vectors}))
    where = {"table": "shop.t", "root": root, "column": "v"}
    with pytest.raises(InvalidInputError, match="IVF_PQ needs 512"):
        lakeroot.spark.index(spark, kind="IVF_PQ", **where)
    with pytest.raises(InvalidInputError, match="cannot be trained"):
        lakeroot.spark.index(spark, kind="IVF_FLAT", partitions=290, **where)


def test_an_export_to_where_nothing_can_be_written_is_bad_input(spark, root, people, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for target in (tmp_path / "file" / "out", Path("/proc/nowhere/out")):
        with pytest.raises(InvalidInputError, match="cannot be made or written to"):
            lakeroot.spark.export(spark, "shop.people", str(target), root=root)


@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_goes_away_under_a_write_is_named(
    spark, root, people, catalog, tmp_path, again
):
    sign = tmp_path / "gone"

    def slowly(batches):
        for batch in batches:
            wait_for(sign.exists)
            yield batch

    def drop() -> None:
        wait_for(lambda: list(Path(people).glob("**/wanted.json")))
        catalog.drop_table({"id": ["shop", "people"]})
        if again:
            put(catalog, "shop.people", pa.table({"id": [1]}))
        sign.touch()

    rows = spark.range(10).mapInArrow(slowly, "id long")
    thread = threading.Thread(target=drop)
    thread.start()
    said = "dropped and made anew while" if again else "was dropped while the job ran"
    with pytest.raises(ConcurrentModificationError, match=said):
        lakeroot.spark.write(rows, "shop.people", root=root)
    thread.join()


def test_rows_without_columns_are_refused(spark, root, catalog, people):
    for name in ("shop.people", "shop.new"):
        with pytest.raises(InvalidInputError, match="no columns"):
            lakeroot.spark.write(spark.range(2).select(), name, root=root)
    assert exists(table_of({"table": "shop.new", "root": root})) is None


@pytest.mark.parametrize("options", [{"blobs": "name"}, {"vectors": "name:3"}])
@pytest.mark.parametrize("table", ["people", "new"])
def test_text_is_neither_a_vector_nor_a_blob(spark, root, people, table, options):
    rows = spark.sql("SELECT 1L AS id, 'n' AS name, 2 AS age")
    with pytest.raises(TableSchemaValidationError, match="'name'"):
        lakeroot.spark.write(rows, f"shop.{table}", root=root, **options)
    with pytest.raises(TableSchemaValidationError, match="'name'"):
        lakeroot.spark.write(rows, f"shop.{table}", root=root, mode="overwrite", **options)
    assert lance.dataset(people).version == 1


def test_a_column_that_is_not_there_is_no_vector(spark, root, people):
    with pytest.raises(TableColumnNotFoundError, match="'nam'"):
        lakeroot.spark.write(spark.range(1), "shop.people", root=root, vectors="nam:3")


def test_vectors_and_blobs_are_appended_with_the_options_that_made_them(spark, root, catalog):
    rows = spark.sql("SELECT array(1.0f, 2.0f) AS v, X'00' AS b")
    options = {"root": root, "vectors": "v:2", "blobs": "b"}
    for _ in range(2):
        lakeroot.spark.write(rows, "shop.v", **options)
    with pytest.raises(TableSchemaValidationError, match="not a vector of 3"):
        lakeroot.spark.write(rows, "shop.v", root=root, vectors="v:3")
