"""Tables that somebody drops while others work on them: the error is that, and not its effects."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance_namespace
import pyarrow as pa
import pytest

from lakeroot import DeltaCatNamespace, DirectoryNamespace
from lakeroot.model import errors
from lakeroot.tables import rows
from lakeroot.tables.handle import TableHandle, working_on
from tests.tables.conftest import ROWS, ipc_stream

NOT_THERE = (lance_namespace.TableNotFoundError, lance_namespace.ConcurrentModificationError)
ID = ["ns", "t"]

Change = Callable[[Any, Any], object]
CHANGES: dict[str, Change] = {
    "insert": lambda catalog, data: catalog.insert_into_table({"id": ID}, data),
    "merge": lambda catalog, data: catalog.merge_insert_into_table(
        {"id": ID, "on": ["id"], "when_matched_update_all": True}, data
    ),
    "update": lambda catalog, _: catalog.update_table({"id": ID, "updates": [["name", "'x'"]]}),
    "delete": lambda catalog, _: catalog.delete_from_table({"id": ID, "predicate": "id = 1"}),
    "count": lambda catalog, _: catalog.count_table_rows({"id": ID}),
    "query": lambda catalog, _: catalog.query_table({"id": ID, "k": 1, "vector": {}}),
    "index": lambda catalog, _: catalog.create_table_index(
        {"id": ID, "column": "id", "index_type": "BTREE"}
    ),
    "restore": lambda catalog, _: catalog.restore_table({"id": ID, "version": 1}),
    "branch": lambda catalog, _: catalog.create_table_branch({"id": ID, "name": "b"}),
    "add a column": lambda catalog, _: catalog.alter_table_add_columns(
        {"id": ID, "new_columns": [{"name": "more", "expression": "id + 1"}]}
    ),
    "rename a column": lambda catalog, _: catalog.alter_table_alter_columns(
        {"id": ID, "alterations": [{"path": "name", "rename": "called"}]}
    ),
    "drop a column": lambda catalog, _: catalog.alter_table_drop_columns(
        {"id": ID, "columns": ["name"]}
    ),
    "metadata": lambda catalog, _: catalog.update_table_schema_metadata(
        {"id": ID, "metadata": {"key": "value"}}
    ),
    "metadata of a field": lambda catalog, _: catalog.update_field_metadata(
        {"id": ID, "updates": [{"path": "name", "metadata": {"key": "value"}}]}
    ),
}


class Interrupted:
    """A catalog in which something happens between finding a table and working on it."""

    meanwhile: Callable[[], object] | None = None

    def handle(self, *arguments: Any, **named: Any) -> TableHandle:
        found: TableHandle = super().handle(*arguments, **named)  # type: ignore[misc]
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        return found


class InterruptedDirectory(Interrupted, DirectoryNamespace):
    pass


class InterruptedDeltaCat(Interrupted, DeltaCatNamespace):
    pass


@pytest.fixture(params=["plain", "managed", "deltacat"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    root = str(tmp_path)
    if request.param == "deltacat":
        found: Any = InterruptedDeltaCat(root=root)
    else:
        managed = str(request.param == "managed").lower()
        found = InterruptedDirectory(root=root, table_version_management=managed)
    found.create_namespace({"id": ["ns"]})
    found.create_table({"id": ID}, ipc_stream(ROWS))
    return found


def rows_after(act: Callable[[], object]) -> pa.RecordBatchReader:
    """Rows that come after something else has happened."""

    def batches() -> Iterator[pa.RecordBatch]:
        act()
        yield from ROWS.to_batches()

    return pa.RecordBatchReader.from_batches(ROWS.schema, batches())


def make_again(catalog: Any) -> None:
    catalog.drop_table({"id": ID})
    catalog.create_table({"id": ID}, ipc_stream(ROWS))


@pytest.mark.parametrize("change", CHANGES)
def test_who_works_on_a_table_that_is_dropped_meanwhile_finds_no_table(
    catalog: Any, change: str
) -> None:
    catalog.meanwhile = lambda: catalog.drop_table({"id": ID})

    with pytest.raises(lance_namespace.TableNotFoundError, match="There is no table"):
        CHANGES[change](catalog, ipc_stream(ROWS))


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "count"])
def test_who_works_on_a_table_that_is_made_again_meanwhile_has_a_conflict(
    catalog: Any, change: str
) -> None:
    catalog.meanwhile = lambda: make_again(catalog)

    with pytest.raises(lance_namespace.ConcurrentModificationError, match="another table now"):
        CHANGES[change](catalog, ipc_stream(ROWS))


@pytest.mark.parametrize("catalog", ["managed", "deltacat"], indirect=True)
def test_a_table_that_is_declared_again_while_it_is_created_is_a_conflict(catalog: Any) -> None:
    catalog.drop_table({"id": ID})

    def declare_again() -> None:
        catalog.drop_table({"id": ID})
        catalog.declare_table({"id": ID})

    with pytest.raises(lance_namespace.ConcurrentModificationError, match="another table now"):
        catalog.create_table({"id": ID}, rows_after(declare_again))


@pytest.mark.parametrize("change", ["insert", "merge"])
@pytest.mark.parametrize("catalog", ["managed", "deltacat"], indirect=True)
@pytest.mark.parametrize("again", [False, True])
def test_a_table_that_is_dropped_while_rows_come_is_not_there(
    catalog: Any, change: str, again: bool
) -> None:
    def drop() -> None:
        catalog.drop_table({"id": ID})
        if again:
            catalog.create_table({"id": ID}, ipc_stream(ROWS))

    with pytest.raises(NOT_THERE):
        CHANGES[change](catalog, rows_after(drop))


def test_a_table_that_is_damaged_but_there_is_still_called_damaged(catalog: Any) -> None:
    location = catalog.describe_table({"id": ID}).location
    for file in Path(location, "data").iterdir():
        file.unlink()

    with pytest.raises(lance_namespace.InvalidTableStateError, match="file of the table"):
        catalog.update_table({"id": ID, "updates": [["name", "'x'"]]})


def test_a_table_whose_namespace_is_dropped_meanwhile_is_not_there(catalog: Any) -> None:
    def drop() -> None:
        catalog.drop_table({"id": ID})
        catalog.drop_namespace({"id": ["ns"]})

    catalog.meanwhile = drop

    with pytest.raises(lance_namespace.NamespaceNotFoundError):
        CHANGES["update"](catalog, None)


@pytest.mark.parametrize("error", [errors.ServiceUnavailableError, errors.PermissionDeniedError])
def test_what_failed_is_told_even_if_the_table_cannot_be_looked_at_again(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, error: type[errors.LakerootError]
) -> None:
    def fail(_: object) -> None:
        raise error("The second look failed")

    def work() -> None:
        with catalog.at_work(ID):
            monkeypatch.setattr(catalog.catalog, "table", fail)
            raise errors.InvalidTableStateError("The work failed")

    with pytest.raises(errors.InvalidTableStateError, match="The work failed"):
        work()


@pytest.mark.parametrize("again", [False, True])
def test_work_on_files_that_are_gone_meanwhile_is_a_conflict(tmp_path: Path, again: bool) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, ROWS)

    def work() -> None:
        with working_on(table, "Updating rows") as bench:
            dataset = bench.open()
            shutil.rmtree(table.location)
            if again:
                rows.create(table, ROWS)
            dataset.update({"name": "'x'"})

    with pytest.raises(errors.ConcurrentModificationError, match="dropped meanwhile"):
        work()
