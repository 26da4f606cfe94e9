"""Publishing several tables at once; no Spark session is needed for what happens in the driver."""

import os
import time
from datetime import timedelta
from pathlib import Path

import lance
import lance_namespace
import pyarrow as pa
import pytest
from pyspark.sql import types as st

from lakeroot.catalog.version_files import VersionFiles
from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.publishing import NotPublished, Pending, discard, publish_together
from lakeroot.spark.write_tasks import write_rows
from lakeroot.spark.writing import finish, prepare
from tests.iceberg.servers import weed
from tests.iceberg.test_gc import Place

SCHEMA = st.StructType([st.StructField("id", st.LongType())])


@pytest.fixture(params=["directory", "metastore"])
def catalog(request, root):
    if request.param == "directory":
        made = Catalog.at(root, {"table_version_management": "true"})
    else:
        made = Catalog.of("lakeroot.DeltaCatNamespace", {"root": root})
    made.connect().create_namespace(lance_namespace.CreateNamespaceRequest(id=["shop"]))
    return made


def written(catalog, name, ids, mode="append", strict=False, aside=False):
    """Write rows aside, as a task of Spark does."""
    ref = TableRef(catalog, ("shop", name))
    plan = prepare(ref, SCHEMA, WriteOptions(mode=mode), aside=aside)
    part = write_rows(plan, [pa.record_batch({"id": pa.array(ids, pa.int64())})])
    if plan.dataset is None:
        operation = lance.LanceOperation.Overwrite(part.schema, list(part.fragments))
    else:
        operation = lance.LanceOperation.Append(list(part.fragments))
    return Pending(plan, operation, tuple(part.files), {"lakeroot.job": plan.job}, strict)


def ids(catalog, name):
    table = lance.dataset(namespace_client=catalog.connect(), table_id=["shop", name])
    return sorted(table.to_table().column("id").to_pylist())


def test_new_and_old_tables_change_in_one_commit(catalog):
    publish_together(catalog, [written(catalog, "a", [1])], "first")
    done = publish_together(
        catalog, [written(catalog, "a", [2]), written(catalog, "b", [3], mode="create")], "both"
    )
    assert done == {"shop.a": 2, "shop.b": 1}
    assert ids(catalog, "a") == [1, 2]
    assert ids(catalog, "b") == [3]
    messages = [entry.message for entry in catalog.connect().catalog.history()]
    assert messages.count("both") == messages.count("first") == 1


def names(catalog):
    listed = catalog.connect().list_tables(lance_namespace.ListTablesRequest(id=["shop"]))
    return sorted(listed.tables)


def test_new_tables_get_their_names_and_their_rows_in_one_commit(catalog):
    def history():
        return [entry.message for entry in catalog.connect().catalog.history()]

    before = history()
    pending = [written(catalog, name, [number], aside=True) for number, name in enumerate("abc")]
    assert names(catalog) == []
    assert history() == before

    assert publish_together(catalog, pending, "all") == {"shop.a": 1, "shop.b": 1, "shop.c": 1}

    assert names(catalog) == ["a", "b", "c"]
    assert [ids(catalog, name) for name in "abc"] == [[0], [1], [2]]
    assert history() == ["all", *before]
    assert publish_together(catalog, [written(catalog, "a", [9])], "more") == {"shop.a": 2}
    assert ids(catalog, "a") == [0, 9]


def test_what_was_written_aside_goes_when_it_is_not_published(catalog):
    publish_together(catalog, [written(catalog, "old", [1])], "")
    pending = [written(catalog, "a", [2], aside=True), written(catalog, "old", [3], strict=True)]
    publish_together(catalog, [written(catalog, "old", [4])], "meanwhile")

    with pytest.raises(NotPublished):
        publish_together(catalog, pending, "both")
    discard([each.plan for each in pending])

    assert names(catalog) == ["old"]
    assert ids(catalog, "old") == [1, 4]
    assert not Path(pending[0].plan.table.location).exists()


def test_gc_leaves_what_a_run_has_written_aside_however_short_its_window(catalog):
    pending = written(catalog, "a", [1], aside=True)
    aged = time.time() - 3 * 24 * 3600
    for file in Path(pending.plan.table.location).rglob("*"):
        os.utime(file, (aged, aged))

    catalog.connect().gc(timedelta(0))

    publish_together(catalog, [pending], "")
    assert ids(catalog, "a") == [1]


