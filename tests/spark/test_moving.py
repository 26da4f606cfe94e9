"""Rows come in from other formats as they are there, and what cannot be read is said."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.types import LongType, StringType

import lakeroot.spark
from lakeroot.model.errors import (
    InvalidInputError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.spark import pipelines
from tests.cli.running import Run
from tests.server.processes import served
from tests.spark.conftest import put

ROWS = pa.table({"id": pa.array(range(40), pa.int32()), "name": [f"n{n}" for n in range(40)]})


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An Iceberg catalog with a namespace, and what pyiceberg must be told to find it."""
    with served(str(tmp_path_factory.mktemp("iceberg"))) as server:
        told = {"type": "rest", "uri": f"{server.url}/iceberg"}
        catalog = load_catalog("tests", **told)
        catalog.create_namespace("air")
        yield catalog, told


def made(catalog: Any, name: str, rows: pa.Table = ROWS) -> Any:
    table = catalog.create_table(name, rows.schema)
    table.append(rows)
    return table


def ingested(spark, root: str, source: str, told: Any, **options: Any) -> list[dict[str, Any]]:
    lakeroot.spark.ingest(
        spark, source, "shop.t", format="iceberg", reader=told, root=root, **options
    )
    return [row.asDict() for row in lakeroot.spark.read(spark, "shop.t", root=root).collect()]


def test_columns_of_an_iceberg_table_are_found_by_their_ids(spark, root, catalog, iceberg) -> None:
    there, told = iceberg
    table = made(there, "air.renamed")
    with table.update_schema() as change:
        change.rename_column("name", "label")
        change.update_column("id", LongType())
    table.append(pa.table({"id": pa.array([99], pa.int64()), "label": ["late"]}))
    with table.update_schema() as change:
        change.add_column("name", StringType())
    rows = ingested(spark, root, "air.renamed", told)
    assert sorted(rows, key=lambda row: row["id"]) == [
        *({"id": n, "label": f"n{n}", "name": None} for n in range(40)),
        {"id": 99, "label": "late", "name": None},
    ]


def test_an_iceberg_table_without_rows_makes_a_table_without_rows(
    spark, root, catalog, iceberg
) -> None:
    there, told = iceberg
    there.create_table("air.empty", ROWS.schema)
    assert ingested(spark, root, "air.empty", told) == []


def test_what_is_wrong_with_an_iceberg_catalog_is_said_in_one_line(
    spark, root, catalog, iceberg
) -> None:
    _, told = iceberg
    with pytest.raises(TableNotFoundError, match=r"air\.none.* the key `catalog`"):
        ingested(spark, root, "air.none", told)
    with pytest.raises(InvalidInputError, match="URI missing") as refused:
        ingested(spark, root, "air.none", {})
    assert "`uri`" in refused.value.fix
    with pytest.raises(ServiceUnavailableError, match="cannot be read"):
        ingested(spark, root, "air.none", {"type": "rest", "uri": "http://127.0.0.1:1"})
    with pytest.raises(InvalidInputError, match="`schema` is not for"):
        ingested(spark, root, "air.none", told, schema="id long")
    put(catalog, "shop.rows", ROWS)
    for target, error in (("none.t", TableNotFoundError), ("t", InvalidInputError)):
        with pytest.raises(error, match="cannot be written"):
            lakeroot.spark.export(
                spark, "shop.rows", target, format="iceberg", writer=told, root=root
            )


def test_an_export_into_iceberg_says_what_it_would_do_and_ignores_when_told(
    spark, root, catalog, iceberg
) -> None:
    there, told = iceberg
    put(catalog, "shop.rows", ROWS)
    made(there, "air.taken")

    def export(target: str, mode: str, **options: Any) -> int:
        return lakeroot.spark.export(
            spark,
            "shop.rows",
            target,
            format="iceberg",
            mode=mode,
            writer=told,
            root=root,
            **options,
        )

    with pytest.raises(TableAlreadyExistsError):
        export("air.taken", "error", dry_run=True)
    assert export("air.taken", "append", dry_run=True) == 40
    assert export("air.taken", "ignore") == export("air.taken", "ignore", dry_run=True) == 0
    assert export("air.fresh", "ignore", dry_run=True) == 40
    assert not there.table_exists("air.fresh")
    assert export("air.fresh", "errorifexists") == 40
    put(catalog, "shop.other", pa.table({"other": [1]}))
    with pytest.raises(InvalidInputError, match="more columns"):
        lakeroot.spark.export(
            spark,
            "shop.other",
            "air.taken",
            format="iceberg",
            mode="append",
            writer=told,
            root=root,
        )
    assert there.load_table("air.taken").scan().count() == 40


