"""An export into Iceberg happens or does not, whatever dies on the way, and can be repeated."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from requests.exceptions import ConnectionError as LostConnection

import lakeroot.spark
from lakeroot.model.errors import LakerootError, ServiceUnavailableError
from lakeroot.spark import iceberg_exports
from lakeroot.spark.row_tasks import over_rows
from tests.spark.conftest import put

ROWS = pa.table({"id": pa.array(range(40), pa.int64()), "name": [f"n{n}" for n in range(40)]})


@pytest.fixture
def iceberg(own_catalog: str) -> tuple[Catalog, dict[str, str]]:
    """An Iceberg catalog with a namespace, and what pyiceberg must be told to find it."""
    told = {"type": "rest", "uri": own_catalog}
    catalog = load_catalog("tests", **told)
    catalog.create_namespace("air")
    return catalog, told


@pytest.fixture
def export(spark, root, catalog, iceberg) -> Any:
    put(catalog, "shop.rows", ROWS, max_rows_per_file=10)

    def exported(mode: str, target: str = "air.rows") -> int:
        return lakeroot.spark.export(
            spark, "shop.rows", target, format="iceberg", mode=mode, writer=iceberg[1], root=root
        )

    return exported


def files(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "own").rglob("*.parquet")}


def lose_answers(monkeypatch: pytest.MonkeyPatch, error: Exception, *, after: bool) -> None:
    """Let commits raise, before they happen or after."""
    commit = RestCatalog.commit_table

    def lost(*given: Any, **named: Any) -> Any:
        if after:
            commit(*given, **named)
        raise error

    monkeypatch.setattr(RestCatalog, "commit_table", lost)


def test_an_export_that_is_killed_leaves_no_table_and_is_repeated(iceberg, export, monkeypatch):
    class KilledError(BaseException):
        """What no handler of errors sees, as none sees a kill."""

    def killed(*_: Any) -> None:
        raise KilledError

    for mode in ("error", "append", "overwrite", "ignore"):
        target = f"air.{mode}"
        with monkeypatch.context() as patched:
            patched.setattr(iceberg_exports, "over_rows", killed)
            with pytest.raises(KilledError):
                export(mode, target)
        assert not iceberg[0].table_exists(target)
        assert export(mode, target) == 40
        rows = iceberg[0].load_table(target).scan().to_arrow()
        assert sorted(rows["id"].to_pylist()) == [*range(40)]


def test_rows_whose_commit_was_not_answered_stay(iceberg, export, monkeypatch):
    lose_answers(monkeypatch, CommitStateUnknownException("504"), after=True)
    for mode, rows in (("error", 40), ("append", 80), ("overwrite", 40)):
        assert export(mode) == 40
        found = iceberg[0].load_table("air.rows").scan().to_arrow()
        assert sorted(found["id"].to_pylist()) == sorted([*range(40)] * (rows // 40))


def test_files_of_a_commit_that_failed_are_deleted(iceberg, export, monkeypatch, tmp_path):
    export("append")
    before = files(tmp_path)
    lose_answers(monkeypatch, LostConnection("reset"), after=False)
    for target in ("air.rows", "air.fresh"):
        with pytest.raises(ServiceUnavailableError, match="cannot be written"):
            export("append", target)
    assert files(tmp_path) == before
    assert iceberg[0].load_table("air.rows").scan().count() == 40
    assert not iceberg[0].table_exists("air.fresh")


def test_nothing_is_deleted_while_nobody_knows_whether_the_commit_happened(
    iceberg, export, monkeypatch
):
    export("append")
    found, tables = RestCatalog.load_table, []

    def once(*given: Any) -> Any:
        tables.append(given)
        if len(tables) > 1:
            raise LostConnection("reset")
        return found(*given)

    with monkeypatch.context() as patched:
        lose_answers(patched, LostConnection("reset"), after=True)
        patched.setattr(RestCatalog, "load_table", once)
        with pytest.raises(ServiceUnavailableError, match="It is not known whether") as failed:
            export("append")
    assert "lakeroot.job" in str(failed.value)
    assert iceberg[0].load_table("air.rows").scan().to_arrow().num_rows == 80


def test_a_table_that_another_made_meanwhile_keeps_its_rows(iceberg, export, monkeypatch):
    there, run = iceberg[0], over_rows

    def slowly(*given: Any) -> Any:
        parts = run(*given)
        there.create_table("air.rows", ROWS.schema).append(ROWS.slice(0, 3))
        return parts

    monkeypatch.setattr(iceberg_exports, "over_rows", slowly)
    with pytest.raises(LakerootError, match=r"air\.rows"):
        export("error")
    assert there.load_table("air.rows").scan().to_arrow().num_rows == 3
