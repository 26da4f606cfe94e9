"""Manifests of versions that were never written: one is made into many by changing its number."""

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.version_file import FOOTER, VERSION


def renumbered(manifest: bytes, version: int) -> bytes:
    """Make a manifest say that it is another version of the same table."""
    footer = manifest[-FOOTER.size :]
    position = FOOTER.unpack(footer)[0]
    message = b"".join(
        protobuf.always_number(VERSION, version) if field[0] == VERSION else protobuf.raw(field)
        for field in protobuf.fields(protobuf.unframed(manifest, position))
    )
    return manifest[:position] + protobuf.framed(message) + footer
