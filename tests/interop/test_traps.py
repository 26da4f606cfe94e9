"""Ways in which sharing `__manifest` with the reference is known to go wrong."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance_namespace import ConcurrentModificationError

from tests.asking import Lake, refused
from tests.interop.conftest import manifest_rows, object_ids

Open = Callable[..., Lake]
PRIMARY_KEY = b"lance-schema:unenforced-primary-key:position"
FLAGS = "lance.namespace.manifest."


def manifest(root: Path) -> Any:
    return lance.dataset(str(root / "__manifest"))


def row(object_id: str, kind: str, location: str | None = None) -> dict[str, Any]:
    return {
        "object_id": object_id,
        "object_type": kind,
        "location": location,
        "metadata": None,
        "base_objects": None,
    }


def append(root: Path, *rows: dict[str, Any]) -> None:
    """Write rows as a careless writer does."""
    found = manifest(root)
    lance.write_dataset(
        pa.Table.from_pylist(list(rows), schema=found.schema), found.uri, mode="append"
    )


def test_our_manifest_has_the_schema_of_theirs(
    ours: Open, theirs: Open, root: Path, tmp_path: Path
) -> None:
    from lance.namespace import DirectoryNamespace as Reference

    ours().create_namespace("a")
    Lake(Reference(root=str(tmp_path / "their"))).create_namespace("a")
    mine, yours = manifest(root), manifest(tmp_path / "their")

    assert mine.schema.equals(yours.schema, check_metadata=True)
    assert mine.schema.field("object_id").metadata[PRIMARY_KEY] == b"0"
    assert mine.data_storage_version == yours.data_storage_version


def test_the_primary_key_survives_compaction_and_rewriting(ours: Open, root: Path) -> None:
    us = ours()
    for number in range(30):
        us.create_namespace(f"n{number}")
    assert manifest(root).schema.field("object_id").metadata[PRIMARY_KEY] == b"0"
    assert len(manifest(root).get_fragments()) <= 9


def test_repeated_rows_are_read_once_and_mended_by_a_change(ours: Open, root: Path) -> None:
    us = ours("v2")
    us.create_namespace("a")
    append(root, row("b", "namespace"))
    append(root, row("b", "namespace"))

    assert us.namespaces() == ["a", "b"]
    us.drop_namespace("b")
    assert us.namespaces() == ["a"] == object_ids(root)


def test_a_stale_merge_insert_is_refused_after_our_commit(ours: Open, root: Path) -> None:
    us = ours()
    us.create_namespace("a")
    stale = manifest(root)
    us.create_namespace("b")

    rows = pa.Table.from_pylist([row("c", "namespace")], schema=stale.schema)
    merge = stale.merge_insert("object_id").when_not_matched_insert_all().conflict_retries(0)
    with pytest.raises(OSError, match=r"(?i)conflict|incompatible"):
        merge.execute(rows)
    assert object_ids(root) == ["a", "b"]


def test_their_held_client_sees_every_commit_of_ours(ours: Open, theirs: Open) -> None:
    us, them = ours(), theirs()
    for number in range(20):
        us.create_namespace(f"n{number:02}")
        assert len(them.namespaces()) == number + 1


def test_our_held_client_survives_a_clean_up_of_versions(
    ours: Open, theirs: Open, root: Path
) -> None:
    from datetime import timedelta

    us, them = ours(), theirs()
    for number in range(5):
        us.create_namespace(f"a{number}")
        them.create_namespace(f"b{number}")
    manifest(root).cleanup_old_versions(older_than=timedelta(0))

    us.create_namespace("after")
    assert len(ours().namespaces()) == 11
    assert "after" in ours().namespaces()


def test_deleted_rows_stay_deleted_while_their_file_is_kept(
    ours: Open, theirs: Open, root: Path
) -> None:
    us = ours("v2")
    us.client.create_namespaces([[f"n{number:02}"] for number in range(40)])
    for number in range(3):
        us.drop_namespace(f"n{number:02}")
    us.create_namespace("later")

    fragments = manifest(root).get_fragments()
    assert any(fragment.metadata.deletion_file for fragment in fragments)
    # The path of a deletion file has the id of its fragment in it.
    assert len({fragment.fragment_id for fragment in fragments}) == len(fragments)
    expected = [*(f"n{number:02}" for number in range(3, 40)), "later"]
    assert object_ids(root) == sorted(expected)
    them = theirs("v2")
    them.drop_namespace("n10")
    them.create_namespace("theirs")
    us.create_namespace("ours")
    expected = sorted({*expected, "theirs", "ours"} - {"n10"})
    assert object_ids(root) == us.namespaces() == sorted(theirs("v2").namespaces()) == expected


def test_only_version_management_makes_rows_the_reference_cannot_write_beside(
    ours: Open, theirs: Open, root: Path
) -> None:
    plain = ours("v2")
    plain.create_table("t")
    assert {row["object_type"] for row in manifest_rows(root)} == {"table"}
    theirs("v2").create_namespace("before")

    managed = ours("v2", table_version_management="true")
    managed.create_table("u")
    assert "table_version" in {row["object_type"] for row in manifest_rows(root)}
    assert sorted(theirs("v2").tables()) == ["t", "u"]
    with pytest.raises(Exception, match="Invalid object type"):
        theirs("v2").create_namespace("after")
    managed.create_namespace("after")
    assert managed.namespaces() == ["after", "before"]


def test_a_stale_hint_is_only_a_hint(ours: Open, theirs: Open, root: Path) -> None:
    us = ours()
    hint = root / "__manifest" / "_versions" / "latest_version_hint.json"
    for number in range(10):
        us.create_namespace(f"n{number}")
    for content in (b'{"version":2}', b'{"version":999}', b"", b"{", b'{"version":"x"}', b"[1]"):
        hint.write_bytes(content)
        assert len(ours().namespaces()) == 10
        assert len(theirs().namespaces()) == 10
        assert len(us.namespaces()) == 10


def test_table_metadata_and_configuration_of_others_are_kept(ours: Open, root: Path) -> None:
    us = ours()
    us.create_namespace("a")
    manifest(root).update_config({"their.setting": "1"})
    us.create_namespace("b")

    assert manifest(root).config()["their.setting"] == "1"
    assert object_ids(root) == ["a", "b"]


def test_columns_of_others_are_kept(ours: Open, root: Path) -> None:
    us = ours("v2")
    us.create_namespace("a")
    manifest(root).add_columns(pa.field("extra", pa.string()))
    manifest(root).update({"extra": "'kept'"})

    us.create_namespace("b")
    us.drop_namespace("b")
    us.create_namespace("c")

    found = {row["object_id"]: row["extra"] for row in manifest_rows(root)}
    assert found == {"a": "kept", "c": None}
    assert us.namespaces() == ["a", "c"]


def test_columns_that_we_cannot_fill_are_told(ours: Open, root: Path) -> None:
    us = ours("v2")
    us.create_namespace("a")
    manifest(root).add_columns({"extra": "'never null'"})

    assert us.namespaces() == ["a"]
    with refused(0):
        us.create_namespace("b")
    assert object_ids(root) == ["a"]


def test_unknown_kinds_of_objects_are_left_alone(ours: Open, root: Path) -> None:
    us = ours("v2")
    us.create_namespace("a")
    append(root, row("a$view", "view"), row("plain", "function"))

    assert us.namespaces() == ["a"]
    assert us.tables("a") == []
    with refused(0):
        us.declare_table("a", "view")
    with refused(0):
        us.create_namespace("plain")
    with refused(0, 4):
        us.drop_table("plain")
    with refused(3):
        us.drop_namespace("a")
    with refused(3):
        us.drop_namespace("a", behavior="Cascade")
    us.create_namespace("b")
    assert object_ids(root) == ["a", "a$view", "b", "plain"]


@pytest.mark.parametrize(
    "location",
    [None, "", ".", "..", "../outside", "/etc", "__manifest", "s3://elsewhere/t", "a//b"],
)
def test_a_row_with_an_unusable_location_harms_nothing(
    ours: Open, root: Path, tmp_path: Path, location: str | None
) -> None:
    us = ours("v2")
    us.create_namespace("a")
    us.create_table("kept")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"x")
    append(root, row("a$odd", "table", location))

    assert us.tables("a") == ["odd"]
    us.drop_table("a", "odd")

    assert us.tables("a") == []
    assert us.tables() == ["kept"]
    assert lance.dataset(us.describe_table("kept").location).count_rows() == 3
    assert (tmp_path / "outside" / "file").exists()
    assert object_ids(root) == ["a", "kept"]


@pytest.mark.parametrize(
    ("key", "reads"), [("writer_feature_flags", True), ("reader_feature_flags", False)]
)
def test_feature_flags_are_honoured(ours: Open, root: Path, key: str, reads: bool) -> None:
    us = ours()
    us.create_namespace("a")
    manifest(root).update_metadata({FLAGS + key: "2"})

    for client in (us, ours()):
        if reads:
            assert client.namespaces() == ["a"]
        else:
            with refused(0) as error:
                client.namespaces()
            assert "Upgrade" in str(error.value)
        with refused(0) as error:
            client.create_namespace("b")
        assert "Upgrade" in str(error.value)
    assert object_ids(root) == ["a"]


def test_properties_that_are_not_strings_can_be_read(ours: Open, root: Path) -> None:
    us = ours("v2")
    us.create_namespace("a")
    odd = row("b", "namespace") | {"metadata": '{"n": 1, "list": [1, 2], "none": null}'}
    worse = row("c", "namespace") | {"metadata": "not json"}
    append(root, odd, worse)

    assert us.describe_namespace("b") == {"n": "1", "list": "[1, 2]", "none": "null"}
    assert us.namespace_exists("c")


def test_threads_of_both_write_at_the_same_time(ours: Open, theirs: Open, root: Path) -> None:
    # The manifest is there: the reference, when it makes the table itself, makes it over whatever
    # others have committed since it looked (docs/directory.md, "The first commit").
    ours().create_namespace("first")
    together = threading.Barrier(4)
    acknowledged = ["first"]

    def work(lake: Lake, name: str) -> None:
        together.wait()
        for number in range(6):
            with contextlib.suppress(ConcurrentModificationError):
                lake.create_namespace(f"{name}-{number}")
                acknowledged.append(f"{name}-{number}")

    clients = [(ours(), "us1"), (ours(), "us2"), (theirs(), "them1"), (theirs(), "them2")]
    workers = [threading.Thread(target=work, args=pair) for pair in clients]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert object_ids(root) == sorted(acknowledged)
    assert sorted(theirs().namespaces()) == ours().namespaces() == sorted(acknowledged)
    assert len([name for name in acknowledged if name.startswith("us")]) == 12
    theirs().create_namespace("still")
    ours().create_namespace("going")
