"""New versions of tables: the first to put a file wins, or the catalog decides.

Where the catalog is the arbiter, versions of several tables (and other changes) are one commit.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lakeroot.catalog.catalog import Catalog
from lakeroot.catalog.each import both, each
from lakeroot.catalog.flushing import flush_manifests
from lakeroot.catalog.giving_way import give_way, taking_back
from lakeroot.catalog.known_versions import SCHEME, KnownVersions, is_staged, scheme_of
from lakeroot.catalog.staged_versions import NewVersion, Staged
from lakeroot.catalog.version_identity import DIGEST, digest_of
from lakeroot.catalog.versions import Deletion, TableVersions, require_same_table
from lakeroot.model.commits import (
    Change,
    CreateTableVersions,
    DeclareTable,
    PointTableVersions,
    Requirement,
    Unchanged,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    LakerootError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
    VersionsNotKeptError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import Table, TableVersion
from lakeroot.objects import delete_together, flush_together
from lakeroot.storage.contract import View
from lakeroot.storage.lance_dir.manifest_facts import message_in
from lakeroot.tables.versions import MAIN, StagedManifest, staged_manifest

_ATTEMPTS: Final = 10
_POINTED_TOGETHER: Final = 8
_AGAIN: Final = "Read the table again and commit the version after its newest"
_LOG: Final = logging.getLogger(__name__)


class VersionCommits:
    """Creates versions of the tables of one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._store = catalog.store
        self._versions = TableVersions(catalog)

    def create_versions(self, asked: Sequence[NewVersion], message: str = "") -> list[TableVersion]:
        """Create versions; where the catalog is their arbiter, all of them or none."""
        if self._store.is_past:
            raise UnsupportedOperationError(
                "The past cannot be changed", "this catalog is open as of an earlier time"
            )
        if not asked:
            raise InvalidInputError("There is nothing to commit", fix="Give at least one version")
        view = self._store.read()

        def with_table(one: NewVersion) -> tuple[NewVersion, Table]:
            table = view.get(one.identifier) if one.identifier else None
            return one, table if isinstance(table, Table) else self._catalog.table(one.identifier)

        def stage(pair: tuple[NewVersion, Table]) -> Staged:
            one, table = pair
            try:
                return self.stage(one, table)
            except InvalidInputError:
                # A drop takes with it what was staged.
                require_same_table(table, self._catalog.table(one.identifier))
                raise

        pairs = list(map(with_table, asked))
        managed = [pair for pair in pairs if self._versions.is_managed(pair[0].branch)]
        staged, newest = both(
            self._store,
            lambda: each(self._store, stage, pairs),
            lambda: self._newest_of_each(table for _, table in managed),
        )
        if not managed:
            return [self._put(one) for one in staged]
        if len(managed) < len(staged):
            raise InvalidInputError(
                "Versions of branches cannot be committed together with others",
                "their arbiter is the branch's own directory",
                "Commit them by themselves",
            )
        said = message or next(filter(None, (message_in(one.content) for one in staged)), "")
        try:
            return self.commit_staged(staged, message=said, looked=_Looked(view, newest))
        except VersionsNotKeptError:
            return [self._put(one) for one in staged]  # Their files are the arbiters by now.

    def stage(self, asked: NewVersion, table: Table | None = None) -> Staged:
        """Look at a new version without creating it; the table may be about to be declared."""
        table = self._catalog.table(asked.identifier) if table is None else table
        files = self._versions.files(table, asked.branch)
        manifest = staged_manifest(
            self._store.uri(table.location),
            asked.manifest_path,
            version=asked.version,
            scheme=asked.scheme,
            branch=asked.branch,
        )
        content = files.staged(manifest) or self._committed(asked, table, manifest)
        if content is None:
            raise InvalidInputError(
                f"There is no staged manifest {manifest.path}",
                fix="Write the manifest there first, then create the version",
            )
        if asked.manifest_size is not None and asked.manifest_size != len(content):
            raise InvalidInputError(
                f"The staged manifest {manifest.path} has {len(content)} bytes",
                f"it was said to have {asked.manifest_size}, so it is cut off or another one",
                "Write the manifest there again, then create the version",
            )
        return Staged(asked, table, files, manifest, content)

    def _committed(self, asked: NewVersion, table: Table, manifest: StagedManifest) -> bytes | None:
        """Read a staged manifest that is a version already, for whoever was not told so.

        The catalog's row says for a while where it was staged.
        """
        if not self._versions.is_managed(asked.branch):
            return None
        found = self._versions.known(table)
        row = found.kept.get(asked.version)
        if row is None or found.files.relative(row.manifest_path) != manifest.path:
            return None
        return found.files.content(manifest.final_path)

    def commit_staged(
        self,
        staged: Sequence[Staged],
        others: Sequence[Change] = (),
        message: str = "",
        deletions: Sequence[Deletion] = (),
        relies_on: Callable[[], Sequence[Requirement]] = tuple,
        looked: "_Looked | None" = None,
    ) -> list[TableVersion]:
        """Commit staged versions and other changes of the catalog together, all or nothing.

        What the caller relies on is looked at before each attempt, and raises what has changed; it
        must still hold in the commit. Who has just looked at the tables says what was there, and
        the first attempt does not look again. The manifests of versions that are deleted stay; they
        are for the caller to discard.
        """
        turns = self._catalog.turns
        places = list(filter(None, (self._versions.turn_at(one.table) for one in staged)))
        if len(places) == 1:
            turns.prepared(places[0], len(staged[0].content))
        try:
            created = self._commit_staged(staged, others, message, deletions, relies_on, looked)
        except TableVersionAlreadyExistsError:
            if len(places) == 1:
                turns.lost(places[0])
            raise
        turns.committed(places)
        return created

    def _commit_staged(
        self,
        staged: Sequence[Staged],
        others: Sequence[Change],
        message: str,
        deletions: Sequence[Deletion],
        relies_on: Callable[[], Sequence[Requirement]],
        looked: "_Looked | None",
    ) -> list[TableVersion]:
        now_ms = int(time.time() * 1000)
        for attempt in range(_ATTEMPTS):
            view = self._store.read() if looked is None else looked.view
            unchanged = self._unchanged(view, staged, others, deletions)
            if looked is None:
                looked = _Looked(view, self._newest_of_each(one.table for one in staged))
            changes, already = self._plan(looked, staged, others, deletions, now_ms)
            looked = None
            # A commit that was made by an earlier attempt relies on nothing any more.
            required = [*unchanged, *relies_on()] if changes else []
            flush_manifests(staged, changes)
            back = taking_back(self._store, others, deletions)
            try:
                if changes:
                    self._catalog.commit(*changes, requires=required, message=message)
            except ConcurrentModificationError:
                # Planned on what has changed since: either ours is taken now, and the next plan
                # says so, or somebody took in what we were going to take in.
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                break
        new = [one for at, one in enumerate(staged) if at not in already]
        placed = {id(one) for one in self._put_in_place(new, back)}
        return [
            already.get(at) or _created(one, now_ms, is_in_place=id(one) in placed)
            for at, one in enumerate(staged)
        ]

    def _unchanged(
        self,
        view: View,
        staged: Sequence[Staged],
        others: Sequence[Change],
        deletions: Sequence[Deletion],
    ) -> list[Unchanged]:
        """Look at the tables again: a manifest must not become a version of another table."""
        new = {change.identifier for change in others if isinstance(change, DeclareTable)}
        found: dict[Identifier, Unchanged] = {}
        for table in (*(one.table for one in staged), *(one.table for one in deletions)):
            identifier = table.identifier
            if identifier in new or identifier in found:
                continue
            now = view.get(identifier)
            if isinstance(now, Table):
                require_same_table(table, now)
            else:
                self._catalog.table(identifier)  # Says what is missing.
            found[identifier] = Unchanged(identifier, now)
        return list(found.values())

    def _plan(
        self,
        looked: "_Looked",
        staged: Sequence[Staged],
        others: Sequence[Change],
        deletions: Sequence[Deletion],
        now_ms: int,
    ) -> tuple[list[Change], dict[int, TableVersion]]:
        """Work out the changes of a commit, and which of its versions are committed already.

        New versions follow the newest there is, also if this commit deletes that one.
        """
        tables = {one.table.identifier: one for one in staged}
        changes: list[Change] = [*others, *(one.change for one in deletions if one.rows)]
        shortened = {one.table.identifier: one for one in deletions if one.rows}
        for identifier in shortened.keys() - tables:
            changes += _but_for(deletions, self._versions.staying(shortened[identifier]))
        already: dict[int, TableVersion] = {}
        latest: dict[Identifier, int] = {}
        for newest, taken_in in looked.newest:
            latest[newest.table.identifier] = newest.newest
            changes += _but_for(deletions, taken_in)
        for position, one in enumerate(staged):
            identifier, number = one.table.identifier, one.asked.version
            if number <= latest[identifier]:
                already[position] = self._already(one)
            elif number != latest[identifier] + 1:
                raise _does_not_follow(one, latest[identifier])
            else:
                latest[identifier] = number
                changes.append(CreateTableVersions(identifier, (_row(one, now_ms),)))
        return changes, already

    def _newest_of_each(self, tables: Iterable[Table]) -> list[tuple[KnownVersions, list[Change]]]:
        once = {table.identifier: table for table in tables}
        return each(self._store, self._newest, list(once.values()))

    def _newest(self, table: Table) -> tuple[KnownVersions, list[Change]]:
        """Look at a table's versions, and say what the same commit should put right with them.

        Versions that were put there directly are taken in; otherwise the rows of the versions
        before are pointed to their files.
        """
        found = self._versions.known(table)
        changes = self._versions.taken_in(found)
        if not changes and found.kept:
            if not found.is_newest_in_place:
                found.version(found.newest)  # Its writer did not finish it.
            changes = self._pointed(found)
        return found, changes

    def _pointed(self, found: KnownVersions) -> list[Change]:
        """Say in the same commit that versions before are in their places, several at a time.

        Replacing a row costs more than adding one, and readers look for the file anyway; rows
        that are replaced together go together.
        """
        if found.newest % _POINTED_TOGETHER:
            return []
        pointed = []
        # Twice as far: the last time may have been passed over for versions that were taken in.
        for number in range(found.newest, found.newest - 2 * _POINTED_TOGETHER, -1):
            row = found.kept.get(number)
            if row is None or not is_staged(row):
                continue
            whole = found.version(number)
            if whole is not None and whole.manifest_path != row.manifest_path:
                pointed.append(replace(whole, metadata=_with_scheme(row.metadata, whole)))
        pointed.reverse()  # Whoever keeps the newest in mind replaces it once, not every time.
        return [PointTableVersions(found.table.identifier, tuple(pointed))] if pointed else []

    def _already(self, one: Staged) -> TableVersion:
        """Recognise a version that is committed already as this very one, or refuse it."""
        found = self._versions.known(one.table).version(one.asked.version)
        taken = None if found is None else one.files.relative(found.manifest_path)
        if found is None or taken is None or not one.files.holds(taken, one.content):
            raise _is_taken(one)
        one.files.discard([one.manifest.path])
        return found

    def _put_in_place(self, new: Sequence[Staged], back: Sequence[Change]) -> list[Staged]:
        """Put committed versions into their places; give those that are there."""
        placed: list[Staged] = []
        left: list[Staged] = []

        def put(one: Staged) -> None:
            if one.files.finalise(one.manifest, one.content, flush=False):
                left.append(one)
            placed.append(one)

        try:
            each(self._store, put, new)
            delete_together(one.files.object(one.manifest.path) for one in left)
        except TableVersionAlreadyExistsError:
            give_way(self._catalog, new, placed, back)
            raise
        except LakerootError as error:
            # The versions are committed; any reader will finish what could not be finished here.
            _LOG.warning("A version is committed, but not all its files are in place: %s", error)
        return placed

    def _put(self, one: Staged) -> TableVersion:
        """Create a version whose arbiter is its file."""
        number, files = one.asked.version, one.files
        taken = _path_if_there(one)
        # Also what is there: whoever put it there may have died before it was on the disk.
        flush_together([files.object(taken or one.manifest.path)])
        if taken is None:
            _require_next(one)
            files.finalise(one.manifest, one.content)
            files.note_newest(number)
        files.discard([one.manifest.path])
        found = files.describe(number, taken or one.manifest.final_path)
        if found is None:
            raise InvalidTableStateError(f"Version {number} was removed as it was created")
        return replace(found, metadata=dict(one.asked.metadata))


