"""Tables that are only declared get their first rows in a transaction."""
# ruff: noqa: PT012, SIM117 (the whole transaction is what must raise)

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    ConcurrentModificationError,
    TableAlreadyExistsError,
    TableNotFoundError,
)

from lakeroot.namespace.caring import CaredNamespace
from lakeroot.namespace.transaction import Transaction
from tests.versions.kinds import MANAGED, append, opener, place_of
from tests.versions.staging import ROWS, files_below, numbers, row_count
from tests.versions.test_transactions import MORE, ChangedMindError

FILLING = ("create", "append", "overwrite")


@pytest.fixture(params=MANAGED)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def catalog(kind: str, root: Path) -> CaredNamespace:
    made = opener(kind, root)()
    made.declare_table({"id": ["t"], "properties": {"owner": "ml"}})
    lance.write_dataset(ROWS, namespace_client=made, table_id=["other"])
    return made


def fill(tx: Transaction, how: str, data: pa.Table = ROWS, **more: Any) -> None:
    getattr(tx, how)(["t"], data, **more)


@pytest.mark.parametrize("how", FILLING)
def test_a_declared_table_is_filled(catalog: CaredNamespace, how: str) -> None:
    with catalog.transaction("fill") as tx:
        fill(tx, how)
        assert tx.dataset(["t"]).count_rows() == 3
        tx.append(["t"], MORE)
        tx.append(["other"], MORE)
        assert numbers(catalog, "t") == []

    assert numbers(catalog, "t") == [1, 2]
    assert row_count(catalog, "t") == 5
    assert row_count(catalog, "other") == 5
    assert catalog.describe_table({"id": ["t"]}).properties == {"owner": "ml"}
    assert [one.message for one in catalog.catalog.history(1)] == ["fill"]
    assert lance.dataset(str(place_of(catalog, "t"))).count_rows() == 5


def test_a_declared_table_gets_the_properties_it_is_created_with(catalog: CaredNamespace) -> None:
    with catalog.transaction() as tx:
        fill(tx, "create", properties={"owner": "bi"})
        assert catalog.describe_table({"id": ["t"]}).properties == {"owner": "ml"}

    assert catalog.describe_table({"id": ["t"]}).properties == {"owner": "bi"}
    assert row_count(catalog, "t") == 3


def test_a_table_is_filled_only_once(catalog: CaredNamespace) -> None:
    with catalog.transaction() as tx:
        fill(tx, "create")
        with pytest.raises(TableAlreadyExistsError, match="already a table t"):
            fill(tx, "create")
    with pytest.raises(TableAlreadyExistsError, match="already a table t"):
        with catalog.transaction() as tx:
            fill(tx, "create")

    assert numbers(catalog, "t") == [1]


@pytest.mark.parametrize("how", FILLING)
def test_rows_of_a_declared_table_go_with_the_transaction(
    catalog: CaredNamespace, how: str
) -> None:
    before = files_below(place_of(catalog, "t"))
    with pytest.raises(ChangedMindError):
        with catalog.transaction() as tx:
            fill(tx, how, properties={}) if how == "create" else fill(tx, how)
            tx.append(["t"], MORE)
            raise ChangedMindError

    assert files_below(place_of(catalog, "t")) == before
    assert numbers(catalog, "t") == []
    with catalog.transaction() as tx:
        fill(tx, "create")
    assert row_count(catalog, "t") == 3


@pytest.mark.parametrize("how", FILLING)
def test_a_table_that_another_writer_filled_first(
    catalog: CaredNamespace, kind: str, root: Path, how: str
) -> None:
    rival = opener(kind, root)()

    def load() -> None:
        with catalog.transaction() as tx:
            fill(tx, how, MORE)
            append(rival, "t")

    if how == "create":
        with pytest.raises(ConcurrentModificationError, match="already a table t"):
            load()
    else:
        load()

    expected = {"create": 3, "append": 3 + 2, "overwrite": 2}
    assert row_count(catalog, "t") == expected[how]
    assert len(numbers(catalog, "t")) == (1 if how == "create" else 2)


def test_what_needs_rows_says_how_a_declared_table_gets_some(catalog: CaredNamespace) -> None:
    for step in (
        lambda tx: tx.merge(["t"], MORE, "id"),
        lambda tx: tx.update(["t"], {"word": "'x'"}),
        lambda tx: tx.delete(["t"], "true"),
        lambda tx: tx.dataset(["t"]),
    ):
        with pytest.raises(TableNotFoundError, match="Create the table with its first rows"):
            with catalog.transaction() as tx:
                step(tx)