def test_the_first_line_of_a_csv_file_is_no_row_whether_there_is_a_schema_or_not(
    spark, root, catalog, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n2,y\n")
    (tmp_path / "bare.csv").write_text("1,x\n2,y\n")
    for schema in (None, "id int, name string"):
        done = lakeroot.spark.ingest(
            spark, str(tmp_path / "a.csv"), "shop.t", format="csv", schema=schema, root=root
        )
        assert done.rows == 2
    options: dict[str, Any] = {"format": "csv", "schema": "id long, name string", "root": root}
    with pytest.raises(InvalidInputError, match="CSV header does not conform"):
        lakeroot.spark.ingest(spark, str(tmp_path / "bare.csv"), "shop.bare", **options)
    done = lakeroot.spark.ingest(
        spark, str(tmp_path / "bare.csv"), "shop.bare", reader={"header": "false"}, **options
    )
    assert done.rows == 2


def test_a_source_that_cannot_be_read_is_bad_input_and_makes_no_table(
    spark, root, catalog, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": list(range(9000))}), tmp_path / "whole.parquet")
    damaged = bytearray((tmp_path / "whole.parquet").read_bytes())
    damaged[100:9000] = bytes(8900)
    (tmp_path / "damaged.parquet").write_bytes(bytes(damaged))
    (tmp_path / "words.txt").write_text("these are words\n")

    def refused(source: str, **options: Any) -> InvalidInputError:
        with pytest.raises(InvalidInputError) as error:
            lakeroot.spark.ingest(spark, str(tmp_path / source), "shop.t", root=root, **options)
        assert len(str(error.value).splitlines()) <= 3
        return error.value

    assert "damaged.parquet cannot be read" in refused("damaged.parquet").what
    assert "not a Parquet file" in refused("words.txt").why
    assert "Malformed ORC" in refused("words.txt", format="orc").why
    assert "not one record" in refused("words.txt", format="json").why
    assert "maybe" in refused("whole.parquet", reader={"mergeSchema": "maybe"}).why
    assert "LNG" in refused("whole.parquet", schema="id lng").why
    assert catalog.list_tables({"id": ["shop"]}).tables == []


def test_orc_files_come_in_with_all_their_types_once(spark, root, catalog, tmp_path: Path) -> None:
    columns = (
        "id, string(id) AS word, named_struct('a', id, 'b', array(1.5D, null)) AS inside,"
        " map('k', date'2026-11-18') AS days, timestamp'2026-11-18 01:02:03.456789' AS at,"
        " timestamp_ntz'1969-12-31 23:59:59.999999' AS there, 12.50BD AS price,"
        " if(id = 1, null, binary('x')) AS bytes, tinyint(id) AS small, id = 2 AS two"
    )
    given = spark.sql(f"SELECT {columns} FROM range(0, 4, 1, 2)")
    given.write.orc(str(tmp_path / "orc"))
    done = [
        lakeroot.spark.ingest(
            spark, str(tmp_path / "orc"), "shop.t", format="orc", job_id="load", root=root
        )
        for _ in range(2)
    ]
    assert [each.already_done for each in done] == [False, True]
    read = lakeroot.spark.read(spark, "shop.t", root=root)
    assert read.dtypes == given.dtypes
    assert sorted(read.collect()) == sorted(given.collect())


def test_avro_without_its_module_names_the_module_before_anything_is_made(
    spark, root, catalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "rows.avro")
    Path(file).write_bytes(b"Obj\x01")
    module = f"org.apache.spark:spark-avro_2.13:{spark.version}"
    with pytest.raises(InvalidInputError, match="that it has not been given") as refused:
        lakeroot.spark.ingest(spark, file, "shop.t", format="AVRO", root=root)
    assert module in refused.value.fix
    run = Run(root, capsys)
    for last in ((), ("--dry-run",)):
        code, _, said = run("job", "ingest", "shop.t", file, "-f", "avro", *last)
        assert (code, module in " ".join(said.split())) == (2, True), said
    assert catalog.list_tables({"id": ["shop"]}).tables == []


def test_a_pipeline_names_the_file_that_it_cannot_read(
    spark, root, managed, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": list(range(9000))}), tmp_path / "a.parquet")
    damaged = bytearray((tmp_path / "a.parquet").read_bytes())
    damaged[100:9000] = bytes(8900)
    (tmp_path / "a.parquet").write_bytes(bytes(damaged))
    file = tmp_path / "p.yaml"
    file.write_text(
        f"name: p\ncatalog: {{root: {json.dumps(root)},"
        " properties: {table_version_management: true}}\n"
        "sources: {a: {path: a.parquet, format: parquet}}\ntables: [{table: shop.t, from: a}]\n"
    )
    with pytest.raises(InvalidInputError, match=r"a\.parquet cannot be read"):
        pipelines.run_file(file, spark=spark)


def test_an_export_that_spark_refuses_is_bad_input_and_ignoring_writes_nothing(
    spark, root, catalog, tmp_path: Path
) -> None:
    put(catalog, "shop.t", pa.table({"id": [1, 2], "lists": [[1], [2]]}))
    target = str(tmp_path / "out")

    def export(**options: Any) -> int:
        return lakeroot.spark.export(spark, "shop.t", target, root=root, **options)

    with pytest.raises(InvalidInputError, match="`lists`"):
        export(format="csv")
    with pytest.raises(InvalidInputError, match="lzmaa is not available"):
        export(writer={"compression": "lzmaa"})
    assert export(mode="ignore") == 2
    assert export(mode="ignore", filter="id = 1") == 0
    assert spark.read.parquet(target).count() == 2
