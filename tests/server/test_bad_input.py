"""Whatever is sent, the answer is a 4xx in the right shape, and nothing has changed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeroot.server import Limits
from tests.server.http import Answer, Client
from tests.server.test_lance_clients import ROWS, stream

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}


def shaped(answer: Answer, status: int, code: int) -> None:
    assert (answer.status, answer.json["code"]) == (status, code), answer.body
    assert set(answer.json) <= {"error", "code", "detail", "instance"}
    for leak in (b"Traceback", b".py", b".rs", b"/tmp/", b"/site-packages/"):
        assert leak not in answer.body


@pytest.fixture
def catalog(properties: dict[str, str]) -> Any:
    def contents() -> list[str]:
        return sorted(str(path) for path in Path(properties["root"]).rglob("*"))

    return contents


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, 0),
        ("GET", "/v1/", 404, 0),
        ("POST", "/v1/table/t/unknown", 404, 0),
        ("POST", "/v1/table/t/describe/more/and/more", 404, 0),
        ("GET", "/v1/table/t/describe", 405, 0),
        ("DELETE", "/v1/namespace/a/list", 405, 0),
        ("POST", "/v1/namespace//create", 400, 13),
        ("POST", "/v1/namespace/a%24%24b/create", 400, 13),
        ("POST", "/v1/namespace/%FF/create", 400, 13),
        ("POST", "/v1/namespace/a/create?delimiter=", 400, 13),
        ("POST", "/v1/namespace/a/create?delimiter=.&delimiter=%24", 400, 13),
        ("GET", "/v1/namespace/%24/list?limit=many", 400, 13),
        ("GET", "/v1/namespace/%24/list?limit=1&limit=2", 400, 13),
        ("GET", "/v1/namespace/%24/list?limit=" + "9" * 5000, 400, 13),
        ("GET", "/v1/namespace/%24/table/list?include_declared=maybe", 400, 13),
        ("GET", "/v1/namespace/%24/list?" + "&".join(["a=1"] * 200), 400, 13),
        ("GET", "/v1/namespace/%24/list?page_token=%FF", 400, 13),
    ],
)
def test_a_bad_address_is_refused(
    http: Client, catalog: Any, method: str, path: str, status: int, code: int
) -> None:
    before = catalog()
    answer = http.call(method, path)
    shaped(answer, status, code)
    if status == 405:
        assert answer.headers["allow"] in ("GET", "POST")
    assert catalog() == before


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"1",
        b"null",
        b"\xff\xfe",
        b'{"id": ["a"], "id": ["a"]}',
        b'{"properties": {"a": 1}}',
        b'{"properties": {"a": "1", "a": "2"}}',
        b'{"properties": []}',
        b'{"mode": 5}',
        b'{"id": "a"}',
        b'{"id": ["b"]}',
        b'{"id": ["a", "b"]}',
        b'{"properties": NaN}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"context": {"a": {"b": 1}}}',
    ],
    ids=repr,
)
def test_a_bad_json_body_is_refused(http: Client, catalog: Any, body: bytes) -> None:
    before = catalog()
    shaped(http.post("/v1/namespace/a/create", body), 400, 13)
    assert catalog() == before


def test_a_field_that_is_misspelt_is_refused_and_an_unknown_one_passed_over(http: Client) -> None:
    http.post("/v1/table/t/create", stream(ROWS), headers=ARROW)
    update = {"updates": [["id", "7"]]}
    wrong = http.post("/v1/table/t/update", {**update, "predicte": "id = 1"})
    shaped(wrong, 400, 13)
    assert "'predicate'" in wrong.json["error"] + wrong.json["detail"]
    shaped(http.post("/v1/table/t/query", {"k": 1, "fastSearch": True}), 400, 13)
    inner = {"k": 1, "columns": {"columnNames": ["id"]}}
    shaped(http.post("/v1/table/t/query", inner), 400, 13)
    merge = "/v1/table/t/merge_insert?on=id&when_matched_update_al=true"
    shaped(http.post(merge, stream(ROWS), headers=ARROW), 400, 13)
    assert http.post("/v1/table/t/count_rows", {"predicate": "id = 7"}).json == 0
    assert http.post("/v1/table/t/count_rows", {"of_the_future": 1}).status == 200


def test_a_query_needs_no_vector(http: Client) -> None:
    http.post("/v1/table/t/create", stream(ROWS), headers=ARROW)
    assert http.post("/v1/table/t/query", {"k": 1, "filter": "id > 1"}).status == 200
    explained = {"query": {"k": 1, "filter": "id > 1", "vector": None}}
    assert http.post("/v1/table/t/explain_plan", explained).status == 200


def test_an_expression_that_would_end_the_server_is_refused(http: Client) -> None:
    http.post("/v1/table/t/create", stream(ROWS), headers=ARROW)
    for deep in ("+".join(["id"] * 4_000), "coalesce(" * 40 + "id" + ",1)" * 40):
        shaped(http.post("/v1/table/t/count_rows", {"predicate": f"{deep} > 1"}), 400, 13)
        aliases = {"column_aliases": {"x": deep}}
        shaped(http.post("/v1/table/t/query", {"k": 1, "columns": aliases}), 400, 13)
        update = {"updates": [["id", deep]]}
        shaped(http.post("/v1/table/t/update", update), 400, 13)
    assert http.get("/healthz").status == 200


def test_a_body_of_another_kind_is_refused(http: Client) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    shaped(http.post("/v1/namespace/a/create", b"a=b", headers=form), 415, 13)
    shaped(http.post("/v1/table/t/create", b"{}"), 415, 13)


def test_bytes_that_are_no_whole_arrow_stream_are_refused(http: Client, catalog: Any) -> None:
    good = stream(ROWS)
    before = catalog()
    wrong_offsets = good.replace(
        pa.py_buffer(b"abc").to_pybytes(), b"\xff\xff\xff"
    )  # names that are not UTF-8
    for body in (b"", b"garbage", b"\x00" * 100, good[:50], good[: len(good) // 2], wrong_offsets):
        shaped(http.post("/v1/table/t/create", body, headers=ARROW), 400, 13)
    assert catalog() == before


def test_a_body_over_the_limit_is_refused_before_it_is_read(start: Any) -> None:
    with Client(start(limits=Limits(json_bytes=1000, arrow_bytes=2000, rows=2))) as http:
        shaped(http.post("/v1/namespace/a/create", b" " * 1001), 413, 13)
        shaped(http.post("/v1/table/t/create", b"\0" * 2001, headers=ARROW), 413, 13)
        shaped(http.post("/v1/table/t/create", stream(ROWS), headers=ARROW), 413, 13)
        claimed = (
            b"POST /v1/table/t/create HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
        )
        assert b" 413 " in http.raw(claimed)
        endless = b"".join(
            [
                b"POST /v1/namespace/a/create HTTP/1.1\r\nHost: x\r\n",
                b"Transfer-Encoding: chunked\r\n\r\n",
                *([b"400\r\n" + b"x" * 1024 + b"\r\n"] * 10),
            ]
        )
        assert b" 413 " in http.raw(endless)


def test_names_that_try_to_escape_stay_names(http: Client, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("..%2Foutside", "%2Ftmp%2Foutside", "a%00b", "..", "..%5Coutside", "a%0D%0Ab"):
        http.post(f"/v1/table/{name}/declare", {})
        http.post(f"/v1/table/{name}/create", stream(ROWS), headers=ARROW)
    assert list(outside.iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} <= {"outside", "catalog"}


def test_a_manifest_that_is_not_the_tables_own_is_not_moved(start: Any, tmp_path: Path) -> None:
    """Neither by our own catalog nor by the reference, which would move any file."""
    for impl in ("lakeroot.DirectoryNamespace", "dir"):
        root = tmp_path / impl
        with Client(start(impl=impl, properties={"root": str(root)})) as http:
            http.post("/v1/table/t/create", stream(ROWS), headers=ARROW)
            precious = tmp_path / f"precious-{impl}"
            precious.write_text("keep me")
            for path in (str(precious), f"../{precious.name}", "t.lance/_versions/../../x"):
                body = {"version": 2, "manifest_path": path}
                refused = http.post("/v1/table/t/version/create", body)
                assert (refused.status, refused.json["code"]) == (400, 13), refused.body
                entries = {"entries": [{"id": ["t"], **body}]}
                answer = http.post("/v1/table/version/batch-create", entries)
                assert answer.status in (400, 406)
            assert precious.read_text() == "keep me"


def test_a_header_cannot_be_smuggled_into_the_answer(http: Client) -> None:
    answer = http.get("/v1/nothing", headers={"x-request-id": "a b"})
    assert answer.headers["x-request-id"] != "a b"
    named = http.get("/v1/nothing%0d%0aevil:%20yes")
    assert "evil" not in named.headers
    twice = (
        b"GET /v1/table HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n"
        b"Authorization: Bearer b\r\nConnection: close\r\n\r\n"
    )
    assert b" 400 " in http.raw(twice)


def test_what_is_not_http_gets_no_more_than_a_refusal(http: Client) -> None:
    assert http.raw(b"\x16\x03\x01hello").startswith(b"HTTP/1.1 400 ")
    assert http.get("/healthz").status == 200


def test_an_unimplemented_operation_is_406_and_never_500(http: Client) -> None:
    body = {"kind": "udtf", "source_query": "x", "output_schema": "x"}
    shaped(http.post("/v1/materialized_view/t/create", body), 406, 0)
    shaped(http.post("/v1/materialized_view/t/refresh", {}), 406, 0)
    shaped(http.post("/v1/table/t/backfill_column", {"column": "c"}), 406, 0)


def test_a_missing_object_is_404_with_its_own_code(http: Client) -> None:
    shaped(http.post("/v1/namespace/none/exists"), 404, 1)
    shaped(http.post("/v1/table/none/describe", {}), 404, 4)
    http.post("/v1/namespace/a/create", {})
    shaped(http.post("/v1/namespace/a/create", {}), 409, 2)
