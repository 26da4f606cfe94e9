"""What a commit does to the directories of tables: markers before it, deletions after it.

A marker that must be there before a commit may be seen is put first; if the commit is not made,
exactly the markers that were put for it are taken back, and never one that was there before.
"""

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lakeroot.model.commits import Commit, DeclareTable, DropTable, RegisterTable, RenameTable
from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Table
from lakeroot.objects import LocalObjects, Objects
from lakeroot.storage.contract import View
from lakeroot.storage.lance_dir import placement

_AT_ONCE: Final = 32
_LOG: Final = logging.getLogger(__name__)


class Markers:
    """The markers of one commit, whose tables ``losing`` their name are known.

    Those ``rowless`` are known by their directory alone, so for them the marker is the change.
    If the commit ``leaves_marks``, the marker of a dropped table stays, until `gc` removes it: the
    next table of this name is placed elsewhere, and what late writers leave there is not seen.
    """

    def __init__(
        self,
        objects: Objects,
        commit: Commit,
        losing: Mapping[Identifier, Table],
        rowless: Collection[Identifier],
        *,
        leaves_marks: bool = False,
    ) -> None:
        self._objects = objects
        self._commit = commit
        self._losing = losing
        self._rowless = rowless
        self._leaves_marks = leaves_marks
        self._reserved: set[str] = set()
        self._hidden: set[Identifier] = set()

    def require_tables(self) -> None:
        """Refuse to register a directory that holds nothing."""
        for change in self._commit.changes:
            if isinstance(change, RegisterTable) and not self._has_table(change.location):
                raise InvalidInputError(
                    f"There is no table at {change.location}",
                    "the directory is empty or does not exist",
                    "Register the directory of a Lance table below the root",
                )

    def _has_table(self, location: str) -> bool:
        mark = f"{location}/{placement.DEREGISTERED}"
        return any(found.path != mark for found in self._objects.list(location))

    def put(self) -> None:
        """Put the markers that must be there before the commit can be seen."""
        declared = [c.location for c in self._commit.changes if isinstance(c, DeclareTable)]
        if isinstance(self._objects, LocalObjects) or len(declared) <= 1:
            for location in declared:
                self._reserve(location)
        else:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self._reserve, declared))
        for change in self._commit.changes:
            if isinstance(change, RegisterTable) and not placement.is_flat(change.location):
                # Younger than any drop of what was there before: a collector must not take the
                # table for a dropped one if it is deregistered again.
                marker = f"{change.location}/{placement.RESERVED}"
                self._objects.put(marker, placement.MARK_FOR_ROW)
        for identifier in self._losing.keys() - set(self._rowless):
            # A row wins over a marker, so hiding the directory first changes nothing; without
            # it, V1 clients would find the table again the moment its row is gone.
            if self._hide(identifier):
                self._hidden.add(identifier)

    def _reserve(self, location: str) -> None:
        marker = f"{location}/{placement.RESERVED}"
        if isinstance(self._objects, LocalObjects):
            self._objects.make_directory(location)
        if self._objects.put_if_absent(marker, placement.MARK_FOR_ROW):
            self._reserved.add(location)

    def _hide(self, identifier: Identifier) -> bool:
        location = self._losing[identifier].location
        return placement.is_flat(location) and self._objects.put_if_absent(
            f"{location}/{placement.DEREGISTERED}", placement.MARK
        )

    def take_back(self, view: View) -> None:
        """Undo `put` after a commit that was not made, as far as it was not made after all."""
        for location in self._reserved:
            if view.owner_of(location) is None:
                self._objects.delete([f"{location}/{placement.RESERVED}"])
                self._objects.prune_directory(location)
        for identifier in self._hidden:
            table = self._losing[identifier]
            if view.get(identifier) == table:
                self._objects.delete([f"{table.location}/{placement.DEREGISTERED}"])

    def finish(self, view: View) -> None:
        """Finish on disk what the commit decided; any later clean-up can finish it too."""
        for change in self._commit.changes:
            try:
                if change.identifier in self._rowless:
                    self._hide(change.identifier)
                if isinstance(change, DropTable):
                    self._delete(change.identifier, view)
                elif isinstance(change, RegisterTable):
                    self._show(change.identifier, change.location)
                elif isinstance(change, RenameTable) and change.identifier in self._losing:
                    self._show(change.new_identifier, self._losing[change.identifier].location)
            except LakerootError as error:
                _LOG.warning("The commit is made, but its files are not all in order: %s", error)

    def _show(self, identifier: Identifier, location: str) -> None:
        # Under another name than the directory's, V1 clients must not find the table.
        if len(identifier) == 1 and location == placement.flat(identifier[0]):
            self._objects.delete([f"{location}/{placement.DEREGISTERED}"])

    def _delete(self, identifier: Identifier, view: View) -> None:
        table = self._losing.get(identifier)
        if table is None or not placement.is_inside(table.location):
            return
        if view.owner_of(table.location) is None:
            delete_table(self._objects, table.location, leaves_mark=self._leaves_marks)


def delete_table(objects: Objects, location: str, *, leaves_mark: bool = False) -> None:
    """Delete a table's directory, the marker that hides it last, or not at all.

    Were the marker to go first, a crash would bring half of the table back. Whatever is there
    after the marker is gone belongs to a new table of the same name, and stays.
    """
    level = objects.list_directory(location)
    for name in level.directories:
        objects.delete_directory(f"{location}/{name}")
    marker = f"{location}/{placement.DEREGISTERED}"
    objects.delete([item.path for item in level.objects if item.path != marker])
    if isinstance(objects, LocalObjects):
        # Left by a crash, or by a writer who writes it again when it is gone.
        objects.delete([left.path for left in objects.list_unfinished(location)])
    if not leaves_mark or not placement.is_flat(location):
        objects.delete([marker])
    objects.prune_directory(location)
