"""Is a manifest the one that the catalog's row of a version was written for.

The number of a version does not tell. Lance clients choose it, the one after the newest, so that a
number comes again when the newest version was deleted; refusing it would refuse every commit to the
table. A row of the past must not be taken for the younger version, so it says what its manifest
holds. Times of files do not tell either: a catalog that is copied has new ones.
"""

import hashlib
from collections.abc import Callable
from typing import Final

from lakeroot.model.records import TableVersion
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import decode

DIGEST: Final = "manifest_digest"
"""Where a version the catalog keeps says what its manifest holds."""

SMALL: Final = 1 << 18
"""Manifests that others put there are read for their digests up to so many bytes."""

_CLOCKS_MS: Final = 15 * 60 * 1000
"""How far the clocks of writers may differ; buckets refuse those that are further off."""


def digest_of(content: bytes) -> str:
    """Tell manifests from each other by what they hold."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def is_of(row: TableVersion, found: TableVersion, read: Callable[[], bytes | None]) -> bool:
    """Tell whether a file, as it is found now, is the manifest that a row was written for."""
    if row.manifest_size not in (None, found.manifest_size):
        return False
    said = row.metadata.get(DIGEST)
    if said is None and row.timestamp_ms in (None, found.timestamp_ms):
        return True  # Nothing is said of it, or it was taken in and lies there untouched.
    content = read()
    if content is None:
        return False
    if said is not None:
        return digest_of(content) == said
    # A row without a digest: of an earlier release, or of another implementation. Its manifest was
    # made before the row, and one that came in its place later.
    try:
        made_ms = decode(content).timestamp_ms
    except (MalformedError, ValueError):
        return True
    return made_ms <= (row.timestamp_ms or 0) + _CLOCKS_MS