def test_the_names_of_new_tables_go_too_when_a_commit_is_taken_back(catalog, monkeypatch):
    """Somebody puts the next version of a table there, in the moment before ours is."""
    publish_together(catalog, [written(catalog, "old", [1])], "")
    pending = [written(catalog, "old", [2]), written(catalog, "new", [3], aside=True)]
    final = VersionFiles.finalise

    def overtaken(files, manifest, content, **options):
        place = Path(pending[0].plan.table.location) / manifest.final_path
        place.write_bytes(content + b"theirs")
        return final(files, manifest, content, **options)

    monkeypatch.setattr(VersionFiles, "finalise", overtaken)
    with pytest.raises(NotPublished):
        publish_together(catalog, pending, "both")
    discard([each.plan for each in pending])

    assert names(catalog) == ["old"]
    assert not Path(pending[1].plan.table.location).exists()


def test_a_run_does_not_replace_the_first_rows_of_another(catalog):
    catalog.connect().declare_table(lance_namespace.DeclareTableRequest(id=["shop", "a"]))
    mine = written(catalog, "a", [1], aside=True)
    publish_together(catalog, [written(catalog, "a", [2])], "theirs")

    with pytest.raises(NotPublished) as raised:
        publish_together(catalog, [mine], "mine")

    assert isinstance(raised.value.__cause__, ConcurrentModificationError)
    assert ids(catalog, "a") == [2]


def test_an_iceberg_catalog_names_new_tables_one_by_one(tmp_path):
    with weed(tmp_path) as server:
        place = Place(server, tmp_path / "tables", "impl")
        iceberg = Catalog.of("lakeroot.IcebergNamespace", place.properties)
        ref = TableRef(iceberg, (place.name, "fresh"))

        plan = prepare(ref, SCHEMA, WriteOptions(mode="append"), aside=True)

        assert plan.declared_here
        assert not plan.is_aside


def test_a_name_that_is_taken_meanwhile_is_a_conflict_and_loses_nothing(catalog):
    mine = written(catalog, "a", [1], aside=True)
    publish_together(catalog, [written(catalog, "a", [2])], "theirs")

    with pytest.raises(NotPublished) as raised:
        publish_together(catalog, [mine], "mine")
    discard([mine.plan])

    assert isinstance(raised.value.__cause__, ConcurrentModificationError)
    assert ids(catalog, "a") == [2]


def test_a_table_that_got_its_name_is_not_removed_with_what_failed(catalog):
    mine = written(catalog, "a", [1], aside=True)
    publish_together(catalog, [mine], "")

    discard([mine.plan])  # as after an answer that was lost

    assert ids(catalog, "a") == [1]


def test_appends_take_what_others_have_added_meanwhile(catalog):
    publish_together(catalog, [written(catalog, "a", [1])], "")
    pending = written(catalog, "a", [2])
    publish_together(catalog, [written(catalog, "a", [3])], "")
    publish_together(catalog, [pending], "")
    assert ids(catalog, "a") == [1, 2, 3]


def test_a_strict_change_that_was_overtaken_publishes_nothing(catalog, root):
    publish_together(catalog, [written(catalog, "a", [1]), written(catalog, "b", [1])], "")
    pending = [written(catalog, "b", [2]), written(catalog, "a", [2], strict=True)]
    publish_together(catalog, [written(catalog, "a", [3])], "")
    with pytest.raises(NotPublished) as raised:
        publish_together(catalog, pending, "lost")
    assert isinstance(raised.value.__cause__, ConcurrentModificationError)
    assert ids(catalog, "a") == [1, 3]
    assert ids(catalog, "b") == [1]
    assert not list(Path(root).rglob("*.manifest-*"))


def test_a_plain_write_and_a_publication_see_each_other(catalog):
    plan = prepare(TableRef(catalog, ("shop", "a")), SCHEMA, WriteOptions(mode="append"))
    part = write_rows(plan, [pa.record_batch({"id": pa.array([1], pa.int64())})])
    assert finish(plan, [part]).version == 1
    assert publish_together(catalog, [written(catalog, "a", [2])], "") == {"shop.a": 2}
    assert ids(catalog, "a") == [1, 2]