class _Looked(Struct, frozen=True):
    """What a commit of versions is planned on: the tables, and the newest versions of each."""

    view: View
    newest: list[tuple[KnownVersions, list[Change]]]


def _but_for(deletions: Sequence[Deletion], changes: Sequence[Change]) -> Iterator[Change]:
    """Leave out of what is put right with versions those that are deleted in the same commit."""
    gone = {
        (one.table.identifier, number)
        for one in deletions
        for number in (*one.numbers, *(row.version for row in one.rows))
    }
    for change in changes:
        if isinstance(change, CreateTableVersions | PointTableVersions):
            left = tuple(v for v in change.versions if (change.identifier, v.version) not in gone)
            if left:
                yield replace(change, versions=left)
        else:
            yield change


def require_possible(staged: Sequence[Staged]) -> None:
    """Refuse versions whose arbiters are files before anything else of a batch happens."""
    begun: set[tuple[Identifier, str | None]] = set()
    for one in staged:
        place = one.table.identifier, one.asked.branch
        if place not in begun and _path_if_there(one) is None:
            _require_next(one)
        begun.add(place)


def _path_if_there(one: Staged) -> str | None:
    """Find the file of a version that is there already; refuse it if that is another one."""
    taken = one.files.path_of(one.asked.version)
    if taken is not None and not one.files.holds(taken, one.content):
        raise _is_taken(one)
    return taken


