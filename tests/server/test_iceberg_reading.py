"""Iceberg tools really read Lance tables: through the mirror, and through scan planning."""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg
import lance
import lance_namespace
import polars
import pyarrow as pa
import pytest
from lance_namespace import LanceNamespace
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import RESTError

from lakeroot.server import IcebergSettings

DAY = datetime.datetime(2026, 1, 1, 12)  # noqa: DTZ001  Iceberg's timestamp has no zone


def rows(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "big": pa.array([2**63 + n for n in numbers], pa.uint64()),
            "vector": pa.array([[n, n / 2] for n in numbers], pa.list_(pa.float32(), 2)),
            "name": [f"n{n}" for n in numbers],
            "at": pa.array([DAY] * len(numbers), pa.timestamp("ns")),
        }
    )


@pytest.fixture
def make(start: Callable[..., str]) -> Callable[..., tuple[LanceNamespace, Catalog, str]]:
    """A server with these settings of its Iceberg face, and a table with a history."""

    def made(**settings: Any) -> tuple[LanceNamespace, Catalog, str]:
        url = start(iceberg=IcebergSettings(**settings))
        rest = lance_namespace.connect("rest", {"uri": url})
        iceberg = load_catalog("lakeroot", type="rest", uri=f"{url}/iceberg")
        iceberg.create_namespace("prod")
        lance.write_dataset(rows(0, 100), namespace_client=rest, table_id=["prod", "t"])
        lance.write_dataset(
            rows(100, 150), namespace_client=rest, table_id=["prod", "t"], mode="append"
        )
        dataset = lance.dataset(namespace_client=rest, table_id=["prod", "t"])
        dataset.delete("id % 10 = 3")
        dataset.add_columns({"double": "id * 2"})
        dataset.drop_columns(["name"])
        dataset.add_columns({"name": "'new'"})
        return rest, iceberg, url

    return made


def test_the_mirror_is_read_with_filters_and_at_every_version(make: Callable[..., Any]) -> None:
    _, iceberg, _ = make(mirror=True)
    table = iceberg.load_table("prod.t")
    assert "metadata_location" not in table.metadata.model_dump()
    assert [len(table.scan(snapshot_id=v).to_arrow()) for v in range(1, 7)] == [
        100, 150, 135, 135, 135, 135,
    ]  # fmt: skip
    found = table.scan("id > 120 and double < 260").to_arrow().sort_by("id")
    assert found["id"].to_pylist() == [121, 122, 124, 125, 126, 127, 128, 129]
    assert found["big"].to_pylist()[0] == 2**63 + 121
    assert found["vector"].to_pylist()[0] == [121.0, 60.5]
    assert found["at"].to_pylist()[0] == DAY
    assert set(found["name"].to_pylist()) == {"new"}
    old = table.scan(snapshot_id=1).to_arrow().sort_by("id")
    assert old["name"].to_pylist()[:2] == ["n0", "n1"]
    assert "double" not in old.column_names
    assert table.scan("id >= 140").count() == 9


def test_a_dropped_and_added_column_is_another_column(make: Callable[..., Any]) -> None:
    _, iceberg, _ = make(mirror=True)
    table = iceberg.load_table("prod.t")
    schemas = {s.schema_id: s for s in table.metadata.schemas}
    by_version = {s.snapshot_id: schemas[s.schema_id or 0] for s in table.snapshots()}
    assert by_version[1].find_field("name").field_id != by_version[6].find_field("name").field_id
    assert by_version[1].find_field("id").field_id == by_version[6].find_field("id").field_id
    assert table.metadata.current_schema_id == 1
    assert table.metadata.last_column_id >= max(by_version[6].field_ids)


