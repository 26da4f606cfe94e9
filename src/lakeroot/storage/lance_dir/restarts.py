"""Versions of ``__manifest`` that were made as if there was none before.

pylance makes the table in the moment it first needs it, over whatever was committed since it
looked. The metadata of the table survives that. So, as long as a catalog is young, the newest
version that a client of ours has made or looked at is noted there: what comes after it and is not
ours is looked at by whoever moves past it, and nothing else costs a look.
"""

import struct
from collections.abc import Mapping
from typing import Final

from lakeroot.storage.lance_dir.manifest_facts import read_version_in
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import VersionFile

SEEN: Final = "lakeroot.seen"
"""Where the table's metadata says up to which version nothing was lost."""

YOUNG: Final = 256
"""The version after which nobody can take the catalog for a new one any more."""


def metadata_after(before: VersionFile, seen: int) -> Mapping[str, str]:
    """Give the metadata of the version after this one, noting how far a client has looked."""
    if before.version >= YOUNG:
        return before.table_metadata
    noted = seen_in(before)
    if noted is None or max(noted, seen) >= before.version:
        # The first commit of ours in a catalog of others is also the first reason to look.
        is_known = noted is not None or not before.version
        noted = before.version + 1 if is_known else 1
    return {**before.table_metadata, SEEN: str(noted)}


def unseen(head: VersionFile, seen: int) -> range:
    """Give the versions that no client of ours has made or looked at, while it matters."""
    noted = seen_in(head)
    if noted is None:  # No client of ours has ever committed, so nothing of ours can be lost.
        return range(0)
    return range(max(noted, seen) + 1, min(head.version, YOUNG) + 1)


def seen_in(version: VersionFile) -> int | None:
    """Read up to which version nothing was lost, as the version says."""
    noted = version.table_metadata.get(SEEN, "")
    return int(noted) if noted.isascii() and noted.isdigit() else None


def is_restart(content: bytes | None) -> bool:
    """Tell from the file of a version whether its maker thought it was the first."""
    try:
        return content is not None and read_version_in(content) == 0
    except (MalformedError, struct.error):
        return False
