"""Whoever opens a table while its newest version is deleted sees the one before."""

from typing import Any

import lance_namespace
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.catalog.known_versions import KnownVersions
from lakeroot.catalog.versions import TableVersions
from lakeroot.tables import rows
from lakeroot.tables.handle import LOOKS, TableHandle
from tests.versions.conftest import Open
from tests.versions.kinds import delete
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


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda catalog: catalog.describe_table_version({"id": ["t"]})["version"]["version"], 2),
        (lambda catalog: listed(catalog, limit=1, descending=True), [2]),
        (lambda catalog: listed(catalog), [1, 2]),
    ],
    ids=["described", "the newest listed", "all listed"],
)
def test_a_version_that_is_deleted_after_the_look_is_not_damage(
    managed: DirectoryNamespace,
    open_lake: Open,
    monkeypatch: pytest.MonkeyPatch,
    ask: Any,
    expected: Any,
) -> None:
    make_table(managed, "t", versions=3)
    rival, look, going = open_lake(), TableVersions._look, [3]

    def deleted_after(self: TableVersions, *given: Any) -> KnownVersions:
        found = look(self, *given)
        if going and self._catalog is managed.catalog and found.newest == going[-1]:
            newest = going.pop()
            delete(rival, newest, newest + 1)
        return found

    monkeypatch.setattr(TableVersions, "_look", deleted_after)

    assert ask(managed) == expected
    assert not going


def listed(catalog: DirectoryNamespace, **how: Any) -> list[int]:
    found = catalog.list_table_versions({"id": ["t"], **how})["versions"]
    return [one["version"] for one in found]


def test_a_newest_version_that_is_gone_is_still_damage(managed: DirectoryNamespace) -> None:
    location = make_table(managed, "t", versions=2)
    newest, _ = sorted((location / "_versions").glob("*.manifest"))
    newest.unlink()

    with pytest.raises(lance_namespace.InvalidTableStateError, match="Version 2 of t"):
        managed.count_table_rows({"id": ["t"]})
