"""Manifests of versions that were never written: one is made into many by changing its number."""

import json
from pathlib import Path

import lance
import pyarrow as pa

from lakeroot import DirectoryNamespace
from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.version_file import FOOTER, VERSION
from lakeroot.tables.versions import manifest_name


def renumbered(manifest: bytes, version: int) -> bytes:
    """Make a manifest say that it is another version of the same table."""
    footer = manifest[-FOOTER.size :]
    position = FOOTER.unpack(footer)[0]
    message = b"".join(
        protobuf.always_number(VERSION, version) if field[0] == VERSION else protobuf.raw(field)
        for field in protobuf.fields(protobuf.unframed(manifest, position))
    )
    return manifest[:position] + protobuf.framed(message) + footer


def table_of_versions(root: Path, versions: int) -> None:
    """Make a table with many versions; all but the first differ from it in their number only."""
    namespace = DirectoryNamespace(root=str(root))
    lance.write_dataset(pa.table({"id": range(10)}), namespace_client=namespace, table_id=["t"])
    directory = root / "t.lance" / "_versions"
    first = (directory / manifest_name(1)).read_bytes()
    for version in range(2, versions + 1):
        (directory / manifest_name(version)).write_bytes(renumbered(first, version))
    (directory / "latest_version_hint.json").write_text(json.dumps({"version": versions}))
