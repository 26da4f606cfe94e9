"""One version of the ``__manifest`` table in memory, and how it becomes the next one."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from lakeroot.model.errors import InvalidTableStateError
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.rows import MissingFileError, Row, RowFiles, rows_of, undamaged
from lakeroot.storage.lance_dir.version_file import FIRST, Fragment, VersionFile
from lakeroot.storage.lance_dir.whole_table import WholeTable

REWRITTEN_ELSEWHERE = ""
"""The file of rows whose position is unknown: the version was made in a way we do not edit."""


class State(Struct):
    """A version, its rows, and the rows its files hold no more."""

    version_file: VersionFile = FIRST
    index: Index = field(default_factory=Index)
    deleted: dict[str, set[int]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """Give the number of the version."""
        return self.version_file.version


class Touched(Struct, frozen=True):
    """The rows that a step from one version to the next took away or added, by identifier."""

    before: dict[Identifier, Row]
    after: dict[Identifier, Row]


def load(version_file: VersionFile, files: RowFiles, whole_table: WholeTable) -> State:
    """Read a version from nothing."""
    state = State()
    advance(state, version_file, files, whole_table)
    return state


def advance(state: State, target: VersionFile, files: RowFiles, whole_table: WholeTable) -> Touched:
    """Bring a state to another version, reading only what differs."""
    if not target.editable or not state.version_file.editable:
        return _replace_all(state, target, _read_all(target, files, whole_table))
    before = {fragment.path: fragment for fragment in state.version_file.fragments}
    after = {fragment.path: fragment for fragment in target.fragments}
    try:
        added = [
            (fragment, files.rows(fragment), files.read_deletion(fragment))
            for path, fragment in after.items()
            if path not in before
        ]
        deleted = {
            path: files.read_deletion(fragment)
            for path, fragment in after.items()
            if path in before and fragment.deletion != before[path].deletion
        }
    except MissingFileError as error:
        raise _unreadable(target, str(error)) from error
    touched = Touched({}, {})
    for path in before.keys() - after.keys():
        _take_away(state.index, path, range(len(state.index.members(path))), touched)
        state.index.forget(path)
        state.deleted.pop(path, None)
    for path, offsets in deleted.items():
        _take_away(state.index, path, offsets - state.deleted.get(path, set()), touched)
        state.deleted[path] = offsets
    for fragment, rows, offsets in added:
        _put_file(state, fragment.path, rows, offsets)
        touched.after.update(state.index.rows_of_file(fragment.path))
    state.version_file = target
    return touched


def _put_file(state: State, path: str, rows: Iterable[Row], deleted: set[int]) -> None:
    state.index.put_file(path, rows, deleted)
    if deleted:
        state.deleted[path] = deleted


def _take_away(index: Index, path: str, offsets: Iterable[int], touched: Touched) -> None:
    members = index.members(path)
    for offset in offsets:
        identifier = members[offset] if offset < len(members) else None
        if identifier is None:
            continue
        entry = index.entry(identifier)
        if entry is not None:
            touched.before[identifier] = entry.row
        index.discard(identifier, path, offset)


def _replace_all(state: State, target: VersionFile, rows: Iterable[Row]) -> Touched:
    before = {entry.row.identifier: entry.row for entry in state.index.entries()}
    state.index = Index()
    state.deleted = {}
    _put_file(state, REWRITTEN_ELSEWHERE, rows, set())
    state.version_file = target
    return Touched(before, {entry.row.identifier: entry.row for entry in state.index.entries()})


def _read_all(target: VersionFile, files: RowFiles, whole_table: WholeTable) -> Iterable[Row]:
    if not target.editable:
        with undamaged(f"of version {target.version}, or one that it names,"):
            return list(rows_of(whole_table.read(target.version)))
    rows: list[Row] = []
    for fragment in target.fragments:
        deleted = files.read_deletion(fragment)
        found = enumerate(files.rows(fragment))
        rows += (row for offset, row in found if offset not in deleted)
    return rows


def find(version_file: VersionFile, files: RowFiles, identifier: Identifier) -> Row | None:
    """Look one row up without reading the rest: for a catalog that was opened just now."""
    object_id = DELIMITER.join(identifier)
    try:
        found = (
            _find_in(fragment, files, object_id) for fragment in reversed(version_file.fragments)
        )
        return next((row for row in found if row is not None), None)
    except MissingFileError as error:
        raise _unreadable(version_file, str(error)) from error


def _find_in(fragment: Fragment, files: RowFiles, object_id: str) -> Row | None:
    few = files.few_rows(fragment, object_id)
    if few is not None:
        places = [offset for offset, row in enumerate(few) if row.object_id == object_id]
        deleted = files.read_deletion(fragment) if places else set()
        return next((few[place] for place in places if place not in deleted), None)
    import pyarrow.compute as pc

    column = files.read(fragment, ["object_id"]).column("object_id")
    offset = pc.index(column, object_id).as_py()
    if offset >= 0 and fragment.deletion is not None:
        offset = _next_live(column, object_id, files.read_deletion(fragment))
    return files.read_row(fragment, offset) if offset >= 0 else None


def children(
    version_file: VersionFile, files: RowFiles, parent: Identifier, object_type: str
) -> list[str]:
    """List the names of the children of one kind, sorted, without reading the other columns."""
    prefix = "".join(name + DELIMITER for name in parent)
    try:
        found = {
            object_id[len(prefix) :]
            for fragment in version_file.fragments
            for object_id in _beginning_with(prefix, fragment, files, object_type)
        }
    except MissingFileError as error:
        raise _unreadable(version_file, str(error)) from error
    return sorted(name for name in found if DELIMITER not in name)


def _beginning_with(
    prefix: str, fragment: Fragment, files: RowFiles, object_type: str
) -> Iterator[str]:
    deleted = files.read_deletion(fragment)
    few = files.few_rows(fragment)
    if few is not None:
        for offset, row in enumerate(few):
            is_there = row.object_type == object_type and row.object_id.startswith(prefix)
            if is_there and offset not in deleted:
                yield row.object_id
        return
    import pyarrow.compute as pc

    table = files.read(fragment, ["object_id", "object_type"])
    column = table.column("object_id")
    wanted = pc.equal(table.column("object_type"), object_type)
    if prefix:
        wanted = pc.and_(wanted, pc.starts_with(column, prefix))
    else:
        wanted = pc.and_not(wanted, pc.match_substring(column, DELIMITER))
    for offset in pc.indices_nonzero(wanted).to_pylist():
        if offset not in deleted:
            yield column[offset].as_py()


def _next_live(column: Any, object_id: str, deleted: set[int]) -> int:
    import pyarrow.compute as pc

    offsets = pc.indices_nonzero(pc.equal(column, object_id)).to_pylist()
    return next((offset for offset in offsets if offset not in deleted), -1)


def _unreadable(version_file: VersionFile, path: str) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"Version {version_file.version} of the catalog cannot be read",
        f"the file {path} of its `__manifest` table is missing",
        "If it is an old version, it lies before what was kept by the last clean-up; "
        "if it is the newest, run `lakeroot fsck`",
    )
