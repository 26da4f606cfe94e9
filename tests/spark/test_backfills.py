"""A column is computed for a whole table: by SQL or by a function, killed, and gone on with."""

import json
import time
from functools import partial
from pathlib import Path

import lance
import pandas as pd
import pyarrow as pa
import pytest

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    TableColumnNotFoundError,
)
from lakeroot.spark.batch_functions import takes_frames
from lakeroot.spark.refilling import refill
from tests.spark.test_writing import frame


def test_a_column_is_backfilled_by_sql(spark, root, people):
    lance.dataset(people).delete("id = 2")
    done = lakeroot.spark.backfill(
        spark, "shop.people", root=root, values={"twice": "id * 2"}, job_id="twice"
    )
    assert (done.fragments, done.computed) == (4, 4)
    table = lance.dataset(people).to_table()
    assert table.column("twice").to_pylist() == [i * 2 for i in table.column("id").to_pylist()]
    again = lakeroot.spark.backfill(
        spark, "shop.people", root=root, values={"twice": "id * 2"}, job_id="twice"
    )
    assert again.already_done
    with pytest.raises(InvalidInputError, match="already has a column 'twice'"):
        lakeroot.spark.backfill(
            spark, "shop.people", root=root, values={"twice": "id"}, job_id="other"
        )


@pytest.mark.parametrize(
    ("expression", "error", "words"),
    [
        ("idd+", InvalidInputError, "Expected: an expression"),
        ("nofun(id)", InvalidInputError, "nofun"),
        ("id + 'a'", InvalidInputError, "Int64"),
        ("idd * 2", TableColumnNotFoundError, "'idd'"),
    ],
)
def test_an_expression_that_lance_cannot_read_is_bad_input(root, people, expression, error, words):
    """No Spark is needed to see it."""
    with pytest.raises(error, match=words) as refused:
        lakeroot.spark.backfill(
            None, "shop.people", root=root, values={"x": expression}, job_id="x", dry_run=True
        )
    assert refused.value.why
    assert refused.value.fix
    with pytest.raises(error, match=words):
        refill(None, "shop.people", root=root, column="age", expression=expression, job_id="x")


@pytest.mark.parametrize("expression", ["'a'", "random()"])
def test_a_column_is_backfilled_by_an_expression_of_no_column(spark, root, people, expression):
    lakeroot.spark.backfill(
        spark, "shop.people", root=root, values={"x": expression}, job_id="constant"
    )
    assert lance.dataset(people).to_table().column("x").null_count == 0


def test_a_function_of_pandas_takes_frames_and_gives_frames(spark, root, people):
    def initials(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"initial": frame["name"].str[0], "next": frame["id"] + 1})

    lakeroot.spark.backfill(
        spark, "shop.people", root=root, values=initials, reads=["id", "name"], job_id="f"
    )
    rows = lance.dataset(people).to_table().to_pylist()
    assert [row["next"] for row in rows] == [row["id"] + 1 for row in rows]
    assert [row["initial"] for row in rows] == [row["name"][0] for row in rows]
    assert "__index_level_0__" not in rows[0]


@pytest.mark.parametrize("said", [pd.DataFrame, "pd.DataFrame", "DataFrame"])
def test_a_function_says_in_any_way_that_it_takes_frames(said):
    def whole(rows, more=None): ...

    whole.__annotations__["rows"] = said
    assert takes_frames(whole)
    assert takes_frames(partial(whole, more=1))
    whole.__annotations__["rows"] = pa.RecordBatch
    assert not takes_frames(whole)
    assert not takes_frames(lambda batch: batch)
    assert not takes_frames(max)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda batch: batch, "already exists"),
        (lambda batch: pa.record_batch({"y": [1, 2, 3]}), "different size"),
        (lambda batch: pa.table({"y": [1] * batch.num_rows}), "Expected instance"),
    ],
)
def test_a_function_that_returns_no_new_column_for_each_row_is_bad_input(
    spark, root, people, function, words
):
    with pytest.raises(InvalidInputError, match=f"{words}.* A function returns"):
        lakeroot.spark.backfill(spark, "shop.people", root=root, values=function, job_id="f")
    assert lance.dataset(people).version == 1


def test_what_a_function_raises_is_told_with_its_kind(spark, root, people):
    def fails(batch):
        raise KeyError(f"no embedding\nfor {batch.num_rows} rows")

    with pytest.raises(InvalidInputError, match=r"the function raised KeyError: .*no embedding"):
        lakeroot.spark.backfill(spark, "shop.people", root=root, values=fails, job_id="f")
    assert lance.dataset(people).version == 1


def test_a_value_that_an_expression_cannot_be_computed_for_is_bad_input(spark, root, people):
    with pytest.raises(InvalidInputError, match="Divide by zero"):
        lakeroot.spark.backfill(
            spark, "shop.people", root=root, values={"x": "id / (id - 7)"}, job_id="z"
        )


