"""Listings: sorted, paged, with and without declared tables."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.asking import Lake, refused
from tests.conformance.stores import UNSUPPORTED, V1, has_one_level

has_no_namespaces = pytest.mark.never(V1, raises=UNSUPPORTED, reason="V1 is one flat namespace")
NAMES = ["10", "2", "B", "_x", "a", "a-b", "a.b", "ab", "b"]


def walk(call: Callable[..., Any], field: str, limit: int) -> list[list[str]]:
    """Read every page."""
    pages: list[list[str]] = []
    token = None
    while True:
        answer = call(limit=limit, page_token=token)
        pages.append(getattr(answer, field))
        token = answer.page_token
        if not token:
            return pages


def declare_all(lake: Lake, identifiers: list[tuple[str, ...]]) -> None:
    """Declare tables in one commit, or one by one where a format knows no other way."""
    try:
        lake.client.catalog.declare_tables([(identifier, {}) for identifier in identifiers])
    except UNSUPPORTED:
        for identifier in identifiers:
            lake.declare_table(*identifier)


def create_all(lake: Lake, identifiers: list[tuple[str, ...]]) -> None:
    """Create namespaces in one commit, or one by one where a format knows no other way."""
    try:
        lake.client.catalog.create_namespaces([(identifier, {}) for identifier in identifiers])
    except UNSUPPORTED:
        for identifier in identifiers:
            lake.create_namespace(*identifier)


def flat(pages: list[list[str]]) -> list[str]:
    return [name for page in pages for name in page]


def test_tables_are_listed_in_order(lake: Lake, other: Lake) -> None:
    for name in reversed(NAMES):
        lake.declare_table(name)

    for client in (lake, other):
        assert client.tables() == sorted(NAMES)
        assert client.list_all_tables().tables == sorted(NAMES)


@pytest.mark.parametrize("limit", [1, 2, 3, len(NAMES) - 1, len(NAMES), len(NAMES) + 1, 10**9])
def test_tables_are_listed_in_pages(lake: Lake, limit: int) -> None:
    declare_all(lake, [(name,) for name in NAMES])

    for call in (lake.list_tables, lake.list_all_tables):
        pages = walk(call, "tables", limit)
        assert flat(pages) == sorted(NAMES)
        assert all(len(page) == limit for page in pages[:-1])
        assert all(pages)


@has_one_level
@has_no_namespaces
@pytest.mark.parametrize("limit", [1, 4, 100])
def test_namespaces_are_listed_in_pages(lake: Lake, other: Lake, limit: int) -> None:
    create_all(lake, [(name,) for name in NAMES])
    create_all(lake, [("a", name) for name in NAMES])

    assert flat(walk(other.list_namespaces, "namespaces", limit)) == sorted(NAMES)
    of_a = walk(lambda **more: other.list_namespaces("a", **more), "namespaces", limit)
    assert flat(of_a) == sorted(NAMES)


@has_one_level
@has_no_namespaces
def test_listings_keep_to_their_namespace(lake: Lake, other: Lake) -> None:
    for path in (["a"], ["a", "b"], ["ab"], ["a", "b", "c"]):
        lake.create_namespace(*path)
        lake.declare_table(*path, "t")
    lake.declare_table("t")

    assert other.namespaces() == ["a", "ab"]
    assert other.namespaces("a") == ["b"]
    assert other.namespaces("ab") == []
    assert other.tables("a") == ["t"]
    assert other.tables() == ["t"]
    assert other.list_all_tables().tables == ["a$b$c$t", "a$b$t", "a$t", "ab$t", "t"]
    assert flat(walk(other.list_all_tables, "tables", 2)) == other.list_all_tables().tables


def test_a_page_of_nothing_is_empty_and_the_last(lake: Lake) -> None:
    lake.declare_table("t")

    for call in (lake.list_tables, lake.list_all_tables, lake.list_namespaces):
        answer = call(limit=0)
        assert (getattr(answer, "tables", None) or getattr(answer, "namespaces", [])) == []
        assert not answer.page_token


@pytest.mark.parametrize("limit", [-1, -(2**31), -(2**63)])
def test_a_negative_limit_is_refused(lake: Lake, limit: int) -> None:
    for call in (lake.list_tables, lake.list_all_tables, lake.list_namespaces):
        with refused(13):
            call(limit=limit)


@pytest.mark.parametrize("limit", [2**31, 2**63, 10**30])
def test_a_huge_limit_is_everything(lake: Lake, limit: int) -> None:
    lake.declare_table("t")

    assert lake.list_tables(limit=limit).tables == ["t"]
    assert lake.list_all_tables(limit=limit).tables == ["t"]
    assert lake.list_namespaces(limit=limit).namespaces == []


@pytest.mark.parametrize(
    "token",
    ["t", "not a token", "bGFrZXJvb3Q=", "W10=", "WzEsIDJd", "eyJhIjogMX0=", "\0", "größe", "////"],
)
def test_a_foreign_page_token_is_refused(lake: Lake, token: str) -> None:
    lake.declare_table("t")

    for call in (lake.list_tables, lake.list_all_tables, lake.list_namespaces):
        with refused(13) as error:
            call(page_token=token)
        assert "token" in str(error.value)


def test_the_token_of_another_listing_is_refused(lake: Lake) -> None:
    declare_all(lake, [(name,) for name in NAMES])

    of_names = lake.list_tables(limit=1).page_token
    of_identifiers = lake.list_all_tables(limit=1).page_token

    with refused(13):
        lake.list_all_tables(page_token=of_names)
    with refused(13):
        lake.list_tables(page_token=of_identifiers)


def test_an_empty_token_is_the_beginning(lake: Lake) -> None:
    lake.declare_table("t")

    assert lake.list_tables(page_token="").tables == ["t"]
    assert lake.list_all_tables(page_token="").tables == ["t"]
    assert lake.list_namespaces(page_token="").namespaces == []


def test_a_page_goes_on_after_a_name_that_is_gone(lake: Lake, other: Lake) -> None:
    declare_all(lake, [(name,) for name in "abcdef"])
    first = lake.list_tables(limit=2)

    other.drop_table("b")
    other.declare_table("aa")
    other.declare_table("ca")

    assert first.tables == ["a", "b"]
    rest = lake.list_tables(page_token=first.page_token)
    assert rest.tables == ["c", "ca", "d", "e", "f"]


def test_declared_tables_are_left_out_when_asked(lake: Lake, other: Lake) -> None:
    for name in ("b", "d", "f"):
        lake.declare_table(name)
    for name in ("a", "c", "e"):
        lake.create_table(name)

    for client in (lake, other):
        assert client.tables() == list("abcdef")
        assert client.list_tables(include_declared=True).tables == list("abcdef")
        assert client.list_tables(include_declared=False).tables == ["a", "c", "e"]
        assert client.list_all_tables(include_declared=False).tables == ["a", "c", "e"]

    def written(**more: Any) -> Any:
        return lake.list_tables(include_declared=False, **more)

    for limit in (1, 2, 3, 4):
        pages = walk(written, "tables", limit)
        assert flat(pages) == ["a", "c", "e"]
        assert all(len(page) == limit for page in pages[:-1])
