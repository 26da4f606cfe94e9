"""A table whose first rows could not be written: nothing is left of it, and nobody else loses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest

from lakeroot.model.commits import DeregisterTable
from lakeroot.model.errors import ServiceUnavailableError
from lakeroot.tables import rows
from tests.asking import arrow_stream

CATALOGS = {
    "v1": ("lakeroot.DirectoryNamespace", {"manifest_enabled": "false"}),
    "v2": ("lakeroot.DirectoryNamespace", {"dir_listing_enabled": "false"}),
    "compat": ("lakeroot.DirectoryNamespace", {}),
    "managed": ("lakeroot.DirectoryNamespace", {"table_version_management": "true"}),
    "metastore": ("lakeroot.DeltaCatNamespace", {}),
}
DATA = pa.table({"n": [1, 2]})


class Place:
    """One catalog, the identifier of a table in it, and any number of clients."""

    def __init__(self, implementation: str, properties: dict[str, str]) -> None:
        self._implementation = implementation
        self._properties = properties
        # The storage model of DeltaCAT has no tables without a namespace.
        self.parent = ["a"] if implementation == "lakeroot.DeltaCatNamespace" else []
        self.table = [*self.parent, "t"]
        if self.parent:
            self.client().create_namespace({"id": self.parent})

    def client(self) -> Any:
        return lance_namespace.connect(self._implementation, self._properties)

    def fail_to_create(self, client: Any) -> None:
        with pytest.raises(Exception, match="does not answer"):
            client.create_table({"id": self.table}, arrow_stream(DATA))

    def names(self) -> list[str]:
        return list(self.client().list_tables({"id": self.parent}).tables)

    def count(self) -> int:
        return int(self.client().count_table_rows({"id": self.table}).count)


@pytest.fixture(params=CATALOGS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    implementation, properties = CATALOGS[request.param]
    return Place(implementation, {"root": str(tmp_path / "root"), **properties})


def failing(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Any], object]) -> None:
    """Let the next writing of first rows fail, after something has happened."""

    def fail(table: Any, *_: object, **__: object) -> None:
        monkeypatch.undo()
        meanwhile(table)
        raise ServiceUnavailableError("The storage does not answer")

    monkeypatch.setattr(rows, "create", fail)


def test_nothing_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    locations: list[str] = []
    failing(monkeypatch, lambda table: locations.append(table.location))
    place.fail_to_create(place.client())
    assert place.names() == []
    assert not path_of(locations[0]).exists()
    assert place.client().create_table({"id": place.table}, arrow_stream(DATA)).version == 1


def test_half_a_table_stays_declared_and_can_be_created(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(table: Any) -> None:
        data = path_of(table.location) / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "half.lance").write_bytes(b"half")

    failing(monkeypatch, half)
    place.fail_to_create(place.client())
    assert place.client().list_tables({"id": place.parent, "include_declared": False}).tables == []
    place.client().create_table({"id": place.table}, arrow_stream(DATA))
    assert place.count() == 2


def test_the_rows_of_another_are_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def another(_: Any) -> None:
        lance.write_dataset(
            DATA, namespace_client=place.client(), table_id=place.table, mode="overwrite"
        )

    failing(monkeypatch, another)
    place.fail_to_create(place.client())
    assert place.names() == ["t"]
    assert place.count() == 2


def test_rows_of_another_that_come_while_the_name_is_taken_back_are_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = place.client()
    locations: list[str] = []
    failing(monkeypatch, lambda table: locations.append(table.location))
    deregister = client.catalog.commit

    def commit(*changes: Any, **options: Any) -> Any:
        if isinstance(changes[0], DeregisterTable):
            # Another client found the table while it was declared, and writes to its place.
            lance.write_dataset(DATA, locations[0], mode="overwrite")
        return deregister(*changes, **options)

    client.catalog.commit = commit
    place.fail_to_create(client)
    assert lance.dataset(locations[0]).count_rows() == 2
    assert place.names() == ["t"]


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))
