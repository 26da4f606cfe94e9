"""The directories of tables lie beside each other, never one inside another."""

from pathlib import Path

import lance
import pytest

from lakeroot.model.commits import DeclareTable
from lakeroot.model.errors import InvalidInputError
from tests.asking import ROWS, Lake, refused
from tests.lance_dir.conftest import Opener, files


@pytest.mark.parametrize("mode", ["v2", "compat"])
def test_a_table_cannot_be_inside_another(mode: str, opened: Opener, root: Path) -> None:
    lake = opened(mode)
    lake.create_table("t")
    around = Path(lake.describe_table("t").location or "").name
    lance.write_dataset(ROWS, str(root / around / "data" / "inner.lance"))
    before = files(root)

    with refused(13) as error:
        lake.register_table("u", location=f"{around}/data/inner.lance")
    assert "overlaps" in str(error.value)
    with refused(13):
        lake.declare_table("u", location=f"{around}/other")
    assert files(root) == before
    assert lake.tables() == ["t"]


def test_a_table_cannot_be_around_another(compat: Lake, root: Path) -> None:
    lance.write_dataset(ROWS, str(root / "archive" / "old.lance"))
    compat.register_table("old", location="archive/old.lance")

    with refused(13):
        compat.register_table("all", location="archive")
    with refused(13):
        compat.declare_table("all", location="archive")

    compat.deregister_table("old")
    compat.declare_table("all", location="archive")
    assert compat.tables() == ["all"]
    assert lance.dataset(str(root / "archive" / "old.lance")).count_rows() == ROWS.num_rows


def test_a_neighbour_with_a_longer_name_is_no_overlap(compat: Lake, root: Path) -> None:
    lance.write_dataset(ROWS, str(root / "archive" / "old.lance"))
    lance.write_dataset(ROWS, str(root / "archive" / "old.lance2"))
    compat.register_table("old", location="archive/old.lance")
    compat.register_table("older", location="archive/old.lance2")
    assert compat.tables() == ["old", "older"]


@pytest.mark.parametrize("first", ["archive", "archive/new/one"])
def test_tables_that_are_new_together_lie_beside_each_other_too(compat: Lake, first: str) -> None:
    second = {"archive": "archive/new/one", "archive/new/one": "archive"}[first]
    catalog = compat.client.catalog

    with pytest.raises(InvalidInputError, match="overlaps archive"):
        catalog.commit(DeclareTable(("t",), first, {}), DeclareTable(("u",), second, {}))

    assert compat.tables() == []