def _require_next(one: Staged) -> None:
    """Refuse a version that does not follow the newest: nobody would look for it."""
    if one.files.is_newest(one.asked.version - 1):
        return
    newest = max(one.files.numbers(), default=0)
    # A branch begins at the version it branched off.
    begins = newest == 0 and one.asked.branch not in (None, MAIN)
    if one.asked.version != newest + 1 and not begins:
        raise _does_not_follow(one, newest)


def _is_taken(one: Staged) -> TableVersionAlreadyExistsError:
    return TableVersionAlreadyExistsError(
        f"{show(one.table.identifier)} already has a version {one.asked.version}",
        "another writer committed it first",
        _AGAIN,
    )


def _does_not_follow(one: Staged, newest: int) -> TableVersionAlreadyExistsError:
    return TableVersionAlreadyExistsError(
        f"{show(one.table.identifier)} is at version {newest}",
        f"version {one.asked.version} does not follow it",
        _AGAIN,
    )


def _row(one: Staged, now_ms: int) -> TableVersion:
    return TableVersion(
        version=one.asked.version,
        manifest_path=one.files.address(one.manifest.path),
        manifest_size=len(one.content),
        timestamp_ms=now_ms,
        metadata={
            **one.asked.metadata,
            SCHEME: str(one.asked.scheme),
            DIGEST: digest_of(one.content),
        },
    )


def _with_scheme(metadata: Mapping[str, str], found: TableVersion) -> dict[str, str]:
    """Say how the file of a version is named: it may have another name than it was staged for."""
    return {**metadata, SCHEME: str(scheme_of(found))}


def _created(one: Staged, now_ms: int, *, is_in_place: bool) -> TableVersion:
    path = one.manifest.final_path if is_in_place else one.manifest.path
    return TableVersion(
        version=one.asked.version,
        manifest_path=one.files.address(path),
        manifest_size=len(one.content),
        timestamp_ms=now_ms,
        metadata=dict(one.asked.metadata),
    )
