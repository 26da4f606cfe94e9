"""Writing tables from Spark: modes, schemas, failures, races."""

import os
import threading
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf
from pyspark.sql import types as st

import lakeroot.spark
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    TableAlreadyExistsError,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableSchemaValidationError,
)
from lakeroot.spark.catalogs import TableRef, locate
from lakeroot.spark.commits import commit, find_job
from lakeroot.spark.options import WriteOptions, table_of
from lakeroot.spark.write_tasks import watched, write_rows
from lakeroot.spark.writing import abort, finish, prepare
from tests.spark.conftest import fails_last, put
from tests.spark.test_reading import every_type


def frame(spark, start, end):
    return spark.range(start, end, 1, 2).withColumn("name", sf.concat(sf.lit("n"), "id"))


def rows(location):
    return sorted(lance.dataset(location).to_table().column("id").to_pylist())


def where(catalog, *names):
    request = lance_namespace.DescribeTableRequest(id=list(names))
    return catalog.describe_table(request).location.removeprefix("file://")


def data_files(location):
    return {path.name for path in (Path(location.removeprefix("file://")) / "data").glob("*.lance")}


def orphans(location):
    table = lance.dataset(location)
    known = {
        file.path
        for version in table.versions()
        for fragment in table.checkout_version(version["version"]).get_fragments()
        for file in fragment.metadata.files
    }
    return data_files(location) - known


def test_a_frame_becomes_a_table_and_grows(spark, root, catalog):
    made = lakeroot.spark.write(frame(spark, 0, 10), "shop.t", root=root)
    assert (made.version, made.rows, made.files) == (1, 10, 2)
    lakeroot.spark.write(frame(spark, 10, 15), "shop.t", root=root, mode="append")
    assert rows(where(catalog, "shop", "t")) == list(range(15))
    assert orphans(where(catalog, "shop", "t")) == set()
    assert not list((Path(where(catalog, "shop", "t")) / "_lakeroot").rglob("*.json"))


def test_overwrite_replaces_rows_and_schema_and_keeps_history(spark, root, catalog):
    lakeroot.spark.write(frame(spark, 0, 10), "shop.t", root=root)
    lakeroot.spark.write(spark.range(3), "shop.t", root=root, mode="overwrite")
    table = lance.dataset(where(catalog, "shop", "t"))
    assert table.schema.names == ["id"]
    assert table.count_rows() == 3
    assert table.checkout_version(1).count_rows() == 10


def test_create_refuses_and_ignore_leaves_an_existing_table(spark, root, catalog):
    lakeroot.spark.write(frame(spark, 0, 2), "shop.t", root=root, mode="create")
    with pytest.raises(TableAlreadyExistsError):
        lakeroot.spark.write(frame(spark, 0, 9), "shop.t", root=root, mode="error")
    ignored = lakeroot.spark.write(frame(spark, 0, 9), "shop.t", root=root, mode="ignore")
    assert ignored.already_done
    assert rows(where(catalog, "shop", "t")) == [0, 1]
    made = lakeroot.spark.write(frame(spark, 0, 9), "shop.u", root=root, mode="ignore")
    assert made.rows == 9


def test_the_format_writes_with_every_mode(spark, root, catalog):
    def save(data, **options):
        writer = data.write.format("lakeroot").options(root=root, **options)
        return writer.mode(options.pop("save", "append"))

    save(frame(spark, 0, 4)).save("shop.t")
    save(frame(spark, 4, 6)).save("shop.t")
    assert rows(where(catalog, "shop", "t")) == [0, 1, 2, 3, 4, 5]
    frame(spark, 7, 8).write.format("lakeroot").option("root", root).mode("overwrite").save(
        "shop.t"
    )
    assert rows(where(catalog, "shop", "t")) == [7]
    save(frame(spark, 0, 4), mode="ignore").save("shop.t")
    assert rows(where(catalog, "shop", "t")) == [7]


