"""Backfills and materialized views of the Lance namespace, run by Spark."""

import base64
import json
import time
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import InvalidInputError, LanceNamespaceError
from lance_namespace_urllib3_client.models import AddColumnsEntry

import lakeroot
from lakeroot.model import errors
from lakeroot.namespace.jobs import NewView
from lakeroot.server.run import serving
from lakeroot.server.settings import Settings
from lakeroot.spark import view_checks
from lakeroot.spark.catalogs import DIRECTORY, Catalog
from lakeroot.spark.jobs import InSession, SparkJobs
from lakeroot.spark.refilling import refill
from tests.spark.conftest import put
from tests.spark.test_writing import orphans

PEOPLE = pa.table({"id": pa.array(range(20), pa.int64()), "age": [i % 7 for i in range(20)]})
ORDERS = ["shop", "orders"]
BY_AGE = pa.schema([("age", pa.int64()), ("people", pa.int64())])
QUERY = "SELECT age, count(*) AS people FROM shop.orders GROUP BY age"


@pytest.fixture
def orders(catalog):
    return put(catalog, "shop.orders", PEOPLE, max_rows_per_file=6)


@pytest.fixture
def namespace(spark, root, orders):
    found = lakeroot.DirectoryNamespace(root=root)
    found.job_runner = InSession(spark, Catalog.at(root))
    return found


def computed(namespace, name, expression):
    return namespace.alter_table_add_columns(
        {"id": ORDERS, "new_columns": [{"name": name, "computed": expression}]}
    )


def outcome(namespace, table, job):
    return namespace.describe_transaction({"id": [*table, job]})


def view(schema, query, **more):
    encoded = base64.b64encode(schema.serialize().to_pybytes()).decode()
    return {"kind": "query", "source_query": query, "output_schema": encoded, **more}


def by_age(location):
    table = lance.dataset(location).to_table()
    return dict(zip(*(table.column(name).to_pylist() for name in ("age", "people")), strict=True))


def test_a_computed_column_is_empty_until_it_is_backfilled(namespace, orders):
    computed(namespace, "twice", "id * 2")
    assert set(lance.dataset(orders).to_table().column("twice").to_pylist()) == {None}
    lance.dataset(orders).delete("id = 7")
    job = namespace.alter_table_backfill_columns({"id": ORDERS, "column": "twice"}).job_id
    found = outcome(namespace, ORDERS, job)
    assert (found.status, found.properties["column"]) == ("SUCCEEDED", "twice")
    table = lance.dataset(orders)
    assert int(found.properties["version"]) == table.version
    assert table.to_table().column("twice").to_pylist() == [i * 2 for i in range(20) if i != 7]
    table.validate()
    assert orphans(orders) == set()
    notes = Path(orders.removeprefix("file://")) / "_lakeroot" / "backfills"
    assert not list(notes.glob("*/*"))


def test_a_backfill_takes_the_rows_that_a_predicate_keeps(namespace, orders):
    computed(namespace, "twice", "id * 2")
    request = {"id": ORDERS, "column": "twice", "where": "id >= 18"}
    namespace.alter_table_backfill_columns(request)
    values = lance.dataset(orders).to_table().column("twice").to_pylist()
    assert values == [None] * 18 + [36, 38]
    lance.write_dataset(PEOPLE.slice(0, 2), orders, mode="append")
    request["where"] = "twice IS NULL"
    namespace.alter_table_backfill_columns(request)
    table = lance.dataset(orders).to_table()
    assert table.column("twice").to_pylist() == [i * 2 for i in table.column("id").to_pylist()]


def test_a_backfill_of_the_same_work_goes_on_where_the_last_one_died(
    spark, root, namespace, orders, monkeypatch
):
    computed(namespace, "twice", "id * 2")

    class Died(BaseException):
        pass

    def died(*_, **__):
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("lakeroot.spark.refilling.commit", died)
        with pytest.raises(Died):
            refill(
                spark, "shop.orders", root=root, column="twice", expression="id * 2", job_id="one"
            )
    lance.dataset(orders).delete("id = 0")
    done = refill(
        spark, "shop.orders", root=root, column="twice", expression="id * 2", job_id="two"
    )
    assert (done.fragments, done.computed) == (4, 1)
    again = refill(
        spark, "shop.orders", root=root, column="twice", expression="id * 2", job_id="two"
    )
    assert again.already_done
    values = lance.dataset(orders).to_table().column("twice").to_pylist()
    assert values == [i * 2 for i in range(1, 20)]


@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        ({"column": "nothing"}, 12, "no column 'nothing'"),
        ({"column": "age"}, 13, "Nothing says how"),
        ({"column": "twice", "concurrency": 0}, 13, "at least 1"),
        ({"column": "twice", "read_version": 1}, 0, "read_version"),
        ({"column": "twice", "branch": "b"}, 0, "branch"),
    ],
)
def test_a_backfill_that_cannot_be_is_refused(namespace, wrong, code, words):
    computed(namespace, "twice", "id * 2")
    with pytest.raises(LanceNamespaceError, match=words) as refused:
        namespace.alter_table_backfill_columns({"id": ORDERS, **wrong})
    assert refused.value.code == code