def test_a_killed_backfill_goes_on_where_it_stopped(spark, root, people, tmp_path):
    """The function dies in one fragment; the others are not computed a second time."""
    marks = str(tmp_path)

    def embed(batch):
        first = batch.column(0)[0].as_py()
        if batch.num_rows > 1:  # Lance tries the function with one row to learn its types
            (Path(marks) / f"{first}-{len(list(Path(marks).glob(f'{first}-*')))}").touch()
        if first == 12 and not (Path(marks) / "mended").exists():
            # Spark stops the other tasks at the failure: it comes when the first two are done.
            end = time.monotonic() + 60
            while len(list(Path(people).glob("_lakeroot/backfills/*/*/*.json"))) < 2:
                assert time.monotonic() < end, "the other tasks left no notes"
                time.sleep(0.02)
            raise RuntimeError("the model fell over")
        return pa.record_batch({"size": pa.array([len(str(v)) for v in batch.column(0)])})

    def run():
        return lakeroot.spark.backfill(
            spark, "shop.people", root=root, values=embed, reads=["id"], job_id="embed"
        )

    with pytest.raises(LakerootError, match="the model fell over"):
        run()
    assert "size" not in lance.dataset(people).schema.names
    (tmp_path / "mended").touch()
    lakeroot.spark.write(frame(spark, 200, 205).selectExpr("id", "name"), "shop.people", root=root)
    lance.dataset(people).delete("id = 1")
    done = run()
    assert 0 < done.computed < done.fragments
    assert len(list(tmp_path.glob("0-*"))) == 1
    table = lance.dataset(people).to_table()
    assert table.column("size").to_pylist() == [len(str(i)) for i in table.column("id").to_pylist()]
    assert table.num_rows == 24


@pytest.fixture
def cut_off(spark, root, people):
    """Compute a column, and die before it is committed; give a way to go on."""

    def run(values, **more):
        return lakeroot.spark.backfill(
            spark, "shop.people", root=root, values=values, job_id="cut", **more
        )

    def died(*_, **__):
        raise RuntimeError("died")

    def start(values, **more):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lakeroot.spark.backfilling.commit", died)
            with pytest.raises(RuntimeError, match="died"):
                run(values, **more)
        return run

    return start


def test_another_expression_cannot_go_on_with_a_backfill(cut_off, people):
    run = cut_off({"size": "id * 2"})
    with pytest.raises(InvalidInputError, match=r"'cut' of table shop\.people") as refused:
        run({"size": "id * 3"})
    assert "'id * 2' and is 'id * 3' now" in str(refused.value)
    assert "another `job_id`" in str(refused.value)
    with pytest.raises(InvalidInputError, match="something else"):
        run({"size": "id * 3"}, dry_run=True)
    assert run({"size": "id * 3"}, dry_run=True, resume="never").computed == 4
    assert run({"size": "id * 2"}, dry_run=True).computed == 0
    assert run({"size": "id * 3"}, resume="never").computed == 4
    table = lance.dataset(people).to_table()
    assert table.column("size").to_pylist() == [i * 3 for i in table.column("id").to_pylist()]
    assert run({"size": "id * 4"}).already_done


def multiplied(batch, factor):
    return pa.record_batch({"size": [v * factor for v in batch.column(0).to_pylist()]})


def test_another_function_cannot_go_on_with_a_backfill(cut_off, people):
    run = cut_off(partial(multiplied, factor=2), reads=["id"])
    with pytest.raises(InvalidInputError, match="factor"):
        run(partial(multiplied, factor=3), reads=["id"])
    with pytest.raises(InvalidInputError, match="what the function reads"):
        run(partial(multiplied, factor=2), reads=["id", "age"])
    with pytest.raises(InvalidInputError, match="the column 'size'"):
        run({"size": "id * 2"})
    with pytest.raises(InvalidInputError, match="no resume 'anywhere'"):
        run(partial(multiplied, factor=3), reads=["id"], resume="anywhere")
    done = run(partial(multiplied, factor=2), reads=["id"])
    assert (done.fragments, done.computed) == (4, 0)
    table = lance.dataset(people).to_table()
    assert table.column("size").to_pylist() == [i * 2 for i in table.column("id").to_pylist()]


def test_who_knows_better_goes_on_anyway(cut_off, people):
    run = cut_off(partial(multiplied, factor=2), reads=["id"])
    assert run(lambda batch: multiplied(batch, 2), reads=["id"], resume="anyway").computed == 0
    assert lance.dataset(people).to_table().column("size").to_pylist()[:3] == [0, 2, 4]


def test_a_column_that_took_the_name_of_another_is_computed_from_again(cut_off, people):
    run = cut_off({"size": "age * 2"})
    table = lance.dataset(people)
    table.alter_columns({"path": "age", "name": "old"}, {"path": "id", "name": "age"})
    assert run({"size": "age * 2"}).computed == 4
    table = lance.dataset(people).to_table()
    assert table.column("size").to_pylist() == [i * 2 for i in table.column("age").to_pylist()]


def test_what_a_cleanup_has_deleted_is_computed_again(cut_off, people):
    run = cut_off({"size": "id * 2"})
    notes = sorted(Path(people).glob("_lakeroot/backfills/*/*/*.json"))
    (gone,) = json.loads(notes[0].read_text())["written"]
    (Path(people) / "data" / gone).unlink()
    assert run({"size": "id * 2"}).computed == 1
    table = lance.dataset(people).to_table()
    assert table.column("size").to_pylist() == [i * 2 for i in table.column("id").to_pylist()]


def test_a_function_that_makes_other_columns_of_other_rows_is_refused(spark, root, people):
    mended: list[bool] = []

    def made(batch):
        name = "late" if batch.column(0)[0].as_py() >= 12 and not mended else "early"
        return pa.record_batch({name: batch.column(0)})

    def run():
        return lakeroot.spark.backfill(
            spark, "shop.people", root=root, values=made, reads=["id"], job_id="mixed"
        )

    with pytest.raises(InvalidInputError, match="computes different columns"):
        run()
    assert lance.dataset(people).schema.names == ["id", "name", "age"]
    mended.append(True)
    assert (run().computed, lance.dataset(people).schema.names[-1]) == (4, "early")
