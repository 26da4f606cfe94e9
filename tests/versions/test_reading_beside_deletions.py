"""Whoever opens a table while its newest version is deleted sees the one before."""

from typing import Any

import lance_namespace
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.tables import rows
from lakeroot.tables.handle import LOOKS, TableHandle
from tests.versions.staging import make_table


class Deleting:
    """A catalog whose newest version is deleted as soon as it was told, some times."""

    def __init__(self, catalog: DirectoryNamespace, times: int) -> None:
        self._catalog = catalog
        self._left = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def list_table_versions(self, request: Any) -> Any:
        told = self._catalog.list_table_versions(request)
        if self._left:
            self._left -= 1
            newest = told["versions"][0]["version"]
            going = {"start_version": newest, "end_version": newest + 1}
            self._catalog.batch_delete_table_versions({"id": ["t"], "ranges": [going]})
        return told


@pytest.mark.parametrize("times", [1, LOOKS - 1])
def test_a_version_that_is_deleted_while_it_is_opened(
    managed: DirectoryNamespace, times: int
) -> None:
    location = make_table(managed, "t", versions=8)
    catalog = Deleting(managed, times)
    table = TableHandle(str(location), namespace_client=catalog, table_id=("t",), managed=True)

    assert rows.count_rows(table) % 3 == 0
    assert rows.count_rows(table) == managed.count_table_rows({"id": ["t"]}).count


def test_a_newest_version_that_is_gone_is_still_damage(managed: DirectoryNamespace) -> None:
    location = make_table(managed, "t", versions=2)
    newest, _ = sorted((location / "_versions").glob("*.manifest"))
    newest.unlink()

    with pytest.raises(lance_namespace.InvalidTableStateError, match="Version 2 of t"):
        managed.count_table_rows({"id": ["t"]})
