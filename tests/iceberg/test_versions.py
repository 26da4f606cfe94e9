"""Versions as snapshots of a real catalog: retracted, committed again, and outlived by a kill."""

import contextlib
import json
import signal
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

import lakeroot
from lakeroot.model.commits import CreateTableVersions, DeleteTableVersions
from lakeroot.model.errors import (
    ConcurrentModificationError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
)
from lakeroot.model.records import TableVersion
from tests.asking import Lake
from tests.iceberg.servers import Weed, fresh_name

FOR_EVER = """
import json, sys, lance, lakeroot, pyarrow as pa
properties, table = json.loads(sys.argv[1]), json.loads(sys.argv[2])
namespace = lakeroot.IcebergNamespace(**properties)
for number in range(10_000):
    rows = pa.table({"number": [number]})
    lance.write_dataset(rows, namespace_client=namespace, table_id=table, mode="append")
    print(number, flush=True)
"""


@pytest.fixture
def lake(catalog: Weed) -> Lake:
    return Lake(lakeroot.IcebergNamespace(**catalog.properties, managed_by="impl"))


@pytest.fixture
def table(lake: Lake):
    parent = fresh_name()
    lake.create_namespace(parent)
    lake.declare_table(parent, "t")
    return lake.client.catalog.table((parent, "t"))


def created(table, *numbers: int, suffix: str = "a", branch: str | None = None):
    versions = tuple(TableVersion(n, f"_versions/{n}.manifest-{suffix}") for n in numbers)
    return CreateTableVersions(table.identifier, versions, branch)


def test_a_retracted_version_gives_its_number_to_another(lake, table):
    catalog, store = lake.client.catalog, lake.client.store
    catalog.commit(created(table, 1, 2))
    catalog.commit(DeleteTableVersions(table.identifier, (2,)))
    assert store.entries.get(table.identifier).definition.version == 1
    catalog.commit(created(table, 2, suffix="b"))
    kept = store.versions(table, None)
    assert kept[2].manifest_path.endswith("2.manifest-b")
    catalog.commit(DeleteTableVersions(table.identifier, (1, 2)))
    assert store.versions(table, None) == {}
    assert store.entries.get(table.identifier).definition.version is None
    catalog.commit(created(table, 1, suffix="c"))
    assert list(store.versions(table, None)) == [1]


def test_a_version_is_committed_once_and_in_order(lake, table):
    catalog = lake.client.catalog
    catalog.commit(created(table, 1, 2))
    for number in (1, 2):
        with pytest.raises(TableVersionAlreadyExistsError) as refusal:
            catalog.commit(created(table, number))
        assert refusal.value.code == 14


def test_of_two_who_read_the_same_one_commits(lake, table):
    store = lake.client.store
    real = store.client.update_table

    def overtaken(*arguments):
        store.client.update_table = real
        lake.client.catalog.commit(created(table, 1, suffix="theirs"))
        return real(*arguments)

    store.client.update_table = overtaken
    with pytest.raises(ConcurrentModificationError) as conflict:
        lake.client.catalog.commit(created(table, 1, suffix="ours"))
    assert conflict.value.code == 14
    assert store.versions(table, None)[1].manifest_path.endswith("theirs")


def test_versions_of_branches_are_not_the_catalogs(lake, table):
    with pytest.raises(UnsupportedOperationError):
        lake.client.catalog.commit(created(table, 1, branch="dev"))
    assert lake.client.store.versions(table, "dev") == {}


def test_what_was_acknowledged_outlives_the_death_of_its_writer(catalog, lake, table):
    names = [table.identifier[0], "written"]
    rows = pa.table({"number": [-1]})
    lance.write_dataset(rows, namespace_client=lake.client, table_id=names)
    properties = json.dumps({**catalog.properties, "managed_by": "impl"})
    writer = subprocess.Popen(
        [sys.executable, "-c", FOR_EVER, properties, json.dumps(names)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert writer.stdout is not None
    with contextlib.closing(writer.stdout) as heard:
        acknowledged = [heard.readline(), heard.readline()]
        writer.send_signal(signal.SIGKILL)
        acknowledged += heard.readlines()
    writer.wait()
    dataset = lance.dataset(namespace_client=lake.client, table_id=names)
    numbers = dataset.to_table()["number"].to_pylist()
    assert {int(number) for number in acknowledged} <= set(numbers)
    # The last append may have been committed without having been acknowledged.
    assert len(numbers) - 1 - len(acknowledged) in (0, 1)
    assert lake.client.store.entries.get(tuple(names)).definition.version == dataset.version
    lance.write_dataset(rows, namespace_client=lake.client, table_id=names, mode="append")
