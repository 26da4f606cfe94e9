"""Putting back what a catalog lost when another client made it anew over what was there."""

import logging
from collections.abc import Iterable
from typing import Final

from lakeroot.model.errors import InvalidTableStateError, LakerootError
from lakeroot.model.identifiers import ROOT, Identifier
from lakeroot.objects import Objects
from lakeroot.storage.lance_dir import placement, versions
from lakeroot.storage.lance_dir.commits import Committer
from lakeroot.storage.lance_dir.directory import Directory
from lakeroot.storage.lance_dir.drafts import Draft
from lakeroot.storage.lance_dir.manifest_table import ManifestTable
from lakeroot.storage.lance_dir.restarts import is_restart, unseen
from lakeroot.storage.lance_dir.rows import TABLE_ROW, VERSION_ROW, Row
from lakeroot.storage.lance_dir.state import advance, load
from lakeroot.storage.lance_dir.version_file import FIRST

_LOG: Final = logging.getLogger(__name__)


class Healer:
    """Looks at each version that others made of a young catalog, once."""

    def __init__(self, objects: Objects, table: ManifestTable, committer: Committer) -> None:
        self._objects = objects
        self._table = table
        self._committer = committer
        self._looked = FIRST

    def look(self) -> None:
        """Put back whatever was lost on the way to the version that is the newest known."""
        head = self._table.head
        if head is self._looked:
            return
        if head.version < self._table.seen:
            self._table.seen = 0  # It is another catalog, at the place of one that was deleted.
        try:
            for number in unseen(head, self._table.seen):
                if number > 1 and is_restart(self._objects.get(versions.path_of(number))):
                    self.put_back(number)
        except LakerootError as error:
            _LOG.warning("Names that another client lost could not be put back: %s", error)
        else:
            self._table.seen = max(self._table.seen, head.version)
        self._looked = head

    def put_back(self, number: int, author: str = "") -> bool:
        """Give the rows back that one version lost; tell whether any were missing."""

        def plan() -> Draft | None:
            table = self._table
            rows = lost_rows(table, self._objects, number)
            self._table.seen = max(table.seen, table.head.version)
            message = f"Put back what version {number} lost"
            return Draft(rows, message=message, author=author) if rows else None

        return self._committer.commit_draft(plan)


def lost_rows(table: ManifestTable, objects: Objects, number: int) -> dict[Identifier, Row]:
    """Find the rows that a version took away and that have not been there again since.

    What has been there again was put back, even if it was dropped later; what lost its directory
    as well was dropped by somebody else.
    """
    lost: dict[Identifier, Row] = {}
    try:
        state = load(table.read_version(number - 1), table.files, table.whole_table)
        for kept in range(number, table.head.version + 1):
            touched = advance(state, table.read_version(kept), table.files, table.whole_table)
            if kept == number:
                lost = touched.before
            for identifier in touched.after.keys() & lost.keys():
                del lost[identifier]
    except InvalidTableStateError:
        return {}  # Vacuumed or damaged: nobody knows any more.
    return _worth_putting_back(lost.values(), table, objects)


def _worth_putting_back(
    lost: Iterable[Row], table: ManifestTable, objects: Objects
) -> dict[Identifier, Row]:
    back: dict[Identifier, Row] = {}
    for row in sorted(lost, key=lambda row: len(row.identifier)):
        parent = row.identifier[:-1]
        is_child = parent in back or (
            row.object_type != VERSION_ROW and (parent == ROOT or table.index.entry(parent))
        )
        if is_child and (row.object_type != TABLE_ROW or _is_free(row, table, objects)):
            back[row.identifier] = row
    return back


def _is_free(row: Row, table: ManifestTable, objects: Objects) -> bool:
    """Tell whether a table is still at its location, and nobody else's by now."""
    location = row.location or ""
    if not placement.is_inside(location) or not objects.has_any(location):
        return False
    name = row.identifier[-1]
    if location == placement.flat(name) and Directory(objects).probe(name).is_deregistered:
        return False
    return location not in table.index.listings.locations
