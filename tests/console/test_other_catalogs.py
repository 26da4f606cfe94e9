"""The console over catalogs of other kinds: what they do not have is said, and nothing breaks."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import lance_namespace
import pyarrow as pa
import pytest

from lakeroot.lake.table import ipc
from lakeroot.server import Settings, serving
from tests.console.browsing import Browser

ROWS = pa.table({"n": [1, 2, 3]})


@pytest.fixture
def over(tmp_path: Path) -> Iterator[Callable[..., Browser]]:
    """Serve a catalog of some kind that has one table."""
    with ExitStack() as stack:

        def opened(impl: str, **more: str) -> Browser:
            properties = {"root": str(tmp_path / "lake"), **more}
            catalog = lance_namespace.connect(impl, properties)
            parent: list[str] = []
            if impl == "lakeroot.DeltaCatNamespace":
                parent = ["air"]
                catalog.create_namespace(lance_namespace.CreateNamespaceRequest(id=parent))
            request = lance_namespace.CreateTableRequest(id=[*parent, "numbers"], mode="create")
            catalog.create_table(request, ipc(ROWS))
            settings = Settings(impl, properties, port=0, log_requests=False)
            return stack.enter_context(Browser(stack.enter_context(serving(settings))))

        yield opened


def rows_of(browser: Browser, table: str) -> list[object]:
    found = browser.get(f"/console/t/{table}/rows.json").json
    return [row["cells"][0] for row in found["rows"]]


def pages_of(browser: Browser, table: str) -> None:
    for page in ("overview", "rows", "versions", "indexes", "refs", "storage"):
        browser.page(f"/console/t/{table}/{page}")


def test_a_directory_without_a_manifest_has_no_history(over: Callable[..., Browser]) -> None:
    browser = over("lakeroot.DirectoryNamespace", manifest_enabled="false")
    assert rows_of(browser, "numbers") == [1, 2, 3]
    pages_of(browser, "numbers")
    browser.page("/console/catalog")
    answer = browser.get("/console/history.json")
    assert answer.status == 501
    assert answer.json["what"]
    assert browser.get("/console/health.json").json["findings"] == []


def test_lances_own_directory_catalog_is_shown(over: Callable[..., Browser]) -> None:
    browser = over("dir")
    assert rows_of(browser, "numbers") == [1, 2, 3]
    pages_of(browser, "numbers")
    browser.page("/console/catalog")
    for page in ("history", "health", "trash"):
        answer = browser.get(f"/console/{page}.json")
        assert (answer.status, answer.json["code"]) == (501, 0)
    assert browser.get("/console/catalog?at=1").status == 501


def test_a_metastore_is_shown_with_its_history(over: Callable[..., Browser]) -> None:
    browser = over("lakeroot.DeltaCatNamespace")
    assert rows_of(browser, "air$numbers") == [1, 2, 3]
    pages_of(browser, "air$numbers")
    browser.page("/console/catalog")
    commits = browser.get("/console/history.json").json["commits"]
    assert any(["air", "numbers"] in one["created"] for one in commits)
    browser.page(f"/console/catalog?at={commits[0]['version']}")


def test_a_table_whose_data_is_gone_says_so(over: Callable[..., Browser], tmp_path: Path) -> None:
    browser = over("lakeroot.DirectoryNamespace")
    for file in sorted((tmp_path / "lake").glob("*numbers*/data/*")):
        file.unlink()
    assert (
        browser.get("/console/t/numbers/rows.json").json["what"] == "A file of the table is missing"
    )
    browser.page("/console/catalog")
    findings = browser.get("/console/health.json").json["findings"]
    assert findings
    assert findings[0]["code"] in browser.page("/console/health").text
