"""Merges: upserts by keys, beside other writers, with and without a name."""

import threading
from collections.abc import Callable
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql.classic.dataframe import DataFrame

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    TableNotFoundError,
)
from lakeroot.spark import commits, merging, passing
from lakeroot.spark.commits import commit
from lakeroot.spark.types import is_blob
from tests.spark.conftest import put
from tests.spark.test_writing import orphans


def changes(spark):
    return spark.createDataFrame(
        [(3, "three", 33), (19, "last", 99), (100, "new", 1)], "id long, name string, age int"
    )


def content(location):
    return {r["id"]: (r["name"], r["age"]) for r in lance.dataset(location).to_table().to_pylist()}


@pytest.mark.parametrize("strategy", ["driver", "spark"])
def test_an_upsert_replaces_and_inserts(spark, root, people, strategy):
    before = content(people)
    done = lakeroot.spark.merge(
        changes(spark), "shop.people", root=root, on="id", strategy=strategy
    )
    assert (done.inserted, done.updated, done.deleted) == (1, 2, 0)
    assert content(people) == before | {3: ("three", 33), 19: ("last", 99), 100: ("new", 1)}
    lance.dataset(people).validate()
    assert orphans(people) == set()


@pytest.mark.parametrize("strategy", ["auto", "spark"])
def test_keys_that_sql_finds_equal_are_one_key(spark, root, catalog, strategy):
    """Zero has two signs, and what is not a number many bits."""
    kind = pa.schema([("key", pa.float64()), ("name", pa.string())])
    old = {"key": [0.0, -0.0, 1.5, float("nan")], "name": ["zero", "minus", "more", "none"]}
    location = put(catalog, "shop.t", pa.table(old, kind))
    given = [(-0.0, "new zero"), (float("nan"), "new none"), (2.5, "new")]
    source = spark.createDataFrame(given, "key double, name string")
    done = lakeroot.spark.merge(source, "shop.t", root=root, on="key", strategy=strategy)
    assert (done.inserted, done.updated) == (1, 3)
    names = lance.dataset(location).to_table().column("name").to_pylist()
    assert sorted(names) == ["more", "new", "new none", "new zero", "new zero"]


def test_a_merge_takes_columns_of_any_name(spark, root, catalog):
    """Names that a merge marks rows with may be those of columns, and so may keys called `rows`."""
    names = ["rows", "__clause", "__in_source", "__lakeroot_is_there", "__LAKEROOT_CLAUSE"]
    location = put(catalog, "shop.t", pa.table({name: [1, 2] for name in names}))
    row = ", ".join(f"id + 10 AS {name}" for name in names[1:])
    source = spark.sql(f"SELECT id AS rows, {row}, 7 AS __in_target FROM range(2, 4)")
    for _ in range(2):
        lakeroot.spark.merge(
            source, "shop.t", root=root, on="rows", strategy="spark", merge_schema=True
        )
    found = lance.dataset(location).to_table().sort_by("rows").to_pylist()
    assert [list(each.values()) for each in found] == [
        [1, 1, 1, 1, 1, None],
        [2, 12, 12, 12, 12, 7],
        [3, 13, 13, 13, 13, 7],
    ]
    with pytest.raises(InvalidInputError, match="has 2 rows with rows=2"):
        lakeroot.spark.merge(source.union(source), "shop.t", root=root, on="rows")


@pytest.mark.parametrize("strategy", ["driver", "spark"])
def test_a_merge_can_delete_what_the_source_lacks(spark, root, people, strategy):
    done = lakeroot.spark.merge(
        changes(spark),
        "shop.people",
        root=root,
        on=["id"],
        when_matched="nothing",
        when_not_matched_by_source="delete",
        strategy=strategy,
    )
    assert (done.inserted, done.deleted) == (1, 18)
    assert content(people) == {3: ("n3", 3), 19: ("n19", 5), 100: ("new", 1)}


def test_columns_the_source_lacks_keep_their_values(spark, root, people):
    source = spark.createDataFrame([(3, "three"), (50, "fifty")], "id long, name string")
    lakeroot.spark.merge(source, "shop.people", root=root, on="id")
    assert content(people)[3] == ("three", 3)
    assert content(people)[50] == ("fifty", None)


def test_a_merge_into_a_missing_table_creates_it(spark, root, catalog):
    done = lakeroot.spark.merge(changes(spark), "shop.made", root=root, on="id")
    assert (done.version, done.inserted) == (1, 3)


