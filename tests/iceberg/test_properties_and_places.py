"""Whose a property is, where a table is placed, and what a server lends to open it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeroot.model.errors import InvalidInputError
from lakeroot.storage.iceberg_rest.config import read_config
from lakeroot.storage.iceberg_rest.observing import schema_mark
from lakeroot.storage.iceberg_rest.placing import new_location, storage_options
from lakeroot.storage.iceberg_rest.properties import (
    REQUEST_ID,
    difference,
    namespace_properties,
    owners_of_namespace,
    owners_of_table,
    table_properties,
)
from lakeroot.storage.iceberg_rest.store import IcebergRestStore
from tests.iceberg.servers import misbehaving

KEYS = st.sampled_from(["a", "b", "owner", "location", "write.x", "schema.y", "commit.z", "ünï"])
OWNERS = st.dictionaries(KEYS, st.text(max_size=5))


@given(OWNERS)
def test_the_owner_of_a_table_reads_back_what_was_written(written):
    added = {"schema.name-mapping.default": "x", "write.object-storage": "y", REQUEST_ID: "1"}
    assert owners_of_table({**added, **table_properties(written)}) == written


@given(OWNERS)
def test_the_owner_of_a_namespace_reads_back_what_was_written(written):
    kept = {"location": "s3://b/ns", **namespace_properties(written), REQUEST_ID: "1"}
    assert owners_of_namespace(kept) == written


def test_of_a_namespace_that_others_made_everything_is_shown():
    kept = {"location": "s3://b/ns", "a": "1"}
    assert owners_of_namespace(kept) == kept


@given(OWNERS, OWNERS)
def test_a_difference_leads_from_one_map_to_the_other(before, after):
    updates, removals = difference(before, after)
    assert {k: v for k, v in {**before, **updates}.items() if k not in removals} == after
    assert not updates.keys() & set(removals)


@pytest.mark.parametrize("key", ["table_type", "managed_by", "gc.enabled", "lakeroot.keys"])
def test_the_marks_of_a_table_cannot_be_set_by_hand(key):
    with pytest.raises(InvalidInputError):
        table_properties({key: "x"})


@given(st.lists(st.text(min_size=1, max_size=80), min_size=2, max_size=4))
def test_a_new_place_is_plain_two_levels_deep_and_never_the_same(names):
    one, two = (new_location("s3://bucket/lake/", tuple(names)) for _ in range(2))
    assert one != two
    below = one.removeprefix("s3://bucket/lake/")
    assert below.count("/") == 1
    assert below.isascii()
    assert ".." not in below.split("/")
    assert len(below.split("/")[1]) < 100


def test_what_the_server_lends_is_told_to_lance_and_yields_to_what_we_are_told():
    told = {
        "config": {"s3.endpoint": "http://h", "s3.path-style-access": "true", "s3.region": "r"},
        "storage-credentials": [
            {"prefix": "s3://b/ns/", "config": {"s3.access-key-id": "narrow"}},
            {"prefix": "s3://b/", "config": {"s3.access-key-id": "wide", "s3.session-token": "t"}},
            {"prefix": "s3://other/", "config": {"s3.access-key-id": "foreign"}},
        ],
    }
    assert storage_options(told, {"aws_region": "mine"}, "s3://b/ns/t.lance") == {
        "aws_endpoint": "http://h",
        "allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
        "aws_region": "mine",
        "aws_access_key_id": "narrow",
        "aws_session_token": "t",
    }


@pytest.mark.parametrize("told", [{}, {"config": None}, {"storage-credentials": [None, 7, {}]}])
def test_a_server_that_lends_nothing_sensible_lends_nothing(told):
    assert storage_options(told, {"k": "v"}, "s3://b/t") == {"k": "v"}


@pytest.mark.parametrize("content", [b"", b"x" * 15, b"x" * 100, b"\0" * 12 + b"LANC"])
def test_what_is_no_manifest_has_no_mark(content):
    assert schema_mark(content) == ""


@pytest.mark.parametrize(
    ("properties", "location"),
    [
        ({}, "t.lance"),
        ({}, "/tmp/t.lance"),
        ({}, "file:///tmp/t.lance"),
        ({"root": "/lake"}, "/elsewhere/t.lance"),
        ({"root": "/lake"}, "../t.lance"),
        ({}, "s3://b/a/../t.lance"),
        ({}, "s3://b//t.lance"),
        ({}, ""),
    ],
)
def test_a_place_that_others_could_not_open_or_that_climbs_is_refused(properties, location):
    with misbehaving(lambda _: (200, {})) as server:
        store = IcebergRestStore(read_config({"endpoint": server.endpoint, **properties}))
        with pytest.raises(InvalidInputError):
            store.location_of(location)


def test_a_place_is_written_as_an_address():
    with misbehaving(lambda _: (200, {})) as server:
        properties = {"endpoint": server.endpoint, "root": "/lake"}
        store = IcebergRestStore(read_config(properties))
        assert store.location_of("a/t.lance") == "file:///lake/a/t.lance"
        assert store.location_of("s3://b/t.lance/") == "s3://b/t.lance"
        assert store.place(("n", "t")).startswith("file:///lake/n/t-")