def test_a_column_that_nobody_can_compute_is_not_declared(namespace, orders):
    for expression in ("nothing + 1", "id +", " "):
        with pytest.raises(LanceNamespaceError):
            computed(namespace, "wrong", expression)
    with pytest.raises(InvalidInputError, match="two requests"):
        namespace.alter_table_add_columns(
            {
                "id": ORDERS,
                "new_columns": [
                    {"name": "a", "computed": "id"},
                    {"name": "b", "expression": "id"},
                ],
            }
        )
    assert lance.dataset(orders).schema.names == ["id", "age"]


def test_a_failed_job_says_why(namespace, orders):
    computed(namespace, "twice", "id * 2")
    for where, word in (("nothing > 1", "nothing"), ("id >= 18 LIMIT 1", "LIMIT")):
        request = {"id": ORDERS, "column": "twice", "where": where}
        found = outcome(namespace, ORDERS, namespace.alter_table_backfill_columns(request).job_id)
        assert found.status == "FAILED"
        assert word in found.properties["error"]
    assert set(lance.dataset(orders).to_table().column("twice").to_pylist()) == {None}
    with pytest.raises(LanceNamespaceError) as missing:
        outcome(namespace, ORDERS, "0" * 8 + "-0000-0000-0000-" + "0" * 12)
    assert missing.value.code == 10


def test_a_view_has_the_rows_of_its_query_after_every_refresh(namespace, orders):
    made = namespace.create_materialized_view({"id": ["shop", "ages"], **view(BY_AGE, QUERY)})
    assert (made.version, made.job_id) == (1, None)
    where = namespace.describe_table({"id": ["shop", "ages"]}).location
    assert by_age(where) == {}
    for expected in (20, 22):
        answer = namespace.refresh_materialized_view({"id": ["shop", "ages"]})
        found = outcome(namespace, ["shop", "ages"], answer.job_id)
        assert found.status == "SUCCEEDED", found.properties
        assert found.properties["rows"] == "7"
        assert sum(by_age(where).values()) == expected
        assert lance.dataset(where).schema.remove_metadata() == BY_AGE
        lance.write_dataset(PEOPLE.slice(0, 2), orders, mode="append")
    assert orphans(where) == set()


def test_a_view_is_filled_when_it_is_created_if_asked(namespace):
    request = {"id": ["shop", "ages"], **view(BY_AGE, QUERY, with_no_data=False)}
    made = namespace.create_materialized_view(request)
    assert outcome(namespace, ["shop", "ages"], made.job_id).status == "SUCCEEDED"
    where = namespace.describe_table({"id": ["shop", "ages"]}).location
    assert sum(by_age(where).values()) == 20


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ("SELEC age, 1 AS people FROM shop.orders", 13, "PARSE_SYNTAX_ERROR.*line 1, pos"),
        ("SELECT age,\n  1 AS people FRM shop.orders", 13, "PARSE_SYNTAX_ERROR.*line 2, pos"),
        ("DROP TABLE shop.orders", 13, "PARSE_SYNTAX_ERROR"),
        ("SELECT age, people FROM shop.nothing", 13, "`shop`.`nothing` cannot be found"),
        ("SELECT age, people FROM nowhere.orders", 13, "`nowhere`.`orders` cannot be found"),
        ("SELECT age, agee AS people FROM shop.orders", 13, "`agee` cannot be resolved.*`age`"),
        ("SELECT 1 AS age", 13, "gives the columns age. the view has age, people"),
        ("SELECT 'x' AS age, 1 AS people", 20, "has the type bigint. the rows hold string"),
    ],
)
def test_a_view_whose_query_is_wrong_is_not_created(namespace, query, code, words):
    for more in ({}, {"with_no_data": False}):
        with pytest.raises(LanceNamespaceError, match=words) as refused:
            namespace.create_materialized_view({"id": ["shop", "v"], **view(BY_AGE, query, **more)})
        assert refused.value.code == code
        assert len(str(refused.value).splitlines()) == 1
    assert namespace.list_tables({"id": ["shop"]}).tables == ["orders"]
    assert namespace.count_table_rows({"id": ORDERS}).count == 20


def test_a_refresh_that_cannot_be_any_more_leaves_the_view_as_it_was(namespace, orders):
    namespace.create_materialized_view(
        {"id": ["shop", "ages"], **view(BY_AGE, QUERY, with_no_data=False)}
    )
    where = namespace.describe_table({"id": ["shop", "ages"]}).location
    lance.dataset(orders).drop_columns(["age"])
    answer = namespace.refresh_materialized_view({"id": ["shop", "ages"]})
    found = outcome(namespace, ["shop", "ages"], answer.job_id)
    assert found.status == "FAILED"
    assert "`age` cannot be resolved" in found.properties["error"]
    assert sum(by_age(where).values()) == 20