@pytest.mark.parametrize(
    ("row", "words"), [((3, "again", 0), "2 rows with id=3"), ((None, "x", 0), "null key")]
)
def test_ambiguous_keys_are_refused(spark, root, people, row, words):
    source = changes(spark).union(spark.createDataFrame([row], changes(spark).schema))
    before = lance.dataset(people).version
    with pytest.raises(InvalidInputError, match=words):
        lakeroot.spark.merge(source, "shop.people", root=root, on="id")
    assert lance.dataset(people).version == before


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_merge_by_a_column_that_the_table_lacks_says_so(spark, root, people, dry_run):
    twice = spark.createDataFrame([(1, 7), (2, 7)], "id long, month int")
    with pytest.raises(LakerootError, match="no column 'month'"):
        lakeroot.spark.merge(twice, "shop.people", root=root, on="month", dry_run=dry_run)


def test_a_merge_with_a_job_id_happens_once(spark, root, people):
    first = lakeroot.spark.merge(changes(spark), "shop.people", root=root, on="id", job_id="j")
    again = lakeroot.spark.merge(changes(spark), "shop.people", root=root, on="id", job_id="j")
    assert again.already_done
    assert again.version == first.version


def test_a_job_id_that_has_named_one_change_names_no_other(spark, root, people):
    """It would be taken for done, and nothing would happen."""
    changes(spark).createOrReplaceTempView("changes")
    jobs: dict[str, Callable[..., Any]] = {
        "write": lambda **named: lakeroot.spark.write(changes(spark), **named),
        "merge": lambda **named: lakeroot.spark.merge(changes(spark), on="id", **named),
        "update": lambda **named: lakeroot.spark.update(spark, set={"age": "1"}, **named),
        "delete": lambda **named: lakeroot.spark.delete(spark, where="id < 5", **named),
        "backfill": lambda **named: lakeroot.spark.backfill(spark, values={"x": "id"}, **named),
    }
    named: dict[str, Any] = {"table": "shop.people", "root": root}
    for verb, job in jobs.items():
        assert not job(**named, job_id=verb).already_done
    version = lance.dataset(people).version
    for verb, job in jobs.items():
        assert job(**named, job_id=verb).already_done
        for other in jobs.keys() - {verb}:
            with pytest.raises(InvalidInputError, match=f"was made by a {other} under this id"):
                job(**named, job_id=other)
    assert lance.dataset(people).version == version


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("matched", ["update", "delete"])
def test_a_merge_that_inserts_nothing_makes_no_table(spark, root, people, matched, dry_run):
    with pytest.raises(TableNotFoundError, match=r"Did you mean shop\.people"):
        lakeroot.spark.merge(
            changes(spark),
            "shop.peple",
            root=root,
            on="id",
            when_matched=matched,
            when_not_matched="nothing",
            dry_run=dry_run,
        )
    assert lakeroot.open(root).tables("shop") == ["shop.people"]


def test_a_merge_that_made_its_table_is_known_by_its_job_id(spark, root, catalog):
    named: dict[str, Any] = {"table": "shop.new", "root": root, "on": "id", "job_id": "17"}
    assert not lakeroot.spark.merge(changes(spark), **named).already_done
    assert lakeroot.spark.merge(changes(spark), **named).already_done


def lose_an_answer(monkeypatch):
    """Let the next commit of changed rows happen, and its answer be that of a lost race."""
    answers = ["lost"]

    def losing(*given, **named):
        made = commit(*given, **named)
        if answers:
            raise ConcurrentModificationError(answers.pop())
        return made

    monkeypatch.setattr(passing, "commit", losing)


@pytest.mark.parametrize("strategy", ["driver", "spark"])
def test_a_merge_goes_on_top_of_what_others_append(spark, root, people, strategy, monkeypatch):
    """Begun anew beside each append, it would never end beside a busy stream."""
    before = content(people)
    made, left = commits._next_only, [*range(1000, 1003)]

    def late(*given):
        if left:
            row = {"id": [left.pop()], "name": ["late"], "age": [1]}
            columns = lance.dataset(people).schema
            lance.write_dataset(pa.table(row).cast(columns), people, mode="append")
        return made(*given)

    monkeypatch.setattr(commits, "_next_only", late)
    monkeypatch.setattr(merging, "until_uncontested", lambda attempt: attempt())
    done = lakeroot.spark.merge(
        changes(spark), "shop.people", root=root, on="id", strategy=strategy
    )
    assert (done.version, done.inserted, done.updated) == (5, 1, 2)
    merged = {3: ("three", 33), 19: ("last", 99), 100: ("new", 1)}
    appended = dict.fromkeys(range(1000, 1003), ("late", 1))
    assert content(people) == before | merged | appended
    assert orphans(people) == set()


