"""Who sees what, how one logs in, and whose forms are accepted."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeroot.lake import Lake
from lakeroot.server import hash_of, new_token
from tests.console.browsing import Browser

ALL, RAW, READ = new_token(), new_token(), new_token()
FLIGHTS = "/console/t/air$flights"


@pytest.fixture
def access_file(tmp_path: Path) -> Path:
    people = {"boss": ALL, "raw": RAW, "reader": READ}
    text = "".join(
        f'[[tokens]]\nname = "{n}"\nsha256 = "{hash_of(t)}"\n' for n, t in people.items()
    )
    for to, role, on in (
        ("boss", "admin", "[]"),
        ("raw", "writer", '["air", "raw"]'),
        ("reader", "reader", "[]"),
    ):
        text += f'[[grants]]\nto = "token:{to}"\nrole = "{role}"\non = {on}\n'
    file = tmp_path / "access.toml"
    file.write_text(text)
    return file


@pytest.fixture
def guarded(visit: Callable[..., Browser], access_file: Path, tmp_path: Path) -> Browser:
    return visit(access_file=access_file, audit_log=tmp_path / "audit.log")


def log_in(browser: Browser, token: str, target: str = "/console/catalog") -> str:
    answer = browser.send("/console/-/login", {"token": token, "next": target})
    assert answer.status == 303, answer.body
    return answer.headers["location"]


def test_a_stranger_is_led_to_the_door(guarded: Browser) -> None:
    answer = guarded.get(f"{FLIGHTS}/rows?limit=3")
    assert answer.status == 303
    door = answer.headers["location"]
    assert door == "/console/-/login?next=%2Fconsole%2Ft%2Fair%24flights%2Frows%3Flimit%3D3"
    form = guarded.page(door)
    assert log_in(guarded, READ, form.values["next"]) == f"{FLIGHTS}/rows?limit=3"
    assert guarded.get(f"{FLIGHTS}/rows?limit=3").status == 200


def test_a_stranger_gets_no_twin_and_no_picture(guarded: Browser) -> None:
    answer = guarded.get("/console/catalog.json")
    assert (answer.status, answer.json["code"]) == (401, 16)
    assert guarded.get("/console/t/air$pictures/image?row=0&column=image").status == 303


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(guarded: Browser) -> None:
    answer = guarded.send("/console/-/login", {"token": READ})
    given = answer.headers["set-cookie"]
    assert "HttpOnly" in given
    assert "SameSite=Strict" in given
    assert "Path=/console" in given


def test_a_wrong_token_does_not_open(guarded: Browser) -> None:
    answer = guarded.send("/console/-/login", {"token": "lkr_wrong"})
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert "not known here" in answer.body.decode()


@pytest.mark.parametrize(
    "target",
    ["https://evil.example", "//evil.example", "/console\\@evil", "/consolex", "/\r\nX: y"],
)
def test_the_door_leads_only_into_the_console(guarded: Browser, target: str) -> None:
    assert log_in(guarded, READ, target) == "/console"


def test_the_cookie_is_no_key_to_the_apis(guarded: Browser) -> None:
    log_in(guarded, ALL)
    assert guarded.get("/v1/table").status == 401
    assert guarded.get("/iceberg/v1/config").status == 401


def test_a_token_in_a_header_opens_pages_too(guarded: Browser) -> None:
    answer = guarded.get("/console/catalog.json", authorization=f"Bearer {READ}")
    assert answer.status == 200


def test_logging_out_forgets_the_token(guarded: Browser) -> None:
    log_in(guarded, READ)
    assert guarded.send("/console/-/logout", {}).status == 303
    assert guarded.get("/console/catalog").status == 303


def test_people_see_only_what_is_granted_to_them(guarded: Browser) -> None:
    log_in(guarded, RAW)
    catalog = guarded.get("/console/catalog.json").json
    assert [one["id"] for one in catalog["namespaces"]] == [["air"]]
    inside = guarded.get("/console/n/air/overview.json").json
    assert inside["tables"] == []
    assert [one["id"] for one in inside["namespaces"]] == [["air", "raw"]]
    assert inside["properties"] == {}
    assert guarded.get("/console/catalog.json?q=flights").json["tables"] == []
    for page in ("overview", "rows", "versions", "indexes", "refs", "storage", "drop", "image"):
        assert guarded.get(f"{FLIGHTS}/{page}").status == 404, page
    assert guarded.get("/console/n/empty/overview").status == 404
    text = guarded.page("/console/catalog").source + guarded.page("/console/history").source
    assert "flights" not in text
    assert "pictures" not in text
    assert "a.b c" in text


def test_history_keeps_the_words_of_commits_that_touch_more(guarded: Browser) -> None:
    log_in(guarded, RAW)
    commits = guarded.get("/console/history.json").json["commits"]
    [published] = [one for one in commits if ["air", "raw", "a.b c"] in one["created"]]
    assert published["created"] == [["air", "raw", "a.b c"]]
    assert (published["message"], published["author"]) == ("", "")


def test_health_is_for_those_who_may_read_everything(guarded: Browser) -> None:
    log_in(guarded, RAW)
    assert guarded.get("/console/health").status == 403
    log_in(guarded, READ)
    assert guarded.get("/console/health").status == 200


def test_readers_see_no_forms_and_cannot_send_them(guarded: Browser) -> None:
    log_in(guarded, READ)
    page = guarded.page(f"{FLIGHTS}/refs")
    assert not page.all("input", name="tag")
    assert not guarded.page(f"{FLIGHTS}/versions").all("input", name="version")
    assert guarded.get(f"{FLIGHTS}/drop").status == 403
    answer = guarded.send(f"{FLIGHTS}/tag", {"tag": "x", "version": 1, "csrf": "guess"})
    assert answer.status == 403


def test_a_version_is_tagged_by_a_form(guarded: Browser, lake: Lake, tmp_path: Path) -> None:
    log_in(guarded, ALL)
    csrf = guarded.csrf(f"{FLIGHTS}/refs")
    answer = guarded.send(f"{FLIGHTS}/tag", {"tag": "gold", "version": 3, "csrf": csrf})
    assert answer.headers["location"] == f"{FLIGHTS}/refs?done=tagged"
    assert "has its tag" in guarded.page(answer.headers["location"]).text
    assert lake["air.flights"].tags() == {"gold": 3, "trained-on": 2}
    audit = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    assert {"create_table_tag"} == {one["operation"] for one in audit if one["principal"]}
    assert {one["principal"] for one in audit} == {"token:boss"}


def test_a_version_is_restored_by_a_form(visit: Callable[..., Browser], lake: Lake) -> None:
    browser = visit()
    csrf = browser.csrf(f"{FLIGHTS}/versions")
    answer = browser.send(f"{FLIGHTS}/restore", {"version": 1, "csrf": csrf})
    assert answer.status == 303
    assert lake["air.flights"].count() == 60


def test_a_table_is_dropped_only_when_its_name_is_typed(
    visit: Callable[..., Browser], lake: Lake
) -> None:
    browser = visit()
    csrf = browser.csrf(f"{FLIGHTS}/drop")
    wrong = browser.send(f"{FLIGHTS}/drop", {"name": "air.flight", "csrf": csrf})
    assert wrong.status == 400
    assert "air.flights" in lake
    right = browser.send(f"{FLIGHTS}/drop", {"name": "air.flights", "csrf": csrf})
    assert right.headers["location"] == "/console/n/air/overview?done=discarded"
    assert "air.flights" not in lake
    assert ("air", "flights") in [one.table.identifier for one in lake.trash()]


def test_a_table_goes_for_good_when_that_is_asked_for(
    visit: Callable[..., Browser], lake: Lake
) -> None:
    browser = visit()
    csrf = browser.csrf(f"{FLIGHTS}/drop")
    fields = {"name": "air.flights", "csrf": csrf, "now": "1"}
    answer = browser.send(f"{FLIGHTS}/drop", fields)
    assert answer.headers["location"] == "/console/n/air/overview?done=dropped"
    assert "air.flights" not in lake
    assert ("air", "flights") not in [one.table.identifier for one in lake.trash()]


@pytest.mark.parametrize("signed_in", [True, False])
def test_forms_of_other_sites_are_refused(
    visit: Callable[..., Browser], access_file: Path, lake: Lake, *, signed_in: bool
) -> None:
    browser = visit(**({"access_file": access_file} if signed_in else {}))
    if signed_in:
        log_in(browser, ALL)
    csrf = browser.csrf(f"{FLIGHTS}/drop")
    fields = {"name": "air.flights", "csrf": csrf}
    attempts = [
        browser.send(f"{FLIGHTS}/drop", {"name": "air.flights"}),
        browser.send(f"{FLIGHTS}/drop", {**fields, "csrf": "0" * 64}),
        browser.send(f"{FLIGHTS}/drop", fields, origin="https://evil.example"),
        browser.send(f"{FLIGHTS}/drop", fields, sec_fetch_site="cross-site"),
        browser.send(f"{FLIGHTS}/drop", fields, origin="null"),
    ]
    seed = browser.cookies.pop("lakeroot_forms")
    attempts.append(browser.send(f"{FLIGHTS}/drop", fields))
    browser.cookies["lakeroot_forms"] = "another"
    attempts.append(browser.send(f"{FLIGHTS}/drop", fields))
    assert [answer.status for answer in attempts] == [403] * len(attempts)
    assert "air.flights" in lake
    browser.cookies["lakeroot_forms"] = seed
    assert browser.send(f"{FLIGHTS}/drop", fields).status == 303


def test_a_form_made_for_one_person_is_not_accepted_from_another(
    guarded: Browser, lake: Lake
) -> None:
    log_in(guarded, ALL)
    csrf = guarded.csrf(f"{FLIGHTS}/drop")
    log_in(guarded, RAW)
    answer = guarded.send(f"{FLIGHTS}/drop", {"name": "air.flights", "csrf": csrf})
    assert answer.status == 403
    assert "air.flights" in lake


def test_a_form_must_be_a_form(visit: Callable[..., Browser]) -> None:
    browser = visit()
    assert browser.client.post(f"{FLIGHTS}/tag", {"tag": "x"}).status == 415
    assert browser.send(f"{FLIGHTS}/nothing", {}).status == 404
    csrf = browser.csrf(f"{FLIGHTS}/refs")
    for fields in ({"tag": "", "version": 1}, {"tag": "x", "version": "one"}):
        assert browser.send(f"{FLIGHTS}/tag", {**fields, "csrf": csrf}).status == 400
    missing = {"tag": "x", "version": 99, "csrf": csrf}
    assert browser.send(f"{FLIGHTS}/tag", missing).status == 404


def test_a_table_in_the_trash_is_brought_back_by_those_who_may(
    guarded: Browser, lake: Lake
) -> None:
    log_in(guarded, RAW)
    assert guarded.get("/console/trash.json").json["tables"] == []
    log_in(guarded, READ)
    assert [one["id"] for one in guarded.get("/console/trash.json").json["tables"]] == [
        ["air", "old"]
    ]
    assert not guarded.page("/console/trash").all("input", name="csrf")
    log_in(guarded, ALL)
    csrf = guarded.csrf("/console/trash")
    log_in(guarded, READ)
    refused = guarded.send("/console/t/air$old/undrop", {"csrf": csrf})
    assert refused.status == 403
    log_in(guarded, ALL)
    answer = guarded.send("/console/t/air$old/undrop", {"csrf": guarded.csrf("/console/trash")})
    assert answer.headers["location"] == "/console/t/air$old/overview?done=undropped"
    assert lake["air.old"].count() == 1
    assert guarded.get("/console/trash.json").json["tables"] == []


def test_a_search_finds_what_is_granted_and_nothing_else(guarded: Browser) -> None:
    log_in(guarded, RAW)
    found = guarded.get("/console/catalog.json?q=a").json["tables"]
    assert [one["id"] for one in found] == [["air", "raw", "a.b c"]]
