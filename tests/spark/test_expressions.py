"""What users write in the SQL of Lance is read to its end, or refused, by every job and read."""

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.refilling import refill
from tests.cli.running import Run
from tests.spark.conftest import put

CUT_OFF = [
    "id < 3 LIMIT 1",
    "id < 3 ORDER BY id",
    "id < 3, id < 5",
    "id < 3) or (true",
    "id < 3; 1",
]
WHOLE = ["id < 3 -- small", "id < 3;", "id /* the key */ < 3; -- small;"]


@pytest.fixture
def numbers(catalog):
    data = pa.table({"id": pa.array(range(8), pa.int64()), "small": pa.array([None] * 8, "bool")})
    return put(catalog, "shop.numbers", data, max_rows_per_file=5)


def column(place, name):
    return lance.dataset(place).to_table().column(name).to_pylist()


@pytest.mark.parametrize("text", CUT_OFF)
def test_no_job_computes_or_deletes_by_half_of_an_expression(root, numbers, text):
    """No Spark is needed to see it."""

    def filled(expression, where=None):
        more = {"column": "small", "expression": expression, "where": where, "job_id": "x"}
        return refill(None, "shop.numbers", root=root, **more)

    for act in (
        lambda: lakeroot.spark.backfill(
            None, "shop.numbers", root=root, values={"x": text}, job_id="x", dry_run=True
        ),
        lambda: filled(text),
        lambda: filled("true", text),
    ):
        with pytest.raises(InvalidInputError):
            act()
    assert lance.dataset(numbers).version == 1


@pytest.mark.parametrize("text", CUT_OFF)
def test_no_read_takes_half_of_a_filter(spark, root, numbers, text, capsys):
    for act in (
        lambda: lakeroot.spark.read(spark, "shop.numbers", root=root, filter=text),
        lambda: lakeroot.spark.delete(spark, "shop.numbers", root=root, where=text),
    ):
        with pytest.raises(InvalidInputError):
            act()
    code, out, _ = Run(root, capsys)(
        "job", "export", "shop.numbers", "out", "--where", text, "--dry-run"
    )
    assert (code, out) == (2, "")


@pytest.mark.parametrize("text", WHOLE)
def test_a_comment_or_a_semicolon_may_end_an_expression(spark, root, numbers, text, capsys):
    small = [True] * 3 + [False] * 5
    lakeroot.spark.backfill(
        spark, "shop.numbers", root=root, values={"x": text}, job_id="a", reads=["id"]
    )
    assert column(numbers, "x") == small
    more = {"column": "small", "expression": text, "where": text, "job_id": "b"}
    refill(spark, "shop.numbers", root=root, **more)
    assert column(numbers, "small") == [True] * 3 + [None] * 5
    rows = lakeroot.spark.read(spark, "shop.numbers", root=root, filter=text)
    assert rows.where("id > 0").count() == 2
    code, out, _ = Run(root, capsys)(
        "-o", "json", "job", "export", "shop.numbers", "out", "--where", text, "--dry-run"
    )
    assert (code, "3" in out) == (0, True)
    assert lakeroot.spark.delete(spark, "shop.numbers", root=root, where=text).deleted == 3
    assert column(numbers, "id") == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(("text", "count"), [(WHOLE[0], 3), (WHOLE[1], 3), (CUT_OFF[0], None)])
def test_rows_are_counted_in_sql_by_the_whole_filter(spark, root, numbers, text, count):
    rows = spark.read.format("lakeroot").options(root=root, filter=text)
    if count is None:
        with pytest.raises(Exception, match="LIMIT"):
            rows.load("shop.numbers").count()
        return
    assert rows.load("shop.numbers").count() == count
