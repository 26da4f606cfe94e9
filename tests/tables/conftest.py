"""Tables to work on: in a plain directory, and under a catalog that arbitrates commits."""

import io
from collections.abc import Callable
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace

from lakeroot.tables import rows
from lakeroot.tables.handle import TableHandle

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["ann", "bob", "cy"],
        "vector": pa.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], pa.list_(pa.float32(), 2)),
    }
)


def names(handle: TableHandle) -> dict[int, str | None]:
    found = lance.dataset(handle.location).to_table().sort_by("id")
    return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


def ipc_stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def managed_handle(root: Path, name: str = "t") -> TableHandle:
    """A declared table whose commits go through pylance's own catalog."""
    catalog = DirectoryNamespace(root=str(root), table_version_tracking_enabled="true")
    catalog.declare_table(lance_namespace.DeclareTableRequest(id=[name]))
    return TableHandle(
        str(root / f"{name}.lance"), namespace_client=catalog, table_id=(name,), managed=True
    )


@pytest.fixture(params=["plain", "managed"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> TableHandle:
    """A place for a table, not created yet."""
    if request.param == "managed":
        return managed_handle(tmp_path)
    return TableHandle(str(tmp_path / "t.lance"))


@pytest.fixture
def table(empty: TableHandle) -> TableHandle:
    rows.create(empty, ROWS)
    return empty


@pytest.fixture
def snapshot() -> Callable[[TableHandle], dict[str, int]]:
    """Every file of a table and its size, to see that a refused request changed nothing."""

    def take(handle: TableHandle) -> dict[str, int]:
        root = Path(handle.location)
        return {
            str(file.relative_to(root)): file.stat().st_size
            for file in root.rglob("*")
            if file.is_file()
        }

    return take