def test_every_type_comes_back_as_it_was(spark, root, catalog):
    data = every_type()
    put(catalog, "shop.types", data)
    original = lakeroot.spark.read(spark, "shop.types", root=root)
    put(catalog, "shop.same", data.slice(0, 0))
    lakeroot.spark.write(original, "shop.same", root=root)
    same = lance.dataset(where(catalog, "shop", "same")).to_table().sort_by("key")
    assert same.schema == lance.dataset(where(catalog, "shop", "types")).schema
    assert same.to_pylist() == data.to_pylist()


def test_vectors_and_blobs_are_stored_as_such(spark, root, catalog):
    data = spark.range(4).selectExpr(
        "id", "array(double(id), 1.5D) AS v", "cast(cast(id AS string) AS binary) AS image"
    )
    lakeroot.spark.write(data, "shop.t", root=root, vectors={"v": 2}, blobs=["image"])
    table = lance.dataset(where(catalog, "shop", "t"))
    assert table.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert table.take_blobs("image", indices=[3])[0].readall() == b"3"
    back = lakeroot.spark.read(spark, "shop.t", root=root)
    assert bytes(back.where("id = 2").first().image) == b"2"
    lakeroot.spark.write(back, "shop.t", root=root)
    lakeroot.spark.write(back, "shop.copy", root=root)
    copy = lance.dataset(where(catalog, "shop", "copy"))
    assert copy.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert copy.take_blobs("image", indices=[0])[0].size() == 1


def test_missing_columns_are_null_and_new_ones_come_when_asked(spark, root, catalog):
    lakeroot.spark.write(frame(spark, 0, 2), "shop.t", root=root)
    lakeroot.spark.write(spark.range(2, 3), "shop.t", root=root)
    wider = spark.range(3, 4).selectExpr("id", "'x' AS name", "id * 2 AS twice")
    with pytest.raises(TableSchemaValidationError, match="mergeSchema"):
        lakeroot.spark.write(wider, "shop.t", root=root)
    lakeroot.spark.write(wider, "shop.t", root=root, merge_schema=True)
    table = lance.dataset(where(catalog, "shop", "t")).to_table().sort_by("id")
    assert table.column("name").to_pylist() == ["n0", "n1", None, "x"]
    assert table.column("twice").to_pylist() == [None, None, None, 6]


def test_names_that_differ_in_case_alone_are_refused_as_spark_would_mix_them_up(
    spark, root, catalog
):
    def save(rows, name, **options):
        rows.write.format("lakeroot").options(root=root, **options).mode("append").save(name)

    lakeroot.spark.write(spark.range(2), "shop.t", root=root)
    upper, both = spark.range(2).toDF("ID"), spark.range(2).selectExpr("id", "id AS ID")
    inside = spark.range(2).selectExpr("array(named_struct('a', 1, 'A', id)) AS list")
    advice = r"withColumnRenamed\('ID', 'id'\)"
    with pytest.raises(TableSchemaValidationError, match=f"has no column 'ID'.*{advice}"):
        lakeroot.spark.write(upper, "shop.t", root=root)
    with pytest.raises(InvalidInputError, match=f"cannot have a column 'ID'.*{advice}"):
        lakeroot.spark.write(upper, "shop.t", root=root, merge_schema=True)
    with pytest.raises(Exception, match=f"cannot have a column 'ID'.*{advice}"):
        save(upper, "shop.t", mergeSchema="true")
    with pytest.raises(InvalidInputError, match=f"cannot have a column 'ID'.*{advice}"):
        lakeroot.spark.merge(upper, "shop.t", root=root, on="ID", merge_schema=True)
    for table in ("shop.t", "shop.new"):
        with pytest.raises(InvalidInputError, match="the columns 'id' and 'ID'"):
            lakeroot.spark.write(both, table, root=root, mode="overwrite")
    with pytest.raises(Exception, match="the columns 'id' and 'ID'"):
        save(both, "shop.new")
    with pytest.raises(InvalidInputError, match=r"'list\.a' and 'list\.A'"):
        lakeroot.spark.write(inside, "shop.new", root=root)
    assert lance.dataset(where(catalog, "shop", "t")).version == 1
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        lakeroot.spark.write(upper, "shop.t", root=root, merge_schema=True)
        save(both, "shop.new")
        save(inside, "shop.inside")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert lance.dataset(where(catalog, "shop", "t")).schema.names == ["id", "ID"]
    # What is there may be written to, and replaced.
    lakeroot.spark.write(both, "shop.t", root=root, merge_schema=True)
    lakeroot.spark.write(both, "shop.new", root=root, mode="overwrite")
    assert lance.dataset(where(catalog, "shop", "new")).count_rows() == 2


