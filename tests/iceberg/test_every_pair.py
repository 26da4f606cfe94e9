"""Any catalog is copied into any other: directory, metastore, Iceberg REST, Lance REST."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lance_namespace as spec
import pytest

import lakeroot
from lakeroot.namespace.sync import Kind, differences, sync
from lakeroot.server import Settings, serving
from tests.asking import ROWS, Lake, arrow_stream
from tests.iceberg.servers import Weed, fresh_name

KINDS = ("directory", "metastore", "iceberg", "rest")
Opener = Callable[[str], Lake]


@pytest.fixture
def catalogs(catalog: Weed, tmp_path: Path) -> Iterator[Opener]:
    """Opens a catalog by its kind; each call is another one, but for the Iceberg server's."""
    numbers = itertools.count()
    with ExitStack() as servers:

        def opened(kind: str) -> Lake:
            root = str(tmp_path / f"{kind}{next(numbers)}")
            client: Any
            match kind:
                case "directory":
                    client = lakeroot.DirectoryNamespace(root=root)
                case "metastore":
                    client = lakeroot.DeltaCatNamespace(root=root)
                case "iceberg":
                    client = lakeroot.IcebergNamespace(**catalog.properties, managed_by="impl")
                case _:
                    client = spec.connect("rest", {"uri": servers.enter_context(served(root))})
            return Lake(client)

        yield opened


def served(root: str) -> Any:
    impl = "lakeroot.DirectoryNamespace"
    return serving(Settings(port=0, impl=impl, properties={"root": root}, log_requests=False))


def fill(lake: Lake) -> str:
    """Make a namespace of two tables, one of them with two versions and one without any."""
    name = fresh_name()
    lake.create_namespace(name, properties={"owner": "me"})
    lake.create_table(name, "users", properties={"k": "v"})
    append(lake, name)
    lake.declare_table(name, "soon")
    return name


def append(lake: Lake, name: str) -> None:
    request = spec.InsertIntoTableRequest(id=[name, "users"], mode="append")
    lake.client.insert_into_table(request, arrow_stream())


def rows_and_versions(lake: Lake, name: str) -> tuple[int, list[int]]:
    rows = lake.client.count_table_rows(spec.CountTableRowsRequest(id=[name, "users"]))
    versions = lake.client.list_table_versions(spec.ListTableVersionsRequest(id=[name, "users"]))
    count = rows if isinstance(rows, int) else rows.count
    return count, sorted(version.version for version in versions.versions)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(KINDS, KINDS)))
def test_every_catalog_is_copied_into_every_other(catalogs: Opener, source: str, target: str):
    ours, theirs = catalogs(source), catalogs(target)
    here = fill(ours)
    way: dict[str, Any] = {"under": [here], "into": [fresh_name()], "copy_data": True}
    there = way["into"][0]
    planned = [step.kind for step in differences(ours.client, theirs.client, **way)]
    assert planned == [Kind.CREATE_NAMESPACE, Kind.DECLARE_TABLE, Kind.COPY_TABLE]
    assert not theirs.namespace_exists(there)
    outcome = sync(ours.client, theirs.client, **way)
    assert outcome.is_complete, outcome.failed
    assert [step.kind for step in outcome.done] == planned
    assert rows_and_versions(theirs, there) == (2 * ROWS.num_rows, [1, 2])
    assert theirs.describe_table(there, "users").properties == {"k": "v"}
    assert sync(ours.client, theirs.client, **way).done == ()
    append(ours, here)
    assert [s.kind for s in sync(ours.client, theirs.client, **way).done] == [Kind.COPY_VERSIONS]
    assert rows_and_versions(theirs, there) == (3 * ROWS.num_rows, [1, 2, 3])


@pytest.mark.parametrize("target", KINDS)
def test_tables_are_entered_where_they_are_and_nothing_moves(tmp_path: Path, target: str):
    lake = Lake(lakeroot.DirectoryNamespace(root=str(tmp_path / "lake" / "a")))
    here = fill(lake)
    place = lake.describe_table(here, "users").location
    before = sorted(path for path in Path(place).rglob("*") if path.is_file())
    with ExitStack() as servers:
        root = str(tmp_path / "lake")
        client: Any
        match target:
            case "directory":
                client = lakeroot.DirectoryNamespace(root=root, dir_listing_enabled="false")
            case "metastore":
                client = lakeroot.DeltaCatNamespace(root=root)
            case "iceberg":
                url = servers.enter_context(served(root))
                client = lakeroot.IcebergNamespace(endpoint=f"{url}/iceberg")
            case _:
                client = spec.connect("rest", {"uri": servers.enter_context(served(root))})
        outcome = sync(lake.client, client, under=[here], into=[here])
        assert outcome.is_complete, outcome.failed
        theirs = Lake(client)
        assert theirs.describe_table(here, "users").location.removeprefix("file://") == place
        assert rows_and_versions(theirs, here) == (2 * ROWS.num_rows, [1, 2])
        assert list(differences(lake.client, client, under=[here], into=[here])) == []
    assert sorted(path for path in Path(place).rglob("*") if path.is_file()) == before


def test_a_single_table_is_copied(catalogs: Opener):
    ours, theirs = catalogs("directory"), catalogs("directory")
    here = fill(ours)
    outcome = sync(ours.client, theirs.client, under=[here, "users"], into=["x"], copy_data=True)
    assert outcome.is_complete, outcome.failed
    assert theirs.tables("x") == ["users"]
    assert rows_and_versions(theirs, "x")[0] == 2 * ROWS.num_rows


KILLED = """
import os, sys
import lakeroot
from lakeroot.namespace import table_copy
from lakeroot.namespace.sync import sync

source, target, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
real = table_copy._copy_data

def dying(*arguments):
    global files
    files -= 1
    if files < 0:
        os.kill(os.getpid(), 9)
    return real(*arguments)

table_copy._copy_data = dying
sync(lakeroot.DirectoryNamespace(root=source), lakeroot.DirectoryNamespace(root=target),
     copy_data=True)
"""


@pytest.mark.parametrize("files", [1, 3])
def test_a_killed_copy_shows_whole_versions_only_and_is_finished_later(tmp_path: Path, files: int):
    source, target = str(tmp_path / "a"), str(tmp_path / "b")
    ours = Lake(lakeroot.DirectoryNamespace(root=source))
    here = fill(ours)
    command = [sys.executable, "-c", KILLED, source, target, str(files)]
    assert subprocess.run(command, check=False).returncode == -9
    theirs = Lake(lakeroot.DirectoryNamespace(root=target))
    assert theirs.describe_table(here, "users", check_declared=True).is_only_declared
    outcome = sync(ours.client, theirs.client, copy_data=True)
    assert outcome.is_complete, outcome.failed
    assert rows_and_versions(theirs, here) == (2 * ROWS.num_rows, [1, 2])
    assert sync(ours.client, theirs.client, copy_data=True).done == ()
