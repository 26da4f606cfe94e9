"""Jobs on tables: merge, delete, update, compact, index, backfill, ingest, export."""

from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeroot
import lakeroot.spark
from lakeroot.model.errors import (
    AlreadyExistsError,
    InvalidInputError,
    TableColumnNotFoundError,
    TableIndexAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.spark.refilling import refill
from tests.spark.test_merges import changes, content
from tests.spark.test_writing import frame, rows, where


def test_rows_are_deleted_by_predicate(spark, root, people):
    done = lakeroot.spark.delete(spark, "shop.people", root=root, where="id < 8 OR age = 5")
    assert done.deleted == 8 + len([i for i in range(8, 20) if i % 7 == 5])
    assert all(i >= 8 and i % 7 != 5 for i in content(people))
    nothing = lakeroot.spark.delete(spark, "shop.people", root=root, where="id = 12345")
    assert (nothing.deleted, nothing.version) == (0, done.version)


def test_a_wrong_predicate_is_refused(spark, root, people):
    with pytest.raises(InvalidInputError, match="nothing"):
        lakeroot.spark.delete(spark, "shop.people", root=root, where="nothing = 1")


def test_rows_are_updated_by_condition(spark, root, people):
    done = lakeroot.spark.update(
        spark,
        "shop.people",
        root=root,
        set={"name": "upper(name)", "age": "age + 100L"},
        where="id BETWEEN 4 AND 7",
    )
    assert done.updated == 4
    assert content(people)[5] == ("N5", 105)
    assert content(people)[8] == ("n8", 1)
    assert len(content(people)) == 20
    with pytest.raises(TableColumnNotFoundError, match="'age'"):
        lakeroot.spark.update(spark, "shop.people", root=root, set={"agee": "1"})


def test_small_fragments_become_one(spark, root, people):
    planned = lakeroot.spark.compact(spark, "shop.people", root=root, dry_run=True)
    assert (planned.fragments_before, planned.fragments_after, planned.tasks) == (4, 1, 1)
    done = lakeroot.spark.compact(spark, "shop.people", root=root)
    assert (done.fragments_before, done.fragments_after) == (4, 1)
    assert rows(people) == list(range(20))
    assert lakeroot.spark.compact(spark, "shop.people", root=root).tasks == 0


@pytest.mark.parametrize(
    ("column", "kind", "query"),
    [("id", "BTREE", "id = 7"), ("age", "BITMAP", "age = 3"), ("name", "ZONEMAP", "name = 'n7'")],
)
def test_a_scalar_index_is_built_and_used(spark, root, people, column, kind, query):
    expected = lance.dataset(people).to_table(filter=query).num_rows
    made = lakeroot.spark.index(spark, "shop.people", root=root, column=column, kind=kind)
    table = lance.dataset(people)
    assert made.name in [each.name for each in table.describe_indices()]
    assert "ScalarIndexQuery" in table.scanner(filter=query).explain_plan()
    assert table.to_table(filter=query).num_rows == expected > 0
    with pytest.raises(TableIndexAlreadyExistsError):
        lakeroot.spark.index(spark, "shop.people", root=root, column=column, kind=kind)


@pytest.mark.parametrize(
    ("column", "kind", "query"),
    [
        ("id", "BLOOMFILTER", "id = 7"),
        ("labels", "LABEL_LIST", "array_has_any(labels, ['l1'])"),
        ("text", "NGRAM", "contains(text, 'word7')"),
        ("place.at", "BTREE", "place.at = 7"),
        ("place.in.city", "BITMAP", "place.in.city = 'c1'"),
    ],
)
def test_every_kind_of_scalar_index_is_built_and_used(spark, root, catalog, column, kind, query):
    rows = spark.range(0, 40, 1, 2).selectExpr(
        "id",
        "array(concat('l', id % 4)) AS labels",
        "concat('some word', id % 10) AS text",
        "named_struct('at', id, 'in', named_struct('city', concat('c', id % 3))) AS place",
    )
    lakeroot.spark.write(rows, "shop.many", root=root)
    table = lance.dataset(where(catalog, "shop", "many"))
    expected = table.to_table(filter=query).num_rows
    made = lakeroot.spark.index(spark, "shop.many", root=root, column=column, kind=kind)
    table.checkout_latest()
    assert made.name in [each.name for each in table.describe_indices()]
    assert "ScalarIndexQuery" in table.scanner(filter=query).explain_plan()
    assert table.to_table(filter=query).num_rows == expected > 0


def test_an_index_of_words_finds_them(spark, root, catalog):
    rows = spark.range(0, 40, 1, 2).selectExpr("id", "concat('some word', id % 10) AS text")
    lakeroot.spark.write(rows, "shop.words", root=root)
    lakeroot.spark.index(spark, "shop.words", root=root, column="text", kind="INVERTED")
    found = lakeroot.spark.read(spark, "shop.words", root=root, full_text_query="word7")
    assert sorted(row.id for row in found.collect()) == [7, 17, 27, 37]


@pytest.mark.parametrize(("column", "kind"), [("name", "BTREE"), ("age", "BITMAP")])
def test_an_index_is_replaced_when_asked(spark, root, people, column, kind):
    options = {"root": root, "column": column, "kind": kind}
    lakeroot.spark.index(spark, "shop.people", **options)
    lance.write_dataset(lance.dataset(people).to_table().slice(0, 5), people, mode="append")
    made = lakeroot.spark.index(spark, "shop.people", replace=True, **options)
    table = lance.dataset(people)
    assert [each.name for each in table.describe_indices()] == [made.name]
    assert table.stats.index_stats(made.name)["num_indexed_rows"] == table.count_rows() == 25


def test_a_vector_index_finds_the_nearest(spark, root, catalog):
    data = spark.range(0, 600, 1, 2).selectExpr(
        "id", "transform(sequence(0, 7), i -> double(id * (i + 1) % 97)) AS v"
    )
    lakeroot.spark.write(data, "shop.v", root=root, vectors={"v": 8})
    made = lakeroot.spark.index(
        spark, "shop.v", root=root, column="v", kind="IVF_PQ", partitions=4, sub_vectors=2
    )
    table = lance.dataset(where(catalog, "shop", "v"))
    plan = table.scanner(nearest={"column": "v", "q": [0.0] * 8, "k": 1}).explain_plan()
    assert "ANN" in plan
    found = lakeroot.spark.read(
        spark, "shop.v", root=root, vector=[0.0] * 8, k=3, nprobes=4, refine_factor=10
    )
    assert found.where("id % 97 = 0").count() == 3
    assert made.segments >= 1


def test_an_impossible_index_is_refused(spark, root, people):
    with pytest.raises(InvalidInputError, match="'BTREE'"):
        lakeroot.spark.index(spark, "shop.people", root=root, column="id", kind="BTRE")
    with pytest.raises(InvalidInputError, match="lakeroot index create"):
        lakeroot.spark.index(spark, "shop.people", root=root, column="id", kind="ivf_rq")
    with pytest.raises(InvalidInputError, match="int64"):
        lakeroot.spark.index(spark, "shop.people", root=root, column="id", kind="IVF_PQ")
    with pytest.raises(TableColumnNotFoundError, match=r"'id\.in'"):
        lakeroot.spark.index(spark, "shop.people", root=root, column="id.in", kind="BTREE")


def test_files_come_in_and_go_out(spark, root, catalog, tmp_path):
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "x.parquet")
    (tmp_path / "y.csv").write_text("a,b\n4,x\n5,y\n")
    (tmp_path / "z.json").write_text('{"a": 6}\n')
    lakeroot.spark.ingest(spark, str(tmp_path / "x.parquet"), "shop.x", root=root)
    lakeroot.spark.ingest(spark, str(tmp_path / "y.csv"), "shop.y", root=root, format="csv")
    lakeroot.spark.ingest(spark, str(tmp_path / "z.json"), "shop.z", root=root, format="json")
    assert lance.dataset(where(catalog, "shop", "y")).to_table().to_pylist() == [
        {"a": 4, "b": "x"},
        {"a": 5, "b": "y"},
    ]
    count = lakeroot.spark.export(spark, "shop.x", str(tmp_path / "out"), root=root, filter="a > 1")
    assert count == 2
    assert sorted(pq.read_table(tmp_path / "out").column("a").to_pylist()) == [2, 3]
    with pytest.raises(InvalidInputError, match="'parquet'"):
        lakeroot.spark.ingest(spark, str(tmp_path), "shop.w", root=root, format="parket")


