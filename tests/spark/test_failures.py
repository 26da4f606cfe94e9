"""What Spark and Lance raise, in words and codes that tell whose mistake it is."""

import os
import signal
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import lakeroot.spark
from lakeroot.model.errors import (
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
)
from lakeroot.spark.failures import explained, translated
from tests.spark.conftest import put


@pytest.mark.parametrize(
    ("where", "words"),
    [("SELECT 1 +", "PARSE_SYNTAX_ERROR"), ("SELECT nothing", "UNRESOLVED_COLUMN")],
)
def test_a_query_that_is_wrong_is_bad_input(spark, where, words):
    with pytest.raises(InvalidInputError, match=words), translated("This cannot be"):
        spark.sql(where)


def test_files_that_are_not_there_are_bad_input(spark, root, catalog, tmp_path):
    with pytest.raises(InvalidInputError, match="PATH_NOT_FOUND"):
        lakeroot.spark.ingest(spark, str(tmp_path / "nothing"), "shop.t", root=root)


def test_a_write_into_a_missing_namespace_says_how_to_make_it(spark, root, catalog):
    with pytest.raises(NamespaceNotFoundError, match="lakeroot ns create sales"):
        lakeroot.spark.write(spark.range(1), "sales.t", root=root)


def test_a_value_that_does_not_fit_is_bad_input_and_changes_nothing(spark, root, catalog):
    place = put(catalog, "shop.t", pa.table({"id": [1, 2], "word": ["7", "x"]}))
    with pytest.raises(InvalidInputError, match="CAST_INVALID_INPUT") as raised:
        lakeroot.spark.update(spark, "shop.t", root=root, set={"id": "word"})
    assert len(str(raised.value).splitlines()) == 1
    assert lance.dataset(place).version == 1


def test_what_fails_by_itself_is_nobodys_mistake(spark):
    with pytest.raises(InternalError, match="broken"), translated("This cannot be"):
        spark.range(1).selectExpr("raise_error('broken')").collect()


def test_a_message_of_several_lines_is_told_to_its_end(spark):
    with pytest.raises(InvalidInputError) as raised, translated("This cannot be"):
        spark.sql("CREATE TEMP VIEW two (a) AS SELECT 1 AS x, 2 AS y")
    assert "too many data columns: View columns: `a`. Data columns: `x`, `y`. SQL" in str(
        raised.value
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The schemas differ:\nleft: a int\nright: b int", "differ: left: a int right: b int"),
        ("The table has a schema\nthat does not fit.\nTry again", "a schema that does not fit"),
        ("It ends here.\nMore can be said", "It ends here"),
        ("Not allowed here:\n+- Project [a]\n+- Range", "Not allowed here:"),
        ("[X] No such thing. SQLSTATE: 58030; line 1 pos 7;\n'Project ['x]", "pos 7"),
        (
            "An error occurred while calling o1.f.\n: java.io.IOException: no\nroute\n\tat a.b",
            "It failed. no route",
        ),
        ("Caused by: java.net.UnknownHostException: lake", "java.net.UnknownHostException: lake"),
        ("It failed\n\tat a.b\nCaused by: a.B: one,\ntwo\n\tat c.d\n", "a.B: one, two"),
    ],
)
def test_what_went_wrong_is_a_whole_sentence(text, expected):
    said = str(explained("It failed", RuntimeError(text)))
    assert said.endswith(expected)
    assert said.startswith("It failed. ")


@pytest.mark.parametrize("place", ["/rust/lance/src/io.rs:12:3", "src/namespace.rs:7:9"])
def test_places_in_rust_are_left_out(place):
    said = str(explained("It failed", RuntimeError(f"the disk is full, {place}")))
    assert said == "It failed. the disk is full"


def test_a_damaged_file_is_told_from_a_failure_of_ours(spark, root, catalog):
    place = put(catalog, "shop.t", pa.table({"id": list(range(1000))}))
    damaged = next(Path(place).glob("data/*.lance"))
    damaged.write_bytes(damaged.read_bytes()[:40])
    where = {"table": "shop.t", "root": root}
    for job in (
        lambda: lakeroot.spark.delete(spark, where="id = 1", **where),
        lambda: lakeroot.spark.merge(spark.range(3), on="id", **where),
        lambda: lakeroot.spark.index(spark, column="id", kind="BTREE", **where),
    ):
        with pytest.raises(InvalidTableStateError, match="cannot be read") as raised:
            job()
        assert "Restore the file" in raised.value.fix
    assert lance.dataset(place).version == 1


def test_a_worker_that_was_killed_is_named(spark, root, catalog):
    die = sf.udf(lambda _: os.kill(os.getpid(), signal.SIGKILL), "long")
    dying = spark.range(1).select(die("id").alias("id"))
    with pytest.raises(InternalError, match="a Python worker was killed"):
        lakeroot.spark.write(dying, "shop.t", root=root)
    assert lakeroot.open(root).tables() == []


def test_a_full_disk_is_named():
    text = "LanceError(IO): No space left on device (os error 28), /rust/lance-io/src/x.rs:1:2"
    for raised in (OSError(text), RuntimeError(f"Traceback\nOSError: {text}")):
        error = explained("Table t cannot be written", raised)
        assert "The disk of the table is full" in str(error)
        assert "Free some space" in error.fix
        assert ".rs" not in str(error)
