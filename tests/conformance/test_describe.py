"""DescribeTable: what is always told, and what only when asked."""

import lance
import pytest

from tests.asking import ROWS, Lake, refused
from tests.conformance.stores import UNSUPPORTED, V1


def test_a_description_says_where_the_table_is(lake: Lake, other: Lake) -> None:
    created = lake.create_table("t")

    for client in (lake, other):
        told = client.describe_table("t")
        assert told.location == created.location
        assert told.is_only_declared is None
        options = dict(client.client.catalog.store.root.storage_options)
        assert lance.dataset(told.location, storage_options=options).count_rows() == 3


def test_a_description_can_be_detailed(lake: Lake, other: Lake) -> None:
    lake.create_table("t")
    told = other.describe_table("t", load_detailed_metadata=True)

    assert told.version == 1
    assert told.is_only_declared is False
    assert told.var_schema is not None
    assert [field.name for field in told.var_schema.fields] == ROWS.column_names
    assert told.stats is not None


def test_a_declared_table_is_told_when_asked(lake: Lake, other: Lake) -> None:
    lake.declare_table("t")
    lake.create_table("u")

    assert other.describe_table("t").is_only_declared is None
    assert other.describe_table("t", check_declared=True).is_only_declared is True
    assert other.describe_table("u", check_declared=True).is_only_declared is False
    assert other.describe_table("t", load_detailed_metadata=True).is_only_declared is True


def test_a_version_that_is_not_there_is_refused(lake: Lake) -> None:
    lake.create_table("t")

    assert lake.describe_table("t", version=1).version == 1
    with refused(11):
        lake.describe_table("t", version=7)
    with refused(11):
        lake.table_exists("t", version=7)


def test_the_uri_is_told_when_asked(lake: Lake) -> None:
    lake.create_table("t")

    told = lake.describe_table("t", with_table_uri=True)
    assert told.table_uri is not None
    assert "://" in told.table_uri


@pytest.mark.never(V1, raises=UNSUPPORTED, reason="V1 has nowhere to keep properties of a table")
def test_the_properties_are_told(lake: Lake, other: Lake) -> None:
    lake.create_table("t", properties={"x": "1"})

    assert other.describe_table("t").properties == {"x": "1"}


def test_what_is_missing_is_told(lake: Lake) -> None:
    with refused(4):
        lake.describe_table("t")
    with refused(1):
        lake.describe_table("a", "t")
    with refused(13):
        lake.describe_table("a$b")
    with refused(13):
        lake.describe_table()