def test_where_nobody_runs_jobs_nobody_looks_at_the_query_of_a_view(root, orders):
    alone = lakeroot.DirectoryNamespace(root=root)
    assert alone.create_materialized_view({"id": ["v"], **view(BY_AGE, "SELEC 1")}).version == 1


def test_another_process_says_of_a_view_what_this_one_would(spark, root, orders):
    catalog = Catalog.at(root)
    for query, words in ((QUERY, None), ("SELECT 1 AS x", "gives the columns x")):
        asked = NewView(table=("shop", "v"), query=query, schema=BY_AGE)
        said = view_checks.answer(spark, json.loads(view_checks.described(catalog, asked)))
        if words is None:
            view_checks.told(said)
            continue
        with pytest.raises(errors.InvalidInputError, match=words):
            view_checks.told(said)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"kind": "materialised"}, 13),
        ({"kind": "chunker"}, 0),
        ({"output_schema": "no schema"}, 13),
        ({"output_schema": ""}, 13),
        ({"source_query": " "}, 13),
        ({"auto_refresh": True}, 0),
    ],
)
def test_a_view_that_cannot_be_is_not_created(namespace, wrong, code):
    with pytest.raises(LanceNamespaceError) as refused:
        namespace.create_materialized_view({"id": ["shop", "v"], **view(BY_AGE, QUERY), **wrong})
    assert refused.value.code == code
    assert namespace.list_tables({"id": ["shop"]}).tables == ["orders"]


def test_an_ordinary_table_is_not_refreshed(namespace):
    with pytest.raises(InvalidInputError, match="not a materialized view"):
        namespace.refresh_materialized_view({"id": ORDERS})


def test_a_wrong_runner_is_refused_when_the_catalog_is_opened(root):
    for wrong, words in (
        ({"jobs": "sprak"}, "'spark'"),
        ({"jobs.master": "local"}, "jobs=spark"),
        ({"jobs": "spark", "jobs.mister": "local"}, "'master'"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            lakeroot.DirectoryNamespace(root=root, **wrong)


def test_a_lake_knows_who_runs_its_jobs(root, orders):
    lake = lakeroot.open(root, jobs="spark")
    assert lake.tables("shop") == ["shop.orders"]
    assert isinstance(vars(lake.namespace)["job_runner"], SparkJobs)


@pytest.mark.timeout(1800)  # the job starts a JVM of its own, on whatever machine
def test_a_client_of_the_server_has_a_column_filled_and_a_wrong_view_refused(root, orders):
    properties = {"root": root, "jobs": "spark", "jobs.master": "local[2]"}
    settings = Settings(port=0, impl=DIRECTORY, properties=properties, log_requests=False)
    with serving(settings) as url:
        client = lance_namespace.connect("rest", {"uri": url})
        columns = [AddColumnsEntry(name="twice", computed="id * 2")]
        client.alter_table_add_columns(
            lance_namespace.AlterTableAddColumnsRequest(id=ORDERS, new_columns=columns)
        )
        wrong = lance_namespace.CreateMaterializedViewRequest(
            id=["shop", "v"], **view(BY_AGE, "SELECT age, agee AS people FROM shop.orders")
        )
        with pytest.raises(InvalidInputError, match="`agee` cannot be resolved"):
            client.create_materialized_view(wrong)
        job = client.alter_table_backfill_columns(
            lance_namespace.AlterTableBackfillColumnsRequest(id=ORDERS, column="twice")
        ).job_id
        asked = lance_namespace.DescribeTransactionRequest(id=[*ORDERS, job])
        while (found := client.describe_transaction(asked)).status in ("QUEUED", "RUNNING"):
            time.sleep(0.2)
        assert found.status == "SUCCEEDED", found.properties
    values = lance.dataset(orders).to_table().column("twice").to_pylist()
    assert values == [i * 2 for i in range(20)]


def test_a_backfill_is_done_again_for_a_column_that_was_dropped_and_added(
    spark, root, orders, monkeypatch
):
    """The fragments are the same, but the values would land in the column that is gone."""

    def fill():
        return refill(
            spark, "shop.orders", root=root, column="age", expression="id * 3", job_id="one"
        )

    def died(*_, **__):
        raise RuntimeError("died")

    with monkeypatch.context() as patch:
        patch.setattr("lakeroot.spark.refilling.commit", died)
        with pytest.raises(RuntimeError, match="died"):
            fill()
    lance.dataset(orders).drop_columns(["age"])
    lance.dataset(orders).add_columns(pa.field("age", pa.int64()))
    assert fill().computed == 4
    values = lance.dataset(orders).to_table().column("age").to_pylist()
    assert values == [i * 3 for i in range(20)]
