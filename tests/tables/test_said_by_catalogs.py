"""What a catalog says about a commit reaches the writer, in its own words."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance_namespace
import pyarrow as pa
import pytest

from lakeroot.model import errors
from lakeroot.tables import refs, rows
from lakeroot.tables.handle import ATTEMPTS, TableHandle
from tests.tables.conftest import ROWS, managed_handle
from tests.tables.test_faults import Refusing


@pytest.fixture
def managed(tmp_path: Path) -> TableHandle:
    handle = managed_handle(tmp_path)
    rows.create(handle, ROWS)
    return handle


def refusing(table: TableHandle, error: Exception) -> TableHandle:
    client = Refusing(table.namespace_client, error)
    return TableHandle(table.location, namespace_client=client, table_id=("t",), managed=True)


@pytest.mark.parametrize("code", sorted(int(code) for code in lance_namespace.ErrorCode))
def test_what_a_catalog_says_about_a_commit_reaches_the_writer(
    managed: TableHandle, code: int
) -> None:
    said = lance_namespace.from_error_code(code, "because")

    with pytest.raises(errors.LakerootError, match="because") as refused:
        rows.insert(
            refusing(managed, said),
            pa.RecordBatchReader.from_batches(ROWS.schema, ROWS.to_batches()),
        )
    assert refused.value.code == code
    assert rows.count_rows(managed) == 3


def test_an_error_of_ours_passes_a_catalog_unchanged(managed: TableHandle) -> None:
    said = errors.PermissionDeniedError("No", "not on Sundays", "Come back on Monday")

    with pytest.raises(errors.PermissionDeniedError, match="Sundays"):
        rows.delete(refusing(managed, said), "id = 1")


def test_a_catalog_that_fails_without_a_code_is_an_internal_error(managed: TableHandle) -> None:
    with pytest.raises(errors.InternalError):
        rows.delete(refusing(managed, ZeroDivisionError("oops")), "id = 1")


def test_a_handle_says_what_a_managed_table_needs() -> None:
    with pytest.raises(errors.InvalidInputError):
        TableHandle("/lake/t.lance", managed=True)


def test_a_handle_does_not_show_its_credentials() -> None:
    assert "hush" not in repr(TableHandle("/lake/t.lance", {"secret": "hush"}))


def test_a_conflict_is_tried_again_a_few_times_and_then_reported(tmp_path: Path) -> None:
    table = managed_handle(tmp_path)
    rows.create(table, ROWS)
    attempts: Iterator[int] = iter(range(100))

    class Losing(Refusing):
        def create_table_version(self, _request: Any) -> Any:
            next(attempts)
            raise self._error

    error = lance_namespace.ConcurrentModificationError("lost")
    client = Losing(table.namespace_client, error)
    losing = TableHandle(table.location, namespace_client=client, table_id=("t",), managed=True)

    with pytest.raises(errors.ConcurrentModificationError):
        refs.restore(losing, 1)
    assert next(attempts) == ATTEMPTS


def test_a_code_means_the_same_in_a_server(tmp_path: Path) -> None:
    program = (
        "import lakeroot.server.refusals\n"
        "from lakeroot.tables.faults import BY_CODE\n"
        "print({error.__module__ for error in BY_CODE.values()})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert ran.stdout.strip() == "{'lakeroot.model.errors'}"