@pytest.mark.parametrize("strategy", ["driver", "spark"])
def test_a_merge_whose_answer_was_lost_is_not_done_again(
    spark, root, people, strategy, monkeypatch
):
    lose_an_answer(monkeypatch)
    done = lakeroot.spark.merge(
        changes(spark), "shop.people", root=root, on="id", strategy=strategy
    )
    assert (done.version, done.already_done) == (2, False), "it knows what it has done"
    assert lance.dataset(people).version == 2


def test_a_merge_by_clauses_whose_answer_was_lost_is_not_applied_twice(
    spark, root, people, monkeypatch
):
    lakeroot.spark.use_catalog(spark, "lost", root=root)
    lose_an_answer(monkeypatch)
    lakeroot.spark.sql(
        spark,
        "MERGE INTO lost.shop.people t USING (SELECT 3L AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET age = t.age + 1",
    )
    assert content(people)[3] == ("n3", 4)


def test_a_source_of_few_but_wide_rows_is_not_brought_into_the_driver(
    spark, root, catalog, monkeypatch
):
    location = put(catalog, "shop.w", pa.table({"id": [1], "text": ["old"]}))
    brought = []
    original = DataFrame.toArrow

    def spied(frame):
        rows = original(frame)
        brought.append(rows.nbytes)
        return rows

    monkeypatch.setattr(DataFrame, "toArrow", spied)
    monkeypatch.setattr(merging, "DRIVER_BYTES", 1 << 20)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    try:
        wide = spark.range(2000).selectExpr("id", "repeat('x', 4096) AS text")
        done = lakeroot.spark.merge(wide, "shop.w", root=root, on="id")
        assert (done.inserted, done.updated) == (1999, 1)
        assert 0 < max(brought) < 2 << 20
        with pytest.raises(InvalidInputError, match="The driver cannot merge this"):
            lakeroot.spark.merge(wide, "shop.w", root=root, on="id", strategy="driver")
        few = wide.limit(100).selectExpr("id", "upper(text) AS text")
        done = lakeroot.spark.merge(few, "shop.w", root=root, on="id", strategy="driver")
        assert (done.inserted, done.updated) == (0, 100)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert lance.dataset(location).count_rows("text like 'X%'") == 100


def test_many_narrow_rows_are_too_many_for_the_driver_by_their_bytes(spark, monkeypatch):
    monkeypatch.setattr(merging, "DRIVER_BYTES", 1600)
    monkeypatch.setattr(merging, "_TINY_BYTES", 0)
    rows = spark.range(101).selectExpr("id", "id AS more")
    assert merging._small(rows) is None
    assert merging._small(rows.limit(100)) == rows.limit(100).toArrow()


def test_the_driver_refuses_what_it_would_leave_to_spark(spark, root, people):
    part = changes(spark).select("id", "age")
    with pytest.raises(InvalidInputError, match="The driver cannot merge this") as refused:
        lakeroot.spark.merge(part, "shop.people", root=root, on="id", strategy="driver")
    assert "whole rows" in str(refused.value)
    assert lance.dataset(people).version == 1


def test_a_merge_takes_blobs(spark, root, people):
    source = changes(spark).selectExpr("id", "name", "age", "unhex('0102') AS img")
    where = {"root": root, "on": "id", "merge_schema": True}
    with pytest.raises(InvalidInputError, match="'nosuch'"):
        lakeroot.spark.merge(source, "shop.people", blobs="nosuch", **where)
    lakeroot.spark.merge(source, "shop.people", blobs="img", **where)
    table = lance.dataset(people)
    assert is_blob(table.schema.field("img"))
    number = table.to_table(columns=["id"]).column("id").to_pylist().index(100)
    assert table.take_blobs("img", indices=[number])[0].readall() == b"\1\2"


def test_upserts_of_one_new_key_never_make_two_rows(spark, root, people):
    failures = []

    def work(number):
        source = spark.createDataFrame(
            [(500, f"w{number}", number), (600 + number, "own", 0)], "id long, name string, age int"
        )
        try:
            lakeroot.spark.merge(
                source,
                "shop.people",
                root=root,
                on="id",
                strategy="spark" if number % 2 else "driver",
            )
        except LakerootError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    ids = lance.dataset(people).to_table().column("id").to_pylist()
    assert ids.count(500) == 1
    assert {600, 601, 602, 603} <= set(ids)
    assert len(ids) == len(set(ids)) == 25
