"""DescribeTable of an earlier version, a tag or a branch, whoever is the arbiter."""

from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import DescribeTableRequest, LanceNamespaceError

from lakeroot import DirectoryNamespace
from tests.versions.test_every_operation import ipc

NARROW = pa.table({"id": [1, 2]})
WIDE = pa.table({"id": [3], "word": ["c"]})


@pytest.fixture
def table(lake: DirectoryNamespace) -> DirectoryNamespace:
    """Version 1 is narrow and tagged, version 2 is wide; the branch goes on from version 1."""
    lance.write_dataset(NARROW, namespace_client=lake, table_id=["t"])
    lake.create_table_tag({"id": ["t"], "tag": "first", "version": 1})
    lance.write_dataset(WIDE, namespace_client=lake, table_id=["t"], mode="overwrite")
    lake.create_table_branch({"id": ["t"], "name": "dev", "from_version": 1})
    lake.insert_into_table({"id": ["t"], "branch": "dev", "mode": "append"}, ipc(NARROW))
    return lake


@pytest.mark.parametrize(
    ("asked", "version", "columns"),
    [
        ({}, 2, ["id", "word"]),
        ({"version": 1}, 1, ["id"]),
        ({"version": 2}, 2, ["id", "word"]),
        ({"tag": "first"}, 1, ["id"]),
        ({"branch": "main"}, 2, ["id", "word"]),
        ({"branch": "dev"}, 2, ["id"]),
        ({"branch": "dev", "version": 1}, 1, ["id"]),
    ],
)
def test_a_table_is_described_as_it_was_asked_for(
    table: DirectoryNamespace, asked: dict[str, Any], version: int, columns: list[str]
) -> None:
    for request in (
        DescribeTableRequest(id=["t"], load_detailed_metadata=True, **asked),
        {"id": ["t"], "load_detailed_metadata": True, **asked},
    ):
        described = table.describe_table(request)
        assert described.version == version
        assert [field.name for field in described.var_schema.fields] == columns


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"version": 9}, 11),
        ({"version": 0}, 11),
        ({"version": 2**70}, 11),
        ({"version": -1}, 13),
        ({"tag": "none"}, 8),
        ({"branch": "none"}, 22),
        ({"branch": "../dev"}, 13),
        ({"branch": "dev", "version": 9}, 11),
        ({"tag": "first", "version": 2}, 13),
    ],
)
def test_what_is_not_there_is_named(
    table: DirectoryNamespace, asked: dict[str, Any], code: int
) -> None:
    with pytest.raises(LanceNamespaceError) as caught:
        table.describe_table({"id": ["t"], **asked})

    assert caught.value.code == code