def test_files_of_the_mirror_are_used_again_and_go_with_the_table(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    rest, iceberg, _ = make(mirror=True)

    def files() -> set[str]:
        return {path.name for path in tmp_path.rglob("_iceberg/data/*.parquet")}

    iceberg.load_table("prod.t")
    first = files()
    iceberg.load_table("prod.t")
    assert files() == first
    more = lance.dataset(namespace_client=rest, table_id=["prod", "t"]).to_table().slice(0, 5)
    lance.write_dataset(more, namespace_client=rest, table_id=["prod", "t"], mode="append")
    assert len(iceberg.load_table("prod.t").scan().to_arrow()) == 140
    assert len(files() - first) == 1
    iceberg.purge_table("prod.t")
    assert files() == set()


def test_a_damaged_record_of_the_mirror_is_made_again(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    _, iceberg, _ = make(mirror=True)
    whole = iceberg.load_table("prod.t").scan().to_arrow()
    records = sorted(tmp_path.rglob("_iceberg/versions/*.json"))
    assert len(records) == 6
    for record in records:
        record.write_bytes(record.read_bytes().replace(b"data/", b"dada/", 1)[:-1] + b"?")

    again = iceberg.load_table("prod.t")

    assert again.scan().to_arrow().sort_by("id").equals(whole.sort_by("id"))
    assert len(again.scan(snapshot_id=1).to_arrow()) == 100
    assert not any(record.read_bytes().endswith(b"?") for record in records)


def test_an_empty_table_is_mirrored_too(make: Callable[..., Any]) -> None:
    _, iceberg, _ = make(mirror=True)
    iceberg.create_table(
        "prod.empty", rows(0, 1).schema.remove(4), properties={"table_type": "lance"}
    )
    assert iceberg.load_table("prod.empty").scan().to_arrow().num_rows == 0
    iceberg.create_table("prod.declared", pa.schema([]), properties={"table_type": "lance"})
    assert iceberg.load_table("prod.declared").schema().fields == ()


def test_scan_planning_gives_rows_and_counts(make: Callable[..., Any]) -> None:
    _, iceberg, _ = make(scan_planning=True)
    table = iceberg.load_table("prod.t")
    assert iceberg.supports_server_side_planning()
    found = table.scan("id > 120 and double < 260", selected_fields=("big",)).to_arrow()
    assert found.column_names == ["big"]
    assert found.num_rows == 8
    assert table.scan("id > 120").count() == 26
    assert table.scan().count() == 135
    assert table.scan(snapshot_id=1).to_arrow().num_rows == 100


def test_scan_planning_is_off_unless_it_is_asked_for(make: Callable[..., Any]) -> None:
    _, _, url = make()
    iceberg = load_catalog(
        "planning", type="rest", uri=f"{url}/iceberg", **{"scan-planning-mode": "server"}
    )
    with pytest.raises(RESTError, match="Scan planning is off for this table"):
        iceberg.load_table("prod.t").scan().to_arrow()


@pytest.fixture
def duckdb_session() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with its Iceberg extension, all from packages: nothing is downloaded."""
    session = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for module, name in (
        (duckdb_extension_avro, "avro"),
        (duckdb_extension_httpfs, "httpfs"),
        (duckdb_extension_iceberg, "iceberg"),
    ):
        folder = Path(next(iter(module.__path__)))
        file = next(folder.rglob(f"{name}.duckdb_extension"))
        session.execute(f"LOAD '{file}'")
    yield session
    session.close()


def test_duckdb_reads_and_travels_in_time(
    make: Callable[..., Any], duckdb_session: duckdb.DuckDBPyConnection
) -> None:
    _, _, url = make(mirror=True)
    duckdb_session.execute(
        f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{url}/iceberg', AUTHORIZATION_TYPE 'none')"
    )

    def ask(query: str) -> Any:
        return duckdb_session.execute(query).fetchall()

    left = [n for n in range(150) if n % 10 != 3]
    assert ask("SELECT count(*), sum(id) FROM lake.prod.t") == [(len(left), sum(left))]
    assert ask("SELECT vector FROM lake.prod.t WHERE id = 121") == [([121.0, 60.5],)]
    assert ask("SELECT count(*) FROM lake.prod.t AT (VERSION => 1)") == [(100,)]


def test_polars_reads_the_mirror(make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    _, iceberg, _ = make(mirror=True)
    frame = polars.scan_iceberg(iceberg.load_table("prod.t"))
    found = frame.filter(polars.col("id") > 120).select("id", "double").collect()
    assert found.shape == (26, 2)
    old = polars.scan_iceberg(iceberg.load_table("prod.t"), snapshot_id=1).collect()
    assert old.height == 100
