"""Keeping the ``__manifest`` table in shape for readers of other implementations.

Our own reads answer from memory and need none of this. Others scan the table: one data file and
the three indexes of the specification are what they read fastest.
"""

import logging
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from lakeroot.storage.lance_dir import index_section
from lakeroot.storage.lance_dir.commits import Committer
from lakeroot.storage.lance_dir.drafts import Draft
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.version_file import VersionFile

INDEXES: Final = {
    "object_id_btree": ("object_id", "BTREE"),
    "object_type_bitmap": ("object_type", "BITMAP"),
    "base_objects_label_list": ("base_objects", "LABEL_LIST"),
}
"""The indexes of the specification, by the names that the reference gives them."""

_ATTEMPTS: Final = 5
_LOG: Final = logging.getLogger(__name__)


class Optimized(Struct, frozen=True):
    """The version that is in shape now, its data files, and its indexes over all of them."""

    version: int
    data_files: int
    indexes: tuple[str, ...]


def optimize(table: ManifestTable, committer: Committer, author: str = "") -> Optimized:
    """Fold every row into one data file and index it; doing it again changes nothing."""
    committer.commit_draft(lambda: _folding(table.head, author))
    for _ in range(_ATTEMPTS):
        missing = missing_indexes(table.head)
        if not missing:
            break
        build_indexes(table, missing)
    head = table.head
    missing = missing_indexes(head)
    complete = tuple(name for name in INDEXES if name not in missing and head.fragments)
    return Optimized(head.version, len(head.fragments), complete)


def missing_indexes(head: VersionFile) -> list[str]:
    """List the indexes that do not exist, or do not cover every data file."""
    if not head.fragments:
        return []
    wanted = {fragment.id for fragment in head.fragments}
    found = index_section.decode(head.index_section) if head.index_section else []
    whole = {index.name for index in found if index.fragments and wanted <= index.fragments}
    return [name for name in INDEXES if name not in whole]


def build_indexes(table: ManifestTable, names: Iterable[str]) -> None:
    """Build indexes, best effort: whoever commits meanwhile has won, and nothing is lost."""
    for name in names:
        column, kind = INDEXES[name]
        try:
            table.whole_table.build_index(column, kind, name)
        except (OSError, RuntimeError, ValueError) as error:
            _LOG.info("The index %s was not built: %s", name, str(error).partition("\n")[0])
    table.refresh()


def _folding(head: VersionFile, author: str) -> Draft | None:
    is_whole = len(head.fragments) <= 1 and not any(f.deletion for f in head.fragments)
    if is_whole or not head.editable:
        return None
    return Draft({}, message="Optimize the catalog", author=author, fold=True)
