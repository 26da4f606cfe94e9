"""Every page over HTTP, as HTML and as its JSON twin."""

from urllib.parse import quote

import pytest

from tests.console.browsing import Browser
from tests.console.catalogs import HOSTILE, HOSTILE_TEXT

FLIGHTS = "/console/t/air$flights"
VECTOR = "vector 3 \N{MULTIPLICATION SIGN} float32"
BITES = f"/console/t/air${quote(HOSTILE)}"
PAGES = (
    "/console/catalog",
    "/console/history",
    "/console/health",
    "/console/trash",
    "/console/n/air/overview",
    "/console/n/air$raw/overview",
    "/console/n/empty/overview",
    f"{FLIGHTS}/overview",
    f"{FLIGHTS}/rows",
    f"{FLIGHTS}/versions",
    f"{FLIGHTS}/indexes",
    f"{FLIGHTS}/refs",
    f"{FLIGHTS}/storage",
    f"{FLIGHTS}/drop",
    "/console/t/air$pictures/rows",
    "/console/t/air$declared/overview",
    f"/console/t/air$raw${quote('a.b c')}/rows",
    f"{BITES}/overview",
    f"{BITES}/rows",
)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_sound_html_and_has_a_twin(browser: Browser, path: str) -> None:
    page = browser.page(path)
    assert page.all("main")
    assert page.all("h1")
    ids = [given["id"] for _, given in page.tags if "id" in given]
    assert len(ids) == len(set(ids))
    assert page.all("link", rel="alternate")[0]["href"] == f"{path}.json"
    twin = browser.get(f"{path}.json")
    assert twin.status == 200
    assert twin.headers["content-type"] == "application/json"
    assert isinstance(twin.json, dict)


