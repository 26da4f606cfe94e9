"""A staged manifest with a damaged byte: refused by every kind of catalog, and nothing changed."""

from pathlib import Path
from typing import Any

import pytest
from lance_namespace import LanceNamespaceError

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.version_file import FOOTER
from lakeroot.tables.versions import manifest_name
from tests.versions.kinds import KINDS, append, opener
from tests.versions.staging import files_below, make_table, numbers, row_count, stage

INVALID = 13


def contents(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in files_below(root)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_byte_is_refused_and_nothing_is_changed(kind: str, root: Path) -> None:
    catalog: Any = opener(kind, root)()
    make_table(catalog, "t", versions=2)
    staged = stage(catalog, "t")
    good = staged.content
    before = contents(root)

    for at in range(0, len(good) - FOOTER.size, 3):
        staged.file.write_bytes(good[:at] + bytes((good[at] ^ 0xFF,)) + good[at + 1 :])
        with pytest.raises(LanceNamespaceError, match=staged.file.name) as error:
            catalog.create_table_version(staged.request())
        assert int(error.value.code) == INVALID
        assert numbers(catalog, "t") == [1, 2]

    staged.file.write_bytes(good)
    assert contents(root) == before
    catalog.create_table_version(staged.request())
    assert row_count(catalog, "t") == 9


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_with_a_damaged_manifest_changes_nothing(kind: str, root: Path) -> None:
    catalog: Any = opener(kind, root)()
    for name in ("a", "b"):
        make_table(catalog, name)
    good, bad = stage(catalog, "a"), stage(catalog, "b")
    bad.file.write_bytes(bad.content.replace(b".lance", b"\xff\xff\xff\xff\xff\xff"))
    before = contents(root)

    with pytest.raises(LanceNamespaceError, match="is damaged"):
        catalog.batch_create_table_versions({"entries": [good.request(), bad.request()]})

    assert contents(root) == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_unknown_but_whole_is_taken(kind: str, root: Path) -> None:
    catalog: Any = opener(kind, root)()
    make_table(catalog, "t")
    staged = stage(catalog, "t")
    position = FOOTER.unpack(staged.content[-FOOTER.size :])[0]
    message = protobuf.unframed(staged.content, position) + protobuf.blob(1900, b"\xff")
    newer = staged.content[:position] + protobuf.framed(message) + staged.content[-FOOTER.size :]
    staged.file.write_bytes(newer)

    catalog.create_table_version(staged.request(manifest_size=len(newer)))

    append(catalog, "t")
    assert numbers(catalog, "t") == [1, 2, 3]
    assert (staged.file.parent / manifest_name(2)).read_bytes() == newer
