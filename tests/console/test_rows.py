"""Rows: filtered, sorted, paged, with pictures and vectors."""

from urllib.parse import quote

import pytest

from tests.console.browsing import Browser
from tests.console.catalogs import png

ROWS = "/console/t/air$flights/rows"


def values(browser: Browser, query: str, column: str) -> list[object]:
    found = browser.get(f"{ROWS}.json?{query}").json
    at = [one["name"] for one in found["columns"]].index(column)
    return [row["cells"][at] for row in found["rows"]]


def test_a_filter_keeps_the_rows_it_says(browser: Browser) -> None:
    query = "where=" + quote("origin = 'JFK' AND id < 20")
    assert values(browser, query, "id") == [5, 7, 9, 11, 13, 15, 17, 19]
    assert browser.get(f"{ROWS}.json?{query}").json["matching"] == 8
    assert "of 8 (the table has 100)" in browser.page(f"{ROWS}?{query}").text


@pytest.mark.parametrize("sort", ["id", "-id", "origin", "-delay"])
def test_rows_are_sorted_both_ways_nothing_last(browser: Browser, sort: str) -> None:
    found = values(browser, f"sort={sort}&limit=200", sort.removeprefix("-"))
    known = [value for value in found if value is not None]
    assert known == sorted(known, reverse=sort.startswith("-"))  # type: ignore[type-var]
    assert found == known + [None] * (len(found) - len(known))
    page = browser.page(f"{ROWS}?sort={sort}")
    direction = "descending" if sort.startswith("-") else "ascending"
    assert len(page.all("th", **{"aria-sort": direction})) == 1


def test_pages_hold_every_row_once(browser: Browser) -> None:
    seen: list[object] = []
    path = f"{ROWS}?sort=id&limit=30"
    while path:
        page = browser.page(path)
        query = path.partition("?")[2]
        seen += values(browser, query, "id")
        path = next((a["href"] for a in page.all("a", rel="next")), "")
    assert seen == list(range(5, 105))


def test_an_old_version_has_its_own_rows(browser: Browser) -> None:
    assert browser.get(f"{ROWS}.json?version=1").json["total"] == 60
    assert "see the newest" in browser.page(f"{ROWS}?version=1").text


def test_more_rows_than_a_page_may_have_are_not_given(browser: Browser) -> None:
    assert browser.get(f"{ROWS}.json?limit=100000").json["limit"] == 200


def test_a_vector_is_drawn(browser: Browser) -> None:
    page = browser.page(f"{ROWS}?limit=3")
    assert len(page.all("svg", role="img")) == 3
    assert values(browser, "limit=1&sort=id", "embedding") == [[2.5, -1.0, 2.0]]


def test_pictures_are_shown_and_nothing_else_is_sent_as_one(browser: Browser) -> None:
    page = browser.page("/console/t/air$pictures/rows")
    sources = [given["src"] for given in page.all("img")]
    assert len(sources) == 2
    answer = browser.get(sources[0])
    assert (answer.headers["content-type"], answer.body) == ("image/png", png())
    for wrong in (
        sources[0].replace("row=0", "row=2"),  # bytes that are no picture
        sources[0].replace("column=image", "column=name"),
        sources[0].replace("row=0", "row=999"),
    ):
        answer = browser.get(wrong)
        assert answer.status == 501, wrong
        assert answer.headers["content-type"].startswith("text/html")
    assert browser.get(sources[0].replace("column=image", "column=none")).status == 404


def test_an_empty_table_has_a_page(browser: Browser) -> None:
    page = browser.page(f"/console/t/air$raw${quote('a.b c')}/rows")
    assert "No rows" in page.text