@pytest.mark.parametrize("path", PAGES)
def test_no_page_holds_script_or_style_of_its_own(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    page = browser.page(path)
    for tag, given in page.tags:
        assert tag != "style"
        assert tag != "script" or given.keys() == {"src", "defer"}
        assert not any(name.startswith("on") or name == "style" for name in given)
        for name in ("src", "href", "action"):
            assert given.get(name, "/").startswith(("/console", "?", "#", "/")), given
    images = [given["src"] for given in page.all("img")]
    assert all(source.startswith("/console/") for source in images)


def test_hostile_names_and_values_are_only_text(browser: Browser) -> None:
    page = browser.page(f"{BITES}/rows")
    assert page.text.count(HOSTILE_TEXT) == 2  # the name of a column, and its value
    assert HOSTILE in browser.page("/console/n/air/overview").text
    assert HOSTILE_TEXT in browser.page("/console/n/air/overview").text  # a property
    assert HOSTILE_TEXT in browser.page("/console/history").text  # a message
    assert HOSTILE_TEXT in browser.page(f"/console/catalog?q={quote(HOSTILE_TEXT)}").text


def test_the_root_leads_to_the_console(browser: Browser) -> None:
    assert browser.get("/").headers["location"] == "/console"
    assert browser.get("/console").headers["location"] == "/console/catalog"


def test_the_tree_is_open_along_the_way(browser: Browser) -> None:
    page = browser.page(f"/console/t/air$raw${quote('a.b c')}/overview")
    here = page.all("a", **{"aria-current": "page"})
    assert f"/console/t/air$raw${quote('a.b c')}/overview" in [a["href"] for a in here]
    assert page.all("a", href="/console/n/air$raw/overview")


def test_a_search_finds_tables_by_parts_of_their_names(browser: Browser) -> None:
    found = browser.get("/console/catalog.json?q=AIR+light").json
    assert [one["id"] for one in found["tables"]] == [["air", "flights"]]
    assert browser.get("/console/catalog.json?q=nothing").json["tables"] == []
    assert "No table has this" in browser.page("/console/catalog?q=nothing").text


def test_a_namespace_tells_what_is_in_it(browser: Browser) -> None:
    found = browser.get("/console/n/air/overview.json").json
    assert [(one["id"], one["tables"]) for one in found["namespaces"]] == [(["air", "raw"], 1)]
    rows = {one["id"][-1]: (one["state"], one["rows"]) for one in found["tables"]}
    assert rows["flights"] == ("ok", 100)
    assert rows["declared"] == ("declared", None)
    assert found["properties"]["owner"] == HOSTILE_TEXT


def test_the_schema_shows_nested_fields_and_vectors(browser: Browser) -> None:
    fields = browser.get(f"{FLIGHTS}/overview.json").json["fields"]
    lines = [(field["depth"], field["name"], field["type"]) for field in fields]
    assert lines == [
        (0, "id", "int64"),
        (0, "origin", "string"),
        (0, "delay", "float64"),
        (0, "where", "struct"),
        (1, "lat", "float64"),
        (1, "names", "list of string"),
        (0, "embedding", VECTOR),
    ]
    assert VECTOR in browser.page(f"{FLIGHTS}/overview").text


def test_versions_tell_what_changed_and_how_many_rows_there_were(browser: Browser) -> None:
    found = browser.get(f"{FLIGHTS}/versions.json").json["versions"]
    assert [(v["version"], v["rows"], v["more_rows"]) for v in found] == [
        (5, 100, 5),
        (4, 95, 0),
        (3, 95, -5),
        (2, 100, 40),
        (1, 60, None),
    ]
    said = {v["version"]: v["what"] for v in found}
    assert said[5] == "appended 5 rows"
    assert said[4] == "built index by_id"
    assert said[3] == "deleted rows where id < 5"
    assert found[3]["tags"] == ["trained-on"]
    page = browser.page(f"{FLIGHTS}/versions")
    assert len(page.all("circle")) == 5


def test_an_index_tells_how_much_it_covers(browser: Browser) -> None:
    (index,) = browser.get(f"{FLIGHTS}/indexes.json").json["indexes"]
    assert (index["name"], index["covered_rows"], index["uncovered_rows"]) == ("by_id", 95, 5)
    assert "95 %" in browser.page(f"{FLIGHTS}/indexes").text


def test_storage_tells_the_fragments(browser: Browser) -> None:
    found = browser.get(f"{FLIGHTS}/storage.json").json
    assert found["fragments"] == 3
    assert [(one["rows"], one["deleted"]) for one in found["listed"]] == [(55, 5), (40, 0), (5, 0)]
    assert found["bytes"] > 0


def test_history_shows_lanes_and_leads_into_the_past(browser: Browser) -> None:
    found = browser.get("/console/history.json").json
    first = found["commits"][-1]["version"]
    page = browser.page("/console/history")
    slider = page.all("input", type="range")[0]
    assert (int(slider["min"]), int(slider["max"])) == (first, found["commits"][0]["version"])
    assert page.all("circle")
    [published] = [one for one in found["commits"] if one["message"].startswith("Publish")]
    assert ["air", HOSTILE] in published["created"]
    assert published["author"] == "ada"


def test_the_past_shows_the_catalog_as_it_was(browser: Browser) -> None:
    commits = browser.get("/console/history.json").json["commits"]
    wanted = {"id": ["air", "flights"], "version": 2}
    second = next(one["version"] for one in commits if wanted in one["versions"])
    then = browser.get(f"/console/n/air/overview.json?at={second}").json
    assert [(one["id"][-1], one["version"]) for one in then["tables"]] == [("flights", 2)]
    assert browser.get(f"{FLIGHTS}/rows.json?at={second}&where=id<5").json["matching"] == 5
    page = browser.page(f"/console/n/air/overview?at={second}")
    assert f"at version {second}" in page.text
    assert page.all("a", href=f"/console/t/air$flights/overview?at={second}")


def test_a_moment_that_never_was_is_refused(browser: Browser) -> None:
    answer = browser.get("/console/catalog?at=99999")
    assert answer.status == 400
    assert "no version 99999" in answer.body.decode()


def test_long_histories_come_in_pages(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeroot.server.console.history_pages.PAGE", 3)
    seen: list[int] = []
    skip: int | None = 0
    while skip is not None:
        found = browser.get(f"/console/history.json?skip={skip}").json
        seen += [one["version"] for one in found["commits"]]
        skip = found["next_skip"]
    monkeypatch.undo()
    every = [one["version"] for one in browser.get("/console/history.json").json["commits"]]
    assert seen == every


def test_a_healthy_catalog_says_so(browser: Browser) -> None:
    assert browser.get("/console/health.json").json["findings"] == []
    assert "Everything is in order" in browser.page("/console/health").text


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/console/nowhere", 404, 0),
        ("/console/t/air$none/overview", 404, 4),
        ("/console/t/air$none/rows", 404, 4),
        ("/console/n/none/overview", 404, 1),
        ("/console/t/air$declared/rows", 404, 4),
        (f"{FLIGHTS}/rows?where=origin+LIKE", 400, 13),
        (f"{FLIGHTS}/rows?where=id+<+5+LIMIT+2", 400, 13),
        (f"{FLIGHTS}/rows?sort=none", 404, 12),
        (f"{FLIGHTS}/rows?sort=embedding", 400, 13),
        (f"{FLIGHTS}/rows?version=77", 404, 11),
        (f"{FLIGHTS}/rows?offset=-1", 400, 13),
        (f"{FLIGHTS}/rows?limit=x", 400, 13),
        ("/console/t/air$$x/overview", 400, 13),
        ("/console/t/%FF/overview", 400, 13),
        ("/console/catalog?at=1&at=2", 400, 13),
        ("/console/-/none", 404, 0),
    ],
)
def test_errors_are_pages_of_three_lines(
    browser: Browser, path: str, status: int, code: int
) -> None:
    answer = browser.get(path)
    assert answer.status == status, answer.body
    assert f"code {code}" in answer.body.decode()
    assert "Traceback" not in answer.body.decode()
    if "/-/" not in path:
        name, _, query = path.partition("?")
        twin = browser.get(f"{name}.json?{query}")
        assert twin.status == status
        assert twin.json.keys() == {"what", "why", "fix", "code"}
        assert twin.json["code"] == code


def test_pages_are_only_read(browser: Browser) -> None:
    assert browser.client.call("PUT", "/console/catalog").status == 405
    assert browser.client.call("DELETE", f"{FLIGHTS}/overview").status == 405
    assert browser.get(f"{FLIGHTS}/overview").status == 200


def test_assets_may_be_kept_by_browsers(browser: Browser) -> None:
    page = browser.page("/console/catalog")
    for address in (page.all("script")[0]["src"], page.all("link", rel="stylesheet")[0]["href"]):
        answer = browser.get(address)
        assert answer.status == 200
        assert "max-age" in answer.headers["cache-control"]
    assert browser.get("/console/-/assets/..%2Fface.py").status == 404
