"""What a stream out of a table is asked for, and cannot do."""

import json

import lance_namespace
import pytest

import lakeroot.spark
from tests.spark.test_streaming import pump
from tests.spark.test_writing import frame, rows, where


@pytest.fixture(params=["vectors", "rows"])
def streaming(request, spark):
    """Both makings of the source: in Java, and Spark's own in Python."""
    spark.conf.set("spark.lakeroot.columnar", str(request.param == "vectors").lower())
    yield spark
    spark.conf.unset("spark.lakeroot.columnar")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"version": "1"}, "'version' is not for streams"),
        ({"branch": "dev"}, "'branch' is not for streams"),
        ({"limit": "5"}, "'limit' is not for streams"),
        ({"asOf": "2099-01-01"}, "'asOf' is not for streams"),
        ({"startingVersion": "9"}, "no version 9 to start after"),
        ({"maxVersionsPerTrigger": "0"}, "above 0"),
    ],
)
def test_what_a_stream_cannot_do_is_refused(streaming, root, catalog, tmp_path, option, words):
    lakeroot.spark.write(frame(streaming, 0, 4), "shop.a", root=root)
    if "branch" in option:
        lakeroot.open(root)["shop.a"].dataset().create_branch("dev")
    with pytest.raises(Exception, match=words):
        pump(streaming, root, str(tmp_path / "c"), "shop.a", "shop.b", **option)


def test_a_table_that_was_made_again_stops_the_stream(streaming, root, catalog, tmp_path):
    checkpoint = str(tmp_path / "c")
    for start in (0, 2):
        lakeroot.spark.write(frame(streaming, start, start + 2), "shop.a", root=root)
    pump(streaming, root, checkpoint, "shop.a", "shop.b")
    catalog.drop_table(lance_namespace.DropTableRequest(id=["shop", "a"]))
    lakeroot.spark.write(frame(streaming, 7, 9), "shop.a", root=root)
    with pytest.raises(Exception, match="up to version 2, and its newest is 1"):
        pump(streaming, root, checkpoint, "shop.a", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_the_checkpoint_of_another_table_stops_the_stream(streaming, root, catalog, tmp_path):
    checkpoint = tmp_path / "c"
    for name, first in (("a", 0), ("other", 10)):
        for start in (first, first + 2):
            lakeroot.spark.write(frame(streaming, start, start + 2), f"shop.{name}", root=root)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    lakeroot.spark.write(frame(streaming, 14, 16), "shop.other", root=root)
    words = "a stream out of table shop.a, and this one reads table shop.other"
    with pytest.raises(Exception, match=words):
        pump(streaming, root, str(checkpoint), "shop.other", "shop.b")
    # A batch that is repeated is planned from the checkpoint alone.
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    with pytest.raises(Exception, match=words):
        pump(streaming, root, str(checkpoint), "shop.other", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_a_table_with_another_name_goes_on_with_its_checkpoint(streaming, root, catalog, tmp_path):
    checkpoint = str(tmp_path / "c")
    lakeroot.spark.write(frame(streaming, 0, 2), "shop.a", root=root)
    pump(streaming, root, checkpoint, "shop.a", "shop.b")
    catalog.rename_table(
        lance_namespace.RenameTableRequest(id=["shop", "a"], new_table_name="renamed")
    )
    lakeroot.spark.write(frame(streaming, 2, 4), "shop.renamed", root=root)
    pump(streaming, root, checkpoint, "shop.renamed", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_a_checkpoint_that_names_no_table_goes_on(streaming, root, catalog, tmp_path):
    """Checkpoints of before hold nothing but a version."""
    checkpoint = tmp_path / "c"
    lakeroot.spark.write(frame(streaming, 0, 2), "shop.a", root=root)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    offsets = checkpoint / "offsets" / "0"
    *about, last = offsets.read_text().splitlines()
    assert json.loads(last)["table"] == "shop.a"
    offsets.write_text("\n".join([*about, '{"version": 1}']))
    (checkpoint / "offsets" / ".0.crc").unlink(missing_ok=True)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    assert not (checkpoint / "offsets" / "1").exists()
    lakeroot.spark.write(frame(streaming, 2, 4), "shop.a", root=root)
    pump(streaming, root, str(checkpoint), "shop.a", "shop.b")
    assert rows(where(catalog, "shop", "b")) == [0, 1, 2, 3]


def test_a_stream_begins_after_the_version_that_it_is_told(streaming, root, catalog, tmp_path):
    for start in (0, 2, 4):
        lakeroot.spark.write(frame(streaming, start, start + 2), "shop.a", root=root)
    pump(streaming, root, str(tmp_path / "c"), "shop.a", "shop.b", startingVersion="2")
    assert rows(where(catalog, "shop", "b")) == [4, 5]
