"""The Python face over a server: the same words as over a directory."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakeroot
from lakeroot.lake import Lake
from lakeroot.server import Settings, serving


@pytest.fixture(params=["false", "true"], ids=["files", "managed"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    properties = {"root": str(tmp_path / "lake"), "table_version_management": request.param}
    settings = Settings("lakeroot.DirectoryNamespace", properties, port=0, log_requests=False)
    with serving(settings) as url:
        yield lakeroot.open(url)


def test_a_catalog_is_used_through_a_server(lake: Lake) -> None:
    lake.create_namespace("air", {"owner": "ada"})
    flights = lake.create_table("air.flights", pa.table({"id": [1, 2], "delay": [5.0, 7.0]}))
    flights.append(pa.table({"id": [3], "delay": [1.0]}))
    assert lake.namespaces() == ["air"]
    assert lake.tables() == ["air.flights"]
    assert lake.properties("air") == {"owner": "ada"}
    assert (flights.version, flights.count()) == (2, 3)
    assert [one["version"] for one in flights.versions()] == [2, 1]
    flights.delete("id = 1")
    flights.tag("first", 1)
    assert flights.tags() == {"first": 1}
    flights.restore(1)
    assert flights.to_arrow().column("id").to_pylist() == [1, 2]
    lake.rename_table("air.flights", "air.departures")
    assert "air.departures" in lake
    assert "air.flights" not in lake
    lake.drop_table("air.departures")
    assert lake.tables() == []
