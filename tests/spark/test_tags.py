"""A tag names a version of one branch: that is what a read of it returns, in driver and tasks."""

import lance
import pyarrow as pa
import pytest

import lakeroot.spark
from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.opening import open_for, opened_for
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.planning import plan_read
from lakeroot.spark.scanning import batches
from lakeroot.spark.spark_sql.answers import Answers
from tests.spark.conftest import put


@pytest.fixture
def table(root, catalog):
    """Version 2 of the main branch and version 2 of another are two, with a tag for each."""
    location = put(catalog, "shop.t", pa.table({"id": [1]}))
    branch = lance.dataset(location).create_branch("trial")
    lance.write_dataset(pa.table({"id": [20]}), branch, mode="append")
    lance.write_dataset(pa.table({"id": [2]}), location, mode="append")
    main = lance.dataset(location)
    main.tags.create("m2", 2)
    main.tags.create("t2", ("trial", 2))
    return TableRef(Catalog.at(root), ("shop", "t"))


def read_by_tasks(ref, **options):
    plan = plan_read(ref, ReadOptions(**options))
    found = [batch for task in plan.tasks for batch in batches(plan.scan, task)]
    return sorted(row for batch in found for row in batch.column("id").to_pylist())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tag": "m2"}, [1, 2]),
        ({"tag": "m2", "branch": "main"}, [1, 2]),
        ({"tag": "t2"}, [1, 20]),
        ({"tag": "t2", "branch": "trial"}, [1, 20]),
        ({"branch": "trial"}, [1, 20]),
        ({"branch": "trial", "version": 2}, [1, 20]),
        ({"branch": "main", "version": 2}, [1, 2]),
    ],
)
def test_a_tag_is_read_from_its_own_branch(table, options, expected):
    opened = opened_for(table, ReadOptions(**options))
    assert sorted(opened.dataset.to_table()["id"].to_pylist()) == expected
    assert read_by_tasks(table, **options) == expected


@pytest.mark.parametrize(
    ("tag", "branch", "own"), [("m2", "trial", "'main'"), ("t2", "main", "'trial'")]
)
def test_a_tag_and_another_branch_than_its_own_are_refused(table, tag, branch, own):
    options = ReadOptions(tag=tag, branch=branch)
    with pytest.raises(InvalidInputError, match=f"{tag!r} of table .* version 2 of {own}"):
        opened_for(table, options)
    with pytest.raises(InvalidInputError, match=f"not of the branch {branch!r}"):
        open_for(opened_for(table, ReadOptions()).table, options)


def test_sql_reads_the_branch_that_a_query_names_at_the_number_of_the_newest_version(table):
    answers = Answers(table.catalog, 1, "_", columnar=True)
    found = answers.op_load_table({"id": ["shop", "t"]})["table"]
    asked = {"table": found, "options": {"branch": "trial", "version": "2"}}
    opened = answers.wanted(asked)[2]
    assert sorted(opened.dataset.to_table()["id"].to_pylist()) == [1, 20]


def test_a_tag_of_a_branch_is_read_by_function_and_in_sql(spark, root, table):
    lakeroot.spark.use_catalog(spark, "tagged", root=root)
    in_sql = spark.sql("SELECT id FROM tagged.shop.t VERSION AS OF 't2'")
    for frame in (in_sql, lakeroot.spark.read(spark, "shop.t", root=root, tag="t2")):
        assert sorted(row.id for row in frame.collect()) == [1, 20]
