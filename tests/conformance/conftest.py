"""One suite, every store. What a format cannot do is declared with the marker `never`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakeroot.namespace.base import LakerootNamespace
from tests.asking import Lake
from tests.conformance.stores import STORES, Place


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest) -> str:
    """The name of the store under test."""
    name: str = request.param
    return name


@pytest.fixture
def opened(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[], LakerootNamespace]]:
    """Opens the catalog of this test; a second call is a second client of the same place."""
    place = Place(
        tmp_path,
        s3=lambda: request.getfixturevalue("s3"),
        iceberg=lambda: request.getfixturevalue("own_catalog"),
    )
    clients: list[LakerootNamespace] = []

    def open_one() -> LakerootNamespace:
        clients.append(STORES[store](place))
        return clients[-1]

    yield open_one
    for client in clients:
        client.close()


@pytest.fixture
def namespace(opened: Callable[[], LakerootNamespace]) -> LakerootNamespace:
    """An empty catalog, as the Lance ecosystem sees it."""
    return opened()


@pytest.fixture
def lake(namespace: LakerootNamespace) -> Lake:
    """An empty catalog, asked in few words."""
    return Lake(namespace)


@pytest.fixture
def other(lake: Lake, opened: Callable[[], LakerootNamespace], store: str) -> Lake:
    """A second client of the same catalog; a catalog in memory has only one."""
    return lake if store == "memory" else Lake(opened())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Turn `never` into a strict expectation, and refuse one that could hide something."""
    here = str(Path(__file__).parent)
    for item in items:
        if not str(item.path).startswith(here) or not isinstance(item, pytest.Function):
            continue
        store = item.callspec.params.get("store") if hasattr(item, "callspec") else None
        for marker in item.iter_markers("never"):
            if problem := problem_with(marker):
                raise pytest.UsageError(f"{item.nodeid}: {problem}")
            if store in marker.args[0]:
                raises, reason = marker.kwargs["raises"], marker.kwargs["reason"]
                item.add_marker(pytest.mark.xfail(raises=raises, reason=reason, strict=True))


def problem_with(marker: pytest.Mark) -> str | None:
    """Say what is wrong with a `never` marker, or nothing."""
    if len(marker.args) != 1 or set(marker.kwargs) != {"raises", "reason"}:
        return "`never` takes a list of stores, `raises` and `reason`"
    unknown = sorted(set(marker.args[0]) - set(STORES))
    if unknown:
        return f"`never` names stores that do not exist: {', '.join(unknown)}"
    return None if marker.kwargs["reason"] else "`never` needs a reason"
