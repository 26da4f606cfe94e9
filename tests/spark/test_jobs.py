"""Jobs on tables: merge, delete, update, compact, index, backfill, ingest, export."""

import threading
import time
from pathlib import Path

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
    LakerootError,
    TableColumnNotFoundError,
    TableIndexAlreadyExistsError,
)
from tests.spark.conftest import put
from tests.spark.test_writing import frame, orphans, rows, where


@pytest.fixture
def people(catalog):
    data = pa.table(
        {
            "id": pa.array(range(20), pa.int64()),
            "name": [f"n{i}" for i in range(20)],
            "age": pa.array([i % 7 for i in range(20)], pa.int32()),
        }
    )
    return put(catalog, "shop.people", data, max_rows_per_file=6)


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


def test_a_merge_with_a_job_id_happens_once(spark, root, people):
    first = lakeroot.spark.merge(changes(spark), "shop.people", root=root, on="id", job_id="j")
    again = lakeroot.spark.merge(changes(spark), "shop.people", root=root, on="id", job_id="j")
    assert again.already_done
    assert again.version == first.version


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
    assert (planned.fragments_before, planned.tasks) == (4, 1)
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
    with pytest.raises(InvalidInputError, match="int64"):
        lakeroot.spark.index(spark, "shop.people", root=root, column="id", kind="IVF_PQ")


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
    with pytest.raises(AlreadyExistsError, match="twice"):
        lakeroot.spark.backfill(
            spark, "shop.people", root=root, values={"twice": "id"}, job_id="other"
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
            while len(list(Path(people).glob("_lakeroot/backfills/*/*.json"))) < 2:
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
