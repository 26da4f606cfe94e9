"""The plain values under the pipeline: names, options, Java, packing, failures."""

import subprocess
import sys

import pytest

from lakeroot.model.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    TableNotFoundError,
)
from lakeroot.spark.catalogs import Catalog, parse_name
from lakeroot.spark.failures import explained, nearest
from lakeroot.spark.java import bundled_java_home, java_home
from lakeroot.spark.options import ReadOptions, WriteOptions, parse, table_of
from lakeroot.spark.planning import pack
from lakeroot.spark.spark_sql.caches import _may_be
from lakeroot.spark.spark_sql.predicates import predicate


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("table", ("table",)),
        ("a.b.c", ("a", "b", "c")),
        ("a.`b.c`", ("a", "b.c")),
        ('"x""y".z', ('x"y', "z")),
    ],
)
def test_a_name_is_read_with_its_quotes(text, names):
    assert parse_name(text) == names


@pytest.mark.parametrize("text", ["", "a..b", ".a", "a.", "`a", "`a`b"])
def test_a_broken_name_is_refused(text):
    with pytest.raises(InvalidInputError):
        parse_name(text)


def test_options_are_read_in_either_spelling():
    expected = ReadOptions(columns=("a", "b"), with_row_id=True, vector=(1.0, 2.0))
    assert parse(ReadOptions, {"columns": "a, b", "withRowId": "true", "vector": "[1, 2]"}) == (
        expected
    )
    assert parse(ReadOptions, {"columns": ["a", "b"], "with_row_id": True, "vector": [1, 2]}) == (
        expected
    )
    assert parse(WriteOptions, {"vectors": "e:3,f:4"}).vectors == {"e": 3, "f": 4}


def test_credentials_never_show():
    ref = table_of(
        {
            "root": "s3://x",
            "table": "t",
            "storage.aws_secret_access_key": "HIDDEN",
            "property.token": "HIDDEN",
        }
    )
    assert "HIDDEN" not in repr(ref)
    assert "HIDDEN" not in repr(Catalog.of("rest", {"token": "HIDDEN"}))


def test_the_bundled_java_starts_with_the_flags_of_spark(tmp_path):
    home = bundled_java_home(tmp_path)
    command = [
        str(home / "bin" / "java"),
        "--add-modules=jdk.incubator.vector",
        "-Dx=a b",
        "-version",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "version" in answer.stderr


def test_an_old_java_home_is_replaced_by_the_bundled_one(tmp_path):
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    home = java_home({"JAVA_HOME": str(tmp_path), "PATH": ""})
    assert home is not None
    assert home != tmp_path


def test_fragments_are_packed_by_size():
    tasks = pack({0: 10, 1: 1, 2: 1, 3: 8}, 2)
    assert [task.fragments for task in tasks] == [(0,), (1, 2, 3)]
    assert len(pack({0: 1}, 8)) == 1


def test_a_worker_s_error_keeps_its_class_and_words():
    trace = "An exception was thrown\nTraceback...\nlakeroot.model.errors.TableNotFoundError: gone"
    error = explained("The job failed", RuntimeError(trace))
    assert isinstance(error, TableNotFoundError)
    assert str(error) == "gone"


def test_a_foreign_error_becomes_one_line():
    java = "Job aborted\n\tat org.apache...\nCaused by: java.io.IOException: disk full"
    error = explained("The write failed", RuntimeError(java))
    assert isinstance(error, InternalError)
    assert str(error) == "The write failed. disk full"
    conflict = explained("x", OSError("Commit conflict for version 3"))
    assert isinstance(conflict, ConcurrentModificationError)


def test_the_nearest_word_is_suggested():
    assert nearest("colums", ["columns", "filter"]) == "Did you mean 'columns'?"


def test_the_spark_modules_need_no_session_to_import():
    command = [sys.executable, "-c", "import lakeroot.spark, pyspark_lakeroot"]
    subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (["=", "timestamp", "1767232800000000"], "arrow_cast(1767232800000000"),
        (["<", "timestamp_ntz", "1500000"], None),
        ([">", "double", "0.0"], None),
        ([">", "double", "NaN"], None),
        (["=", "string", "it's"], "'it''s'"),
        (["<=", "date", "1"], "date '1970-01-02'"),
        (["=", "interval", "1"], None),
    ],
)
def test_a_predicate_is_pushed_only_where_lance_means_the_same(tree, text):
    name, kind, value = tree
    literal = {"type": kind, "value": value}
    asked = {"name": name, "children": [{"field": ["a"]}, literal]}
    made = predicate(asked)
    assert made is None if text is None else text in str(made)
    assert predicate({"name": "NOT", "children": [asked]}, {"a": None}) is None
    assert predicate({"name": "OR", "children": [asked, {"name": "CAST", "children": []}]}) is None


@pytest.mark.parametrize(
    ("other", "may_be"),
    [
        (Catalog.at("file:///lake/"), True),
        (Catalog.at("/lake", {"versions": "managed"}), True),
        (Catalog.at("/other"), False),
        (Catalog.of("rest", {"uri": "http://here"}), True),
    ],
)
def test_a_catalog_is_taken_for_another_unless_it_lies_elsewhere(other, may_be):
    assert _may_be(Catalog.at("/lake"), other) is may_be
    assert _may_be(other, Catalog.at("/lake")) is may_be
    assert not _may_be(Catalog.of("rest", {"uri": "http://here"}), Catalog.of("rest", {"uri": "x"}))
