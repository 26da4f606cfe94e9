"""The console in a real Chromium: pictures of every page, axe, keys, and no script but ours.

Where there is a Chromium; the pictures are kept in ``artifacts/console``.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from lakeroot.lake import Lake
from lakeroot.server import hash_of, new_token
from tests.console import browsing
from tests.console.catalogs import HOSTILE

ARTIFACTS = Path(os.environ.get("LAKEROOT_ARTIFACTS", "artifacts")) / "console"
FLIGHTS = "/console/t/air$flights"
PATIENCE = 120_000
"""Milliseconds that a busy machine may take for a page."""

# One browser is enough for all of them.
pytestmark = pytest.mark.xdist_group("chromium")
PAGES = {
    "catalog": "/console/catalog",
    "search": "/console/catalog?q=air",
    "namespace": "/console/n/air/overview",
    "table": f"{FLIGHTS}/overview",
    "rows": f"{FLIGHTS}/rows?sort=-id",
    "pictures": "/console/t/air$pictures/rows",
    "hostile": f"/console/t/air${quote(HOSTILE)}/rows",
    "versions": f"{FLIGHTS}/versions",
    "indexes": f"{FLIGHTS}/indexes",
    "refs": f"{FLIGHTS}/refs",
    "storage": f"{FLIGHTS}/storage",
    "drop": f"{FLIGHTS}/drop",
    "history": "/console/history",
    "health": "/console/health",
    "trash": "/console/trash",
    "past": "/console/n/air/overview?at=4",
    "login": "/console/-/login",
    "error": "/console/nowhere",
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = os.environ.get("LAKEROOT_CHROMIUM") or shutil.which("chromium")
    if not found:
        pytest.skip("There is no Chromium: install it, or name it with LAKEROOT_CHROMIUM")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])


@pytest.fixture
def window(chromium: Browser) -> Iterator[Callable[..., Page]]:
    """Open windows in which an unwanted script, dialog or error fails the test."""
    faults: list[str] = []

    def opened(**options: Any) -> Page:
        page = chromium.new_context(viewport={"width": 1360, "height": 860}, **options).new_page()
        page.set_default_timeout(PATIENCE)
        page.on("dialog", lambda dialog: _dismiss(faults, dialog))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: _note(faults, said.type, said.text))
        return page

    yield opened
    for context in chromium.contexts:
        context.close()
    assert faults == []


def _dismiss(faults: list[str], dialog: Any) -> None:
    faults.append(dialog.message)
    dialog.dismiss()


def _note(faults: list[str], kind: str, text: str) -> None:
    if kind == "error" and "404 (Not Found)" not in text:
        faults.append(text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_has_its_picture(
    window: Callable[..., Page], shared: str, name: str, scheme: str
) -> None:
    page = window(color_scheme=scheme)
    page.goto(shared + PAGES[name])
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}-{scheme}.png", full_page=True)
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")
    said = [(v["id"], [node["html"][:200] for node in v["nodes"]]) for v in found["violations"]]
    assert said == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_narrow_window(window: Callable[..., Page], shared: str, name: str) -> None:
    page = window()
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(shared + PAGES[name])
    page.screenshot(path=ARTIFACTS / f"{name}-narrow.png")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_pictures_and_vectors_are_drawn(window: Callable[..., Page], shared: str) -> None:
    page = window()
    page.goto(shared + PAGES["pictures"])
    first = page.locator("img.thumb").first
    expect(first).to_be_visible()
    assert first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 24
    page.goto(shared + PAGES["rows"])
    assert page.locator("svg.sketch").count() == 25


def test_keys_lead_to_the_search_the_content_and_the_next_page(
    window: Callable[..., Page], shared: str
) -> None:
    page = window()
    page.goto(f"{shared}{FLIGHTS}/rows?sort=id")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.wait_for_url("**offset=25**")
    page.keyboard.press("/")
    page.keyboard.type("flights")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=flights")
    expect(page.locator("h1")).to_contain_text("flights")


def test_the_slider_shows_the_catalog_as_it_was(window: Callable[..., Page], shared: str) -> None:
    page = window()
    page.goto(f"{shared}/console/history")
    page.locator("#at").focus()
    page.keyboard.press("Home")
    expect(page.locator("#chosen")).to_have_text("1")
    expect(page.locator("#then-tables")).to_contain_text("air (0 tables)")
    page.get_by_role("button", name="Go there").click()
    page.wait_for_url("**at=1")
    expect(page.locator(".past")).to_contain_text("at version 1")


def test_pages_work_without_javascript(window: Callable[..., Page], shared: str) -> None:
    page = window(java_script_enabled=False)
    page.goto(f"{shared}{FLIGHTS}/rows")
    page.locator("#where").fill("id = 7")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".rows tbody tr")).to_have_count(1)
    page.goto(f"{shared}/console/history")
    page.get_by_role("button", name="Go there").click()
    expect(page.locator(".past")).to_be_visible()


def test_a_person_logs_in_tags_and_drops(
    window: Callable[..., Page], visit: Callable[..., browsing.Browser], lake: Lake, tmp_path: Path
) -> None:
    token = new_token()
    access = f'[[tokens]]\nname = "ada"\nsha256 = "{hash_of(token)}"\n'
    access += '[[grants]]\nto = "token:ada"\nrole = "admin"\non = []\n'
    (tmp_path / "access.toml").write_text(access)
    host, port = visit(access_file=tmp_path / "access.toml").client.address
    page = window()
    page.goto(f"http://{host}:{port}{FLIGHTS}/refs")
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("Tag", exact=True).fill("gold")
    page.get_by_role("button", name="Tag this version").click()
    expect(page.locator(".done")).to_have_text("The version has its tag.")
    assert lake["air.flights"].tags()["gold"] == 5
    page.goto(f"http://{host}:{port}{FLIGHTS}/drop")
    page.get_by_label("to confirm").fill("air.flights")
    page.get_by_role("button", name="Drop the table").click()
    expect(page.locator(".done")).to_have_text("The table is in the trash.")
    assert "air.flights" not in lake
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("h1")).to_have_text("Log in")
