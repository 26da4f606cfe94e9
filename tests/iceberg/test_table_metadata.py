"""The metadata that stands for a Lance table is read by PyIceberg and by ourselves."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV2

from lakeroot.model.errors import InternalError, TableNotFoundError
from lakeroot.tables.iceberg import (
    Description,
    ManagedBy,
    Snapshot,
    iceberg_schema,
    read_definition,
    table_metadata,
)

UUID = "6d4b2f3a-3c4f-4a57-8c5e-0d2a6a1f9b11"
SCHEMA = iceberg_schema(pa.schema([("id", pa.int64()), ("v", pa.list_(pa.float32(), 8))]))


def parsed(metadata: dict[str, Any]) -> TableMetadataV2:
    result = TableMetadataUtil.parse_raw(json.dumps(metadata))
    assert isinstance(result, TableMetadataV2)
    return result


def a_table(versions: int, **changes: object) -> Description:
    values: dict[str, Any] = {
        "location": "s3://bucket/t.lance/",
        "uuid": UUID,
        "schema": SCHEMA,
        "snapshots": [Snapshot(v, 1_000 * v) for v in range(1, versions + 1)],
    }
    return Description(**values | changes)


def test_pyiceberg_sees_the_version_as_the_current_snapshot():
    seen = parsed(table_metadata(a_table(7)))
    current = seen.current_snapshot()
    assert current is not None
    assert current.snapshot_id == 7
    assert current.parent_snapshot_id == 6
    assert seen.schema().schema_id == 1
    assert [entry.snapshot_id for entry in seen.snapshot_log] == [1, 2, 3, 4, 5, 6, 7]
    assert seen.location == "s3://bucket/t.lance"


def test_a_declared_table_has_no_snapshot_and_no_columns():
    metadata = table_metadata(Description("s3://bucket/t.lance", UUID))
    assert not {"current-snapshot-id", "snapshots", "refs"} & metadata.keys()
    assert parsed(metadata).current_snapshot() is None
    assert read_definition(metadata, "t").version is None


def test_the_guards_win_over_the_properties_of_the_owner():
    table = a_table(1, properties={"gc.enabled": "true", "owner": "me"}, managed_by=ManagedBy.IMPL)
    properties = table_metadata(table)["properties"]
    assert properties["gc.enabled"] == "false"
    assert properties["write.data.path"] == "s3://bucket/t.lance/_iceberg/rejected/data"
    assert read_definition(table_metadata(table), "t").user_properties == {"owner": "me"}


def test_only_the_newest_and_the_tagged_versions_are_shown():
    metadata = table_metadata(a_table(500, tags={"gold": 3, "gone": 9_999}), newest=10)
    assert [s["snapshot-id"] for s in metadata["snapshots"]] == [3, *range(491, 501)]
    assert metadata["refs"] == {
        "main": {"type": "branch", "snapshot-id": 500},
        "gold": {"type": "tag", "snapshot-id": 3},
    }
    refs = table_metadata(a_table(500, tags={"gold": 3}), mode="refs")
    assert [s["snapshot-id"] for s in refs["snapshots"]] == [3, 500]
    parsed(metadata)
    parsed(refs)


def test_the_path_of_the_missing_manifest_list_explains_itself():
    [snapshot] = table_metadata(a_table(1))["snapshots"]
    assert "NOT-MIRRORED-lance-version-1" in snapshot["manifest-list"]
    mirrored = a_table(0, snapshots=[Snapshot(1, 5, manifest_list="s3://bucket/list.avro")])
    assert table_metadata(mirrored)["snapshots"][0]["manifest-list"] == "s3://bucket/list.avro"


@given(st.lists(st.integers(0, 2**50), max_size=20))
def test_the_log_never_goes_back_in_time_even_if_clocks_do(times):
    snapshots = [Snapshot(i + 1, t) for i, t in enumerate(times)]
    metadata = table_metadata(a_table(0, snapshots=snapshots))
    logged = [entry["timestamp-ms"] for entry in metadata["snapshot-log"]]
    assert logged == sorted(logged)
    assert metadata["last-updated-ms"] >= max(times, default=0)
    definition = read_definition(metadata, "t")
    assert definition.version == (len(times) or None)
    parsed(metadata)


@pytest.mark.parametrize("value", ["lance", "LANCE", "Lance"])
@pytest.mark.parametrize(
    ("managed_by", "expected"),
    [(None, "storage"), ("Storage", "storage"), ("IMPL", "impl"), ("impl", "impl")],
)
def test_the_marks_of_a_lance_table_ignore_case(value, managed_by, expected):
    properties = {"table_type": value} | ({"managed_by": managed_by} if managed_by else {})
    definition = read_definition({"location": "s3://b/t/", "properties": properties}, "t")
    assert definition.managed_by == expected


@pytest.mark.parametrize("current", [None, -1, "absent"])
def test_every_way_to_say_no_snapshot_is_understood(current):
    metadata = {"location": "s3://b/t", "properties": {"table_type": "lance"}}
    if current != "absent":
        metadata["current-snapshot-id"] = current
    assert read_definition(metadata, "t").version is None


@pytest.mark.parametrize("metadata", [None, [], {}, {"location": 7}, "text"])
def test_an_answer_that_is_no_table_is_an_internal_error(metadata):
    with pytest.raises(InternalError):
        read_definition(metadata, "t")


@pytest.mark.parametrize("properties", [None, {}, {"table_type": "iceberg"}, {"table_type": None}])
def test_a_table_that_is_not_lance_is_not_found(properties):
    with pytest.raises(TableNotFoundError):
        read_definition({"location": "s3://b/t", "properties": properties}, "t")


def test_an_unknown_manager_is_none():
    properties = {"table_type": "lance", "managed_by": "nobody"}
    definition = read_definition({"location": "s3://b/t", "properties": properties}, "t")
    assert definition.managed_by is None