def test_an_unknown_column_is_refused_in_whole_sentences(spark, root, catalog):
    lakeroot.spark.write(spark.range(2), "shop.t", root=root)
    with pytest.raises(TableSchemaValidationError, match=r"There is: id\. Set `mergeSchema`"):
        lakeroot.spark.write(spark.range(2).toDF("other"), "shop.t", root=root)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("string(id) AS id", "cast"),
        ("id, name AS nam", "'name'"),
        ("id, array(1) AS name", "array<int>"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_any_job(spark, root, catalog, columns, words):
    lakeroot.spark.write(frame(spark, 0, 2), "shop.t", root=root)
    wrong = frame(spark, 2, 4).selectExpr(*columns.split(", "))
    with pytest.raises(TableSchemaValidationError, match=words):
        lakeroot.spark.write(wrong, "shop.t", root=root)
    assert rows(where(catalog, "shop", "t")) == [0, 1]


def test_an_unknown_mode_and_a_missing_namespace_are_named(spark, root, catalog):
    with pytest.raises(InvalidInputError, match="'append'"):
        lakeroot.spark.write(spark.range(1), "shop.t", root=root, mode="apend")
    with pytest.raises(InvalidInputError, match="variant"):
        lakeroot.spark.write(spark.sql("SELECT parse_json('1') AS v"), "shop.t", root=root)


def test_an_empty_frame_makes_an_empty_table_and_no_new_version(spark, root, catalog):
    made = lakeroot.spark.write(frame(spark, 0, 0), "shop.t", root=root)
    assert (made.version, made.rows) == (1, 0)
    again = lakeroot.spark.write(frame(spark, 0, 0), "shop.t", root=root)
    assert again.version == 1


def test_a_failed_job_leaves_nothing(spark, root, catalog):
    lakeroot.spark.write(frame(spark, 0, 4), "shop.t", root=root)
    location = where(catalog, "shop", "t")
    files = data_files(location)
    data = spark.range(0, 40, 1, 4).selectExpr("id", "'x' AS name")
    with pytest.raises(LakerootError, match="bad row") as raised:
        lakeroot.spark.write(
            fails_last(data, location, "_lakeroot/jobs/*/*.json"), "shop.t", root=root
        )
    assert len(str(raised.value)) < 500
    assert rows(location) == [0, 1, 2, 3]
    assert data_files(location) == files
    broken = data.coalesce(1).selectExpr("if(id = 39, raise_error('bad row'), id) AS id", "name")
    with pytest.raises(LakerootError, match="bad row"):
        lakeroot.spark.write(broken, "shop.new", root=root)
    with pytest.raises(TableNotFoundError):
        locate(table_of({"root": root, "table": "shop.new"}))


def test_a_null_in_a_column_without_nulls_is_refused(spark, root, catalog):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    location = put(catalog, "shop.t", pa.table({"id": [1], "name": ["a"]}, schema=schema))
    data = spark.range(3).selectExpr("if(id = 1, null, id) AS id", "'x' AS name")
    with pytest.raises(TableSchemaValidationError, match="no nulls"):
        lakeroot.spark.write(data, "shop.t", root=root)
    assert rows(location) == [1]


def test_a_repeated_task_does_not_repeat_its_rows(spark, root, catalog, tmp_path):
    """An attempt that has written everything and then fails is run again by Spark."""
    marks = str(tmp_path)

    def fails_once_at_the_end(batches):
        yield from batches
        mark = Path(marks) / "failed"
        if not mark.exists():
            mark.touch()
            raise RuntimeError("this attempt is lost")

    data = frame(spark, 0, 10).mapInArrow(fails_once_at_the_end, "id long, name string")
    conf = spark.sparkContext._jsc.sc().conf()
    assert conf.get("spark.master") == "local[2,2]"
    lakeroot.spark.write(data, "shop.t", root=root)
    assert (Path(marks) / "failed").exists()
    assert rows(where(catalog, "shop", "t")) == list(range(10))
    assert orphans(where(catalog, "shop", "t")) == set()


def test_a_job_id_makes_a_write_happen_once(spark, root, catalog):
    first = lakeroot.spark.write(frame(spark, 0, 3), "shop.t", root=root, job_id="load-1")
    second = lakeroot.spark.write(frame(spark, 0, 3), "shop.t", root=root, job_id="load-1")
    assert second.already_done
    assert second.version == first.version
    assert rows(where(catalog, "shop", "t")) == [0, 1, 2]
    table = lance.dataset(where(catalog, "shop", "t"))
    assert find_job(table, "lakeroot.job", "load-1") == first.version


def test_writers_of_one_new_table_all_get_their_rows_in(spark, root, catalog):
    def work(number):
        lakeroot.spark.write(frame(spark, number * 10, number * 10 + 10), "shop.t", root=root)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(where(catalog, "shop", "t")) == list(range(40))
    assert orphans(where(catalog, "shop", "t")) == set()


def test_a_job_id_makes_a_write_to_a_branch_happen_once(spark, root, catalog):
    location = put(catalog, "shop.t", pa.table({"id": pa.array([0], pa.int64())}))
    lance.dataset(location).create_branch("trial")
    data = spark.range(1, 3)

    for _ in range(2):
        lakeroot.spark.write(data, "shop.t", root=root, branch="trial", job_id="load-1")

    assert lakeroot.spark.read(spark, "shop.t", root=root, branch="trial").count() == 3


@pytest.mark.parametrize("job_id", [None, "load-1"])
def test_a_branch_that_is_not_there_is_named_with_those_that_are(spark, root, catalog, job_id):
    location = put(catalog, "shop.t", pa.table({"id": [1], "name": ["a"]}))
    lance.dataset(location).create_branch("trial")
    with pytest.raises(TableBranchNotFoundError, match=r"no branch 'trail'.*'trial'") as refused:
        lakeroot.spark.write(frame(spark, 2, 4), "shop.t", root=root, branch="trail", job_id=job_id)
    assert refused.value.code == 22
    with pytest.raises(Exception, match="no branch 'trail'"):
        frame(spark, 2, 4).write.format("lakeroot").options(root=root, branch="trail").mode(
            "append"
        ).save("shop.t")
    assert lance.dataset(location).count_rows() == 1


def test_the_last_task_of_a_failed_job_takes_the_name_of_a_new_table_back(root, catalog):
    """The driver cannot while a task writes: its file is there, or there is no space left."""
    ref = table_of({"root": root, "table": "shop.t"})
    schema = st.StructType([st.StructField("id", st.LongType())])
    plan = watched(prepare(ref, schema, WriteOptions(mode="append")))
    half = Path(plan.table.location.removeprefix("file://")) / "data" / "half.lance"

    def too_late():
        yield from ()
        half.parent.mkdir(parents=True)
        half.write_bytes(b"half a file")
        abort(plan)
        assert lakeroot.open(root).tables("shop") == ["shop.t"]
        half.unlink()
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_rows(plan, too_late())
    assert lakeroot.open(root).tables("shop") == []


def test_a_task_that_fails_leaves_the_name_of_a_job_that_goes_on(root, catalog):
    ref = table_of({"root": root, "table": "shop.t"})
    schema = st.StructType([st.StructField("id", st.LongType())])
    plan = watched(prepare(ref, schema, WriteOptions(mode="append")))
    with pytest.raises(AttributeError):
        write_rows(plan, [None])
    assert lakeroot.open(root).tables("shop") == ["shop.t"]
    written = write_rows(plan, [pa.record_batch({"id": [1, 2]})])
    assert finish(plan, [written]).rows == 2


def test_a_branch_takes_appends(spark, root, catalog):
    lakeroot.spark.write(frame(spark, 0, 2), "shop.t", root=root)
    location = where(catalog, "shop", "t")
    lance.dataset(location).create_branch("trial")
    lakeroot.spark.write(frame(spark, 2, 4), "shop.t", root=root, branch="trial")
    assert rows(location) == [0, 1]
    assert lakeroot.spark.read(spark, "shop.t", root=root, branch="trial").count() == 4


def test_a_strict_commit_takes_the_next_version_or_none(tmp_path):
    location = str(tmp_path / "t.lance")
    base = lance.write_dataset(pa.table({"id": [1]}), location)
    table = locate(TableRef(None, (), location))

    def append(number, dataset):
        fragments = lance.fragment.write_fragments(pa.table({"id": [number]}), dataset)
        operation = lance.LanceOperation.Append(fragments)
        return commit(
            table, dataset, operation, read_version=dataset.version, properties={}, strict=True
        )

    assert append(2, base).version == 2
    with pytest.raises(ConcurrentModificationError):
        append(3, base)
    lance.write_dataset(pa.table({"id": [4]}), location, mode="append")
    with pytest.raises(ConcurrentModificationError):
        append(5, base.checkout_version(2))
    assert append(6, lance.dataset(location)).version == 4
    assert rows(location) == [1, 2, 4, 6]
    staged = [
        p.name for p in (tmp_path / "t.lance" / "_versions").iterdir() if "manifest-" in p.name
    ]
    assert staged == []


@pytest.mark.parametrize("door", ["function", "source"])
def test_files_are_of_the_version_and_hold_the_rows_that_are_asked_for(spark, root, catalog, door):
    for version, numbers in (("2.0", (2, 0)), ("2.1", (2, 1))):
        name = f"t{version[-1]}"
        options = {"root": root, "storageVersion": version, "maxRowsPerFile": 4}
        for _ in range(2):
            if door == "function":
                lakeroot.spark.write(frame(spark, 0, 20), f"shop.{name}", **options)
            else:
                writer = frame(spark, 0, 20).write.format("lakeroot").options(**options)
                writer.mode("append").save(f"shop.{name}")
        fragments = lance.dataset(where(catalog, "shop", name)).get_fragments()
        assert [each.count_rows() for each in fragments] == [4, 4, 2] * 4
        files = [file for each in fragments for file in each.metadata.files]
        assert {(file.file_major_version, file.file_minor_version) for file in files} == {numbers}


def test_two_drivers_at_one_named_write_bring_its_rows_once(root, catalog):
    """Both began before either was done, and found nothing that was done before."""
    put(catalog, "shop.t", pa.table({"id": [0]}))
    schema = st.StructType([st.StructField("id", st.LongType())])
    ref = table_of({"root": root, "table": "shop.t"})
    options = WriteOptions(job_id="load-17")
    plans = [watched(prepare(ref, schema, options)) for _ in range(2)]
    parts = [write_rows(plan, [pa.record_batch({"id": [1, 2]})]) for plan in plans]
    first, second = (finish(plan, [part]) for plan, part in zip(plans, parts, strict=True))
    assert (first.version, first.rows, first.already_done) == (2, 2, False)
    assert (second.version, second.rows, second.already_done) == (2, 0, True)
    location = where(catalog, "shop", "t")
    assert rows(location) == [0, 1, 2]
    assert orphans(location) == set()


def test_the_files_of_an_append_are_of_the_version_that_it_asks_for(spark, root, catalog):
    for version in (None, "2.0", "2.1"):
        given = {} if version is None else {"storageVersion": version}
        lakeroot.spark.write(frame(spark, 0, 4).repartition(1), "shop.t", root=root, **given)
    table = lance.dataset(where(catalog, "shop", "t"))
    files = [file for each in table.get_fragments() for file in each.metadata.files]
    versions = [f"{file.file_major_version}.{file.file_minor_version}" for file in files]
    assert versions == [table.data_storage_version, "2.0", "2.1"]
    assert lakeroot.spark.read(spark, "shop.t", root=root).count() == 12


def test_a_file_ends_where_it_has_the_bytes_that_are_asked_for(root, catalog):
    schema = st.StructType([st.StructField("bytes", st.BinaryType())])
    batches = [pa.record_batch({"bytes": [os.urandom(1 << 20)]}) for _ in range(20)]
    for name, bound, more in (("few", 1 << 30, False), ("many", 4 << 20, True)):
        ref = table_of({"root": root, "table": f"shop.{name}"})
        plan = watched(prepare(ref, schema, WriteOptions(max_bytes_per_file=bound)))
        written = write_rows(plan, batches)
        assert (len(written.files) > 1) is more
        assert finish(plan, [written]).rows == 20


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_stable_ids_are_refused_where_a_table_was_made_without(spark, root, catalog, mode):
    lakeroot.spark.write(frame(spark, 0, 4), "shop.t", root=root)
    lakeroot.spark.write(frame(spark, 0, 4), "shop.s", root=root, stableRowIds=True)
    with pytest.raises(InvalidInputError, match=r"table shop\.t cannot have stable ids"):
        lakeroot.spark.write(frame(spark, 4, 8), "shop.t", root=root, mode=mode, stableRowIds=True)
    assert rows(where(catalog, "shop", "t")) == list(range(4))
    lakeroot.spark.write(frame(spark, 4, 8), "shop.s", root=root, mode=mode, stableRowIds=True)
    assert lance.dataset(where(catalog, "shop", "s")).has_stable_row_ids


def test_a_branch_of_no_table_cannot_be_written(spark, root, catalog):
    with pytest.raises(TableNotFoundError, match=r"no table shop\.t to write a branch of"):
        lakeroot.spark.write(frame(spark, 0, 4), "shop.t", root=root, branch="trial")


@pytest.mark.parametrize("mode", ["append", "overwrite", "create", "ignore"])
def test_every_mode_makes_a_table_at_a_location_that_has_none(spark, tmp_path, mode):
    place = str(tmp_path / "new" / "t.lance")
    made = lakeroot.spark.write(frame(spark, 0, 4), location=place, mode=mode)
    assert (made.version, rows(place)) == (1, list(range(4)))
    if mode == "create":
        with pytest.raises(TableAlreadyExistsError):
            lakeroot.spark.write(frame(spark, 4, 6), location=place, mode=mode)
    else:
        writer = frame(spark, 4, 6).write.format("lakeroot").option("location", place)
        writer.option("mode", mode).mode("append").save()
    after = {"append": range(6), "overwrite": range(4, 6)}.get(mode, range(4))
    assert rows(place) == list(after)


def test_a_write_that_fails_leaves_no_file_at_a_location_that_had_none(spark, tmp_path):
    place = tmp_path / "t.lance"
    bad = fails_last(spark.range(0, 4, 1, 2), str(place), "_lakeroot/jobs/*/*.json")
    with pytest.raises(LakerootError, match="bad row"):
        lakeroot.spark.write(bad, location=str(place))
    assert [path for path in place.rglob("*") if path.is_file()] == []
    assert lakeroot.spark.merge(frame(spark, 0, 4), location=str(place), on="id").inserted == 4
