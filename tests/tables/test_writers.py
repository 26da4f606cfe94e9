"""Many writers on one table: every acknowledged row is there, whoever arbitrates."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import lance_namespace
import pyarrow as pa
import pytest

from lakeroot.model.errors import TableAlreadyExistsError
from lakeroot.tables import rows
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.versions import NamingScheme, parse_manifest_name
from tests.tables.conftest import ROWS, managed_handle

WRITERS = int(os.environ.get("LAKEROOT_RACERS", "8"))
APPENDS = 5

WRITER = """
import sys
import lance_namespace
import pyarrow as pa
from lakeroot.tables import rows
from lakeroot.tables.handle import TableHandle

root, mode, writer, appends = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
table = TableHandle(root + "/t.lance")
if mode == "managed":
    properties = {"root": root, "table_version_management": "true"}
    catalog = lance_namespace.connect("lakeroot.DirectoryNamespace", properties)
    table = TableHandle(table.location, None, None, catalog, ("t",), True)
for turn in range(appends):
    data = pa.table({"writer": [writer], "turn": [turn]})
    print(rows.insert(table, data).version)
"""


def launch(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, *(str(one) for one in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def arbitrated(root: Path) -> TableHandle:
    """A declared table whose commits go through Lakeroot's own catalog."""
    catalog: Any = lance_namespace.connect(
        "lakeroot.DirectoryNamespace", {"root": str(root), "table_version_management": "true"}
    )
    location = catalog.declare_table({"id": ["t"]}).location
    return TableHandle(location, namespace_client=catalog, table_id=("t",), managed=True)


@pytest.mark.parametrize("mode", ["plain", "managed"])
def test_no_row_of_many_processes_is_lost(tmp_path: Path, mode: str) -> None:
    table = arbitrated(tmp_path) if mode == "managed" else TableHandle(f"{tmp_path}/t.lance")
    rows.create(table, pa.table({"writer": [-1], "turn": [-1]}))

    processes = [launch(tmp_path, mode, writer, APPENDS) for writer in range(WRITERS)]
    versions: list[int] = []
    for process in processes:
        written, complaints = process.communicate()
        assert process.returncode == 0, complaints
        versions += [int(line) for line in written.split()]

    found = lance.dataset(table.location).to_table()
    pairs = set(zip(found["writer"].to_pylist(), found["turn"].to_pylist(), strict=True))
    assert pairs == {(-1, -1)} | {(w, t) for w in range(WRITERS) for t in range(APPENDS)}
    assert found.num_rows == 1 + WRITERS * APPENDS
    assert sorted(versions) == list(range(2, 2 + WRITERS * APPENDS))


def test_a_creator_whose_reply_was_lost_recognises_its_own_table(tmp_path: Path) -> None:
    class Forgetful:
        """A catalog that commits and then loses its voice, once."""

        def __init__(self, client: Any) -> None:
            self._client = client
            self.deaf = True

        def __getattr__(self, name: str) -> Any:
            return getattr(self._client, name)

        def create_table_version(self, request: Any) -> Any:
            self._client.create_table_version(request)
            raise TimeoutError("the reply was lost")

        def describe_table_version(self, request: Any) -> Any:
            if self.deaf and request["version"] == 1:
                raise TimeoutError("the reply was lost")
            return self._client.describe_table_version(request)

        def list_table_versions(self, request: Any) -> Any:
            answer = self._client.list_table_versions(request)
            self.deaf = not answer.versions
            return answer

    declared = managed_handle(tmp_path)
    client = Forgetful(declared.namespace_client)
    table = TableHandle(declared.location, namespace_client=client, table_id=("t",), managed=True)

    created = rows.create(table, ROWS)

    assert (created.version, created.num_inserted_rows) == (1, 3)
    assert rows.count_rows(declared) == 3


def test_a_creator_that_lost_leaves_no_data_behind(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))

    class Late:
        """Rows during whose reading another creator wins."""

        def __iter__(self) -> Any:
            rows.create(table, pa.table({"id": pa.array([7], pa.int64())}))
            yield from ROWS.select(["id"]).to_batches()

    data = pa.RecordBatchReader.from_batches(ROWS.select(["id"]).schema, iter(Late()))

    with pytest.raises(TableAlreadyExistsError):
        rows.create(table, data)
    assert rows.count_rows(table) == 1
    assert len(list(Path(table.location, "data").iterdir())) == 1


@pytest.mark.parametrize("form", ["path", "file"])
@pytest.mark.parametrize("name", ["plain", "with space", "per%41cent", "ha#sh", "naïve"])
def test_a_table_works_in_a_folder_of_any_name(tmp_path: Path, name: str, form: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    location = folder / "t.lance"
    table = TableHandle(location.as_uri() if form == "file" else str(location))

    rows.create(table, ROWS)
    rows.insert(table, ROWS)
    rows.delete(table, "id = 1")

    assert rows.count_rows(TableHandle(str(location))) == 4
    assert rows.count_rows(table, version=2) == 6


@pytest.mark.parametrize("managed", [False, True])
def test_a_table_of_the_older_naming_scheme_stays_one(tmp_path: Path, managed: bool) -> None:
    table = managed_handle(tmp_path) if managed else TableHandle(f"{tmp_path}/t.lance")
    lance.write_dataset(ROWS, table.location, enable_v2_manifest_paths=False)

    inserted = rows.insert(table, ROWS)
    deleted = rows.delete(table, "id = 2")

    assert inserted.transaction_id
    assert deleted.version == 3
    found = [parse_manifest_name(file.name) for file in Path(table.location, "_versions").iterdir()]
    assert {name.scheme for name in found if name is not None} == {NamingScheme.V1}
    assert rows.count_rows(table, version=1) == 3
