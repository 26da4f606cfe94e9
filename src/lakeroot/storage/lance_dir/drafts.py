"""What the next version of ``__manifest`` shall hold, and which files that takes."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from lakeroot.model.identifiers import Identifier
from lakeroot.storage.lance_dir import compaction
from lakeroot.storage.lance_dir.index import Entry, Index
from lakeroot.storage.lance_dir.rows import Row
from lakeroot.storage.lance_dir.state import State
from lakeroot.storage.lance_dir.version_file import Fragment


class Draft(Struct, frozen=True):
    """The rows and the table metadata that the next version shall have instead."""

    rows: Mapping[Identifier, Row | None]
    table_metadata: Mapping[str, str] | None = None
    message: str = ""
    author: str = ""
    dropped: tuple[str, ...] = ()
    """The locations of the tables that are dropped; their directories are deleted afterwards."""
    fold: bool = False
    """Whether every row goes into one new data file."""


class Plan(Struct, frozen=True):
    """Which rows go, which files stay, and what the new file holds."""

    removed: list[tuple[Identifier, str, int]]
    kept: list[Fragment]
    newly_deleted: dict[str, set[int]]
    rows: list[Row]


def only_changes(draft: Draft, index: Index) -> Draft:
    """Leave out the rows that are there already, just so and only once."""
    rows = {
        identifier: row
        for identifier, row in draft.rows.items()
        if identifier in index.repeated or not _is_same(index.entry(identifier), row)
    }
    return replace(draft, rows=rows)


def plan_of(draft: Draft, state: State) -> Plan:
    """Work out how a draft is written over the rows there are, and what is worth folding."""
    removed = [
        (identifier, entry.path, entry.offset)
        for identifier in draft.rows
        for entry in state.index.positions(identifier)
    ]
    deleted: dict[str, set[int]] = {}
    for _, path, offset in removed:
        deleted.setdefault(path, set(state.deleted.get(path, ()))).add(offset)
    rows = [row for row in draft.rows.values() if row is not None]
    fragments = list(state.version_file.fragments)
    incoming = [Fragment(-1, "", 0, len(rows))] if rows else []
    folded = (
        {fragment.path for fragment in fragments}
        if draft.fold
        else compaction.worth_rewriting([*fragments, *incoming], {**state.deleted, **deleted})
    )
    going = set(draft.rows)
    for fragment in fragments:
        if fragment.path in folded:
            members = (found for found in state.index.members(fragment.path) if found is not None)
            entries = (state.index.entry(found) for found in members if found not in going)
            rows.extend(e.row for e in entries if e is not None and e.path == fragment.path)
    kept = [
        fragment
        for fragment in fragments
        if fragment.path not in folded
        and len(deleted.get(fragment.path, state.deleted.get(fragment.path, ()))) < fragment.rows
    ]
    kept_paths = {fragment.path for fragment in kept}
    return Plan(removed, kept, {p: o for p, o in deleted.items() if p in kept_paths}, rows)


def _is_same(entry: Entry | None, row: Row | None) -> bool:
    return row is None if entry is None else entry.row == row