def test_a_folder_of_images_becomes_a_table_of_blobs(spark, root, catalog, tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(bytes([number]) * 10)
    lakeroot.spark.ingest(spark, str(tmp_path / "*.png"), "shop.i", root=root, format="binaryFile")
    table = lance.dataset(where(catalog, "shop", "i"))
    assert {b.readall() for b in table.take_blobs("content", indices=[0, 1, 2])} == {
        bytes([n]) * 10 for n in range(3)
    }


def test_a_table_moves_to_another_catalog(spark, root, people, tmp_path):
    made = lakeroot.spark.convert(
        spark,
        "shop.people",
        "people",
        source={"root": root},
        target={"root": str(tmp_path / "other")},
    )
    assert made.rows == 20


def test_a_catalog_that_arbitrates_versions_takes_every_kind_of_commit(spark, root):
    client = lakeroot.DirectoryNamespace(root=root, table_version_management="true")
    client.create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    options = {"root": root, "property.table_version_management": "true"}
    lakeroot.spark.write(frame(spark, 0, 10), "shop.t", **options)
    lakeroot.spark.write(frame(spark, 10, 20), "shop.t", **options)
    source = frame(spark, 15, 25)
    for strategy in ("driver", "spark"):
        lakeroot.spark.merge(source, "shop.t", on="id", strategy=strategy, **options)
    lakeroot.spark.delete(spark, "shop.t", where="id < 5", **options)
    lakeroot.spark.update(spark, "shop.t", set={"name": "'x'"}, where="id = 5", **options)
    lakeroot.spark.compact(spark, "shop.t", **options)
    lakeroot.spark.index(spark, "shop.t", column="id", kind="BTREE", **options)
    lakeroot.spark.backfill(spark, "shop.t", values={"d": "id * 2"}, job_id="d", **options)
    table = lance.dataset(namespace_client=client, table_id=["shop", "t"])
    assert sorted(table.to_table().column("id").to_pylist()) == list(range(5, 25))
    assert table.to_table(filter="id = 5").to_pylist() == [{"id": 5, "name": "x", "d": 10}]
    request = lance_namespace.ListTableVersionsRequest(id=["shop", "t"])
    listed = [version.version for version in client.list_table_versions(request).versions]
    assert sorted(listed) == list(range(1, table.version + 1))


CALLS: dict[str, Any] = {
    "delete": lambda spark, **more: lakeroot.spark.delete(spark, where="id < 3", **more),
    "update": lambda spark, **more: lakeroot.spark.update(spark, set={"age": "age + 1"}, **more),
    "compact": lakeroot.spark.compact,
    "index": lambda spark, **more: lakeroot.spark.index(spark, column="id", kind="BTREE", **more),
    "merge": lambda spark, **more: lakeroot.spark.merge(changes(spark), on="id", **more),
    "backfill": lambda spark, **more: lakeroot.spark.backfill(
        spark, values={"twice": "id * 2"}, job_id="twice", **more
    ),
    "refill": lambda spark, **more: refill(
        spark, column="age", expression="age + 1", job_id="older", **more
    ),
}


@pytest.mark.parametrize("job", CALLS)
@pytest.mark.parametrize("option", [{"dryrun": True}, {"brunch": "dev"}])
def test_a_job_refuses_what_it_does_not_know(spark, root, people, job, option):
    with pytest.raises(InvalidInputError, match="There is no option"):
        CALLS[job](spark, table="shop.people", root=root, **option)
    assert lance.dataset(people).version == 1


@pytest.mark.parametrize("job", ["delete", "update", "compact", "index", "backfill", "refill"])
def test_a_job_that_works_on_the_main_branch_alone_refuses_another(spark, root, people, job):
    lance.dataset(people).create_branch("dev")
    with pytest.raises(InvalidInputError, match="no option 'branch'"):
        CALLS[job](spark, table="shop.people", root=root, branch="dev")
    assert content(people)[0] == ("n0", 0)


def test_a_merge_has_no_mode(spark, root, people):
    with pytest.raises(InvalidInputError, match="no mode"):
        CALLS["merge"](spark, table="shop.people", root=root, mode="overwrite")


def test_a_dry_run_counts_what_would_change_and_changes_nothing(spark, root, people, tmp_path):
    where = {"table": "shop.people", "root": root, "dry_run": True}
    assert CALLS["delete"](spark, **where).deleted == 3
    assert CALLS["update"](spark, **where).updated == 20
    merged = CALLS["merge"](spark, **where)
    assert (merged.version, merged.inserted, merged.updated, merged.deleted) == (1, 1, 2, 0)
    wide = changes(spark).selectExpr("*", "age AS more")
    merged = lakeroot.spark.merge(wide, on="id", mergeSchema=True, **where)
    assert (merged.inserted, merged.updated) == (1, 2)
    new = lakeroot.spark.merge(changes(spark), "shop.new", on="id", root=root, dry_run=True)
    assert (new.version, new.inserted) == (0, 3)
    out = tmp_path / "out"
    assert lakeroot.spark.export(spark, target=str(out), filter="id < 5", **where) == 5
    assert not out.exists()
    copied = lakeroot.spark.convert(
        spark,
        "shop.people",
        "shop.copy",
        source={"root": root},
        target={"root": root},
        dry_run=True,
    )
    assert (copied.version, copied.rows) == (0, 20)
    assert lance.dataset(people).version == 1
    assert lakeroot.open(root).tables() == ["shop.people"]


def test_a_dry_run_finds_what_the_job_would_be_refused_for(spark, root, people, tmp_path):
    where = {"table": "shop.people", "root": root, "dry_run": True}
    with pytest.raises(InvalidInputError, match="nme"):
        lakeroot.spark.delete(spark, where="nme = 1", **where)
    with pytest.raises(TableColumnNotFoundError, match="'age'"):
        lakeroot.spark.update(spark, set={"aeg": "1"}, **where)
    with pytest.raises(InvalidInputError, match="2 rows with id=3"):
        lakeroot.spark.merge(changes(spark).union(changes(spark)), on="id", **where)
    source = str(tmp_path / "rows.csv")
    Path(source).write_text("id,nme\n1,x\n")
    with pytest.raises(InvalidInputError, match="has no column 'nme'"):
        lakeroot.spark.ingest(spark, source, format="csv", **where)
    with pytest.raises(AlreadyExistsError):
        lakeroot.spark.ingest(spark, source, format="csv", mode="create", **where)


def test_an_update_and_a_delete_with_a_job_id_happen_once(spark, root, people):
    again = []
    for _ in range(2):
        updated = CALLS["update"](spark, table="shop.people", root=root, job_id="birthday")
        deleted = CALLS["delete"](spark, table="shop.people", root=root, job_id="purge")
        again.append((updated.already_done, deleted.already_done))
    assert again == [(False, False), (True, True)]
    assert content(people)[3] == ("n3", 4)
    assert lance.dataset(people).version == 3


@pytest.mark.parametrize("strategy", ["driver", "spark"])
def test_a_merge_says_why(spark, root, strategy):
    managed = lakeroot.DirectoryNamespace(root=root, table_version_management="true")
    where = {"root": root, "property.table_version_management": "true"}
    lakeroot.spark.write(changes(spark), "people", **where)
    lakeroot.spark.merge(
        changes(spark).selectExpr("id + 1 AS id", "name", "age"),
        "people",
        on="id",
        strategy=strategy,
        message="they moved",
        **where,
    )
    assert managed.history(1)[0].message == "they moved"


def test_a_job_that_is_named_by_a_number_happens_once(spark, root, people):
    """A day is written as one, and was an error of Lance's at the end of the work."""
    where_it_is = {"table": "shop.people", "root": root}
    new = spark.createDataFrame([(200, "new", 1)], "id long, name string, age int")
    jobs: list[Any] = [
        lambda day: lakeroot.spark.merge(new, on="id", job_id=day, **where_it_is),
        lambda day: lakeroot.spark.update(spark, set={"age": "age + 1"}, job_id=day, **where_it_is),
        lambda day: lakeroot.spark.delete(spark, where="id < 5", job_id=day, **where_it_is),
        lambda day: lakeroot.spark.backfill(spark, values={"x": "id"}, job_id=day, **where_it_is),
    ]
    for number, job in enumerate(jobs):
        first, again = job(20261116 + number), job(20261116 + number)
        assert not first.already_done
        assert (again.already_done, again.version) == (True, first.version)
    assert lance.dataset(people).count_rows() == 16


@pytest.mark.parametrize(
    ("job", "given", "words"),
    [
        ("backfill", {"job_id": "", "values": {"x": "id"}}, "needs a job id"),
        ("backfill", {"job_id": "j", "values": "id * 2"}, "cannot compute 'id \\* 2'"),
        ("backfill", {"job_id": "j", "values": {"x": "id"}, "batch_size": 0}, "batch_size"),
        ("update", {"set": "age = 1"}, "Columns cannot be set by 'age = 1'"),
        ("compact", {"target_rows_per_fragment": 0}, "cannot be 0. it takes a whole number above"),
        ("compact", {"target_rows_per_fragment": "many"}, "cannot be 'many'"),
        ("index", {"column": "id", "kind": "IVF_FLAT", "partitions": -1}, "'partitions'"),
        ("index", {"column": "id", "kind": "IVF_PQ", "sub_vectors": 2.5}, "'sub_vectors'"),
        ("read", {"rot": "here"}, "Did you mean 'root'"),
    ],
)
def test_what_means_nothing_is_bad_input_before_anything_is_done(
    spark, root, people, job, given, words
):
    where_it_is = {"table": "shop.people"} | ({} if job == "read" else {"root": root})
    with pytest.raises(InvalidInputError, match=words):
        getattr(lakeroot.spark, job)(spark, **where_it_is, **given)
    assert lance.dataset(people).version == 1


def test_a_misspelt_argument_of_a_job_is_answered_with_the_nearest(spark, root, people):
    rows = changes(spark)
    with pytest.raises(InvalidInputError, match="Did you mean 'strategy'"):
        lakeroot.spark.merge(rows, "shop.people", root=root, on="id", strateg="driver")
    with pytest.raises(InvalidInputError, match="Did you mean 'format'"):
        lakeroot.spark.ingest(spark, "a.csv", "shop.people", root=root, frmat="csv")
    with pytest.raises(InvalidInputError, match="Did you mean 'writer'"):
        lakeroot.spark.export(spark, "shop.people", "out", root=root, writr={})
    with pytest.raises(InvalidInputError, match="Did you mean 'root'"):
        lakeroot.spark.convert(spark, "shop.people", "t", source={"rot": root}, target={})


def test_a_table_that_is_not_there_is_answered_with_the_nearest(spark, root, people):
    jobs: dict[str, dict[str, Any]] = {
        "read": {},
        "delete": {"where": "id < 5"},
        "update": {"set": {"age": "1"}},
        "compact": {},
        "backfill": {"values": {"x": "id"}, "job_id": "x"},
    }
    for job, given in jobs.items():
        with pytest.raises(TableNotFoundError, match=r"no table shop.peple. Did you mean shop.peo"):
            getattr(lakeroot.spark, job)(spark, "shop.peple", root=root, **given)


def test_a_key_that_is_named_twice_is_refused(spark, root, people):
    with pytest.raises(InvalidInputError, match="key column 'id' is named twice"):
        lakeroot.spark.merge(changes(spark), "shop.people", root=root, on=["id", "id"])
