"""Making one catalog say what another says."""

import lance
import pytest
from lance_namespace import LanceNamespaceError

import lakeroot
from lakeroot.namespace.sync import Kind, differences, sync
from tests.asking import ROWS, Lake
from tests.iceberg.servers import Weed, fresh_name


@pytest.fixture
def source(tmp_path) -> Lake:
    lake = Lake(lakeroot.DirectoryNamespace(root=str(tmp_path / "shared" / "a")))
    lake.create_namespace("prod", properties={"owner": "me"})
    lake.create_namespace("prod", "deep")
    lake.create_table("prod", "users", properties={"k": "v"})
    lake.create_table("prod", "deep", "events")
    lake.declare_table("prod", "soon")
    return lake


@pytest.fixture
def copy(tmp_path) -> Lake:
    """Another catalog in another place."""
    return Lake(lakeroot.DirectoryNamespace(root=str(tmp_path / "elsewhere")))


@pytest.fixture
def twin(tmp_path) -> Lake:
    """Another catalog whose root holds the place of the source."""
    root = str(tmp_path / "shared")
    return Lake(lakeroot.DirectoryNamespace(root=root, dir_listing_enabled="false"))


def kinds(*lakes: Lake, **options) -> list[tuple[Kind, tuple[str, ...]]]:
    source, target = (lake.client for lake in lakes)
    return [(step.kind, step.identifier) for step in differences(source, target, **options)]


def test_what_differs_is_told_and_nothing_is_done(source, copy):
    assert kinds(source, copy) == [
        (Kind.CREATE_NAMESPACE, ("prod",)),
        (Kind.DECLARE_TABLE, ("prod", "soon")),
        (Kind.REGISTER_TABLE, ("prod", "users")),
        (Kind.CREATE_NAMESPACE, ("prod", "deep")),
        (Kind.REGISTER_TABLE, ("prod", "deep", "events")),
    ]
    assert copy.namespaces() == []


def test_tables_are_entered_where_they_are(source, twin):
    outcome = sync(source.client, twin.client)
    assert outcome.is_complete, outcome.failed
    assert twin.describe_namespace("prod") == {"owner": "me"}
    ours, theirs = (lake.describe_table("prod", "users") for lake in (source, twin))
    assert ours.location == theirs.location
    assert theirs.properties == {"k": "v"}
    assert kinds(source, twin) == []
    assert sync(source.client, twin.client).done == ()


def test_a_place_that_the_target_may_not_own_is_told_and_the_rest_is_done(source, copy):
    outcome = sync(source.client, copy.client)
    assert not outcome.is_complete
    assert {step.identifier for step, _ in outcome.failed} == {
        ("prod", "users"),
        ("prod", "deep", "events"),
    }
    assert copy.describe_table("prod", "soon").location


def test_files_are_copied_when_asked_with_every_version(source, copy):
    location = source.describe_table("prod", "users").location
    lance.write_dataset(ROWS, location, mode="append")
    assert sync(source.client, copy.client, copy_data=True).is_complete
    copied = copy.describe_table("prod", "users").location
    assert copied != location
    assert lance.dataset(copied).count_rows() == 2 * ROWS.num_rows
    assert lance.dataset(copied, version=1).count_rows() == ROWS.num_rows
    assert kinds(source, copy, copy_data=True) == []


def test_a_copy_follows_its_original(source, copy):
    sync(source.client, copy.client, copy_data=True)
    location = source.describe_table("prod", "users").location
    lance.write_dataset(ROWS, location, mode="append")
    assert kinds(source, copy, copy_data=True) == [(Kind.COPY_VERSIONS, ("prod", "users"))]
    assert sync(source.client, copy.client, copy_data=True).is_complete
    copied = copy.describe_table("prod", "users").location
    assert lance.dataset(copied).count_rows() == 2 * ROWS.num_rows


def test_a_copy_that_went_its_own_way_is_a_conflict_and_is_left_alone(source, copy):
    sync(source.client, copy.client, copy_data=True)
    copied = copy.describe_table("prod", "users").location
    lance.write_dataset(ROWS, copied, mode="append")
    assert kinds(source, copy, copy_data=True) == [(Kind.CONFLICT, ("prod", "users"))]
    assert not sync(source.client, copy.client, copy_data=True).is_complete
    assert lance.dataset(copied).count_rows() == 2 * ROWS.num_rows


def test_another_table_under_the_same_name_is_a_conflict(source, copy):
    copy.create_namespace("prod", properties={"owner": "me"})
    copy.create_table("prod", "users", properties={"k": "v"})
    assert (Kind.CONFLICT, ("prod", "users")) in kinds(source, copy)


def test_properties_follow(source, twin):
    sync(source.client, twin.client)
    source.client.catalog.alter_table(("prod", "users"), {"k": "w"})
    source.client.catalog.alter_namespace(("prod",), {"owner": "you"})
    assert sync(source.client, twin.client).is_complete
    assert twin.describe_table("prod", "users").properties == {"k": "w"}
    assert twin.describe_namespace("prod") == {"owner": "you"}


def test_a_part_may_go_into_another_namespace(source, twin):
    outcome = sync(source.client, twin.client, under=["prod", "deep"], into=["x", "y"])
    assert outcome.is_complete, outcome.failed
    assert twin.tables("x", "y") == ["events"]
    assert twin.tables() == []


@pytest.mark.parametrize("managed_by", ["storage", "impl"])
def test_a_directory_goes_into_an_iceberg_catalog_and_back(catalog: Weed, source, copy, managed_by):
    iceberg = Lake(lakeroot.IcebergNamespace(**catalog.properties, managed_by=managed_by))
    goal = fresh_name()
    outcome = sync(source.client, iceberg.client, into=[goal], copy_data=True)
    assert outcome.is_complete, outcome.failed
    assert kinds(source, iceberg, into=[goal], copy_data=True) == []
    table = [goal, "prod", "users"]
    dataset = lance.dataset(namespace_client=iceberg.client, table_id=table)
    assert dataset.count_rows() == ROWS.num_rows
    lance.write_dataset(ROWS, namespace_client=iceberg.client, table_id=table, mode="append")
    back = sync(iceberg.client, copy.client, under=[goal], copy_data=True)
    assert back.is_complete, back.failed
    copied = copy.describe_table("prod", "users")
    assert lance.dataset(copied.location).count_rows() == 2 * ROWS.num_rows
    assert copied.properties == {"k": "v"}


def test_one_iceberg_catalog_registers_the_tables_of_another_view_of_it(catalog: Weed):
    iceberg = Lake(lakeroot.IcebergNamespace(**catalog.properties))
    here, there = fresh_name(), fresh_name()
    iceberg.create_namespace(here)
    iceberg.create_table(here, "t")
    outcome = sync(iceberg.client, iceberg.client, under=[here], into=[there])
    assert [str(step.kind) for step, _ in outcome.failed] == ["register table"]
    iceberg.deregister_table(here, "t")
    with pytest.raises(LanceNamespaceError):
        iceberg.describe_table(here, "t")
