"""Others always commit first: after so many attempts a writer says so, and not before."""

from typing import Any

import pytest

from lakeroot import DirectoryNamespace
from lakeroot.catalog import version_commits, versions
from lakeroot.catalog.versions import TableVersions
from lakeroot.model.errors import ConcurrentModificationError, TableVersionAlreadyExistsError
from tests.versions.staging import make_table, numbers, stage


class Refuses:
    """Commits of a catalog, the first so many of which are refused."""

    def __init__(self, namespace: DirectoryNamespace, times: int, error: Exception) -> None:
        self._real, self._left, self._error = namespace.catalog.commit, times, error
        self.asked = 0
        namespace.catalog.commit = self  # type: ignore[method-assign]

    def __call__(self, *changes: Any, **options: Any) -> Any:
        self.asked += 1
        if self.asked <= self._left:
            raise self._error
        return self._real(*changes, **options)


def test_management_is_switched_on_at_the_last_attempt_or_refused(
    open_lake: Any,
) -> None:
    namespace = open_lake()
    make_table(namespace, "t")
    error = TableVersionAlreadyExistsError("Another was first")
    commits = Refuses(namespace, versions._ATTEMPTS, error)
    with pytest.raises(TableVersionAlreadyExistsError):
        TableVersions(namespace.catalog).enable()
    assert commits.asked == versions._ATTEMPTS
    assert not TableVersions(namespace.catalog).is_managed(None)

    commits = Refuses(namespace, 0, error)
    TableVersions(namespace.catalog).enable()
    assert commits.asked == 1


def test_a_version_is_committed_at_the_last_attempt_or_refused(
    managed: DirectoryNamespace,
) -> None:
    make_table(managed, "t")
    error = ConcurrentModificationError("Another was first")
    real = managed.catalog.commit
    last = version_commits._ATTEMPTS
    for refused in (last - 1, last):
        request = stage(managed, "t").request()
        commits = Refuses(managed, refused, error)
        if refused == last:
            with pytest.raises(Exception, match="Another was first"):
                managed.create_table_version(request)
        else:
            managed.create_table_version(request)
        assert commits.asked == last
        managed.catalog.commit = real  # type: ignore[method-assign]
    assert numbers(managed, "t") == [1, 2]
