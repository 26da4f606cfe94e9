"""V2: the ``__manifest`` table, read from memory and written by compare-and-swap.

Every read first asks whether there is a newer version (one probe for the next version's file, one
that ours is still there), then answers from memory. Every write makes the next version's file
appear with one put-if-absent; whoever comes second looks again and repeats.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from lakeroot.model.errors import (
    InvalidTableStateError,
    LakerootError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.model.records import Record
from lakeroot.objects import LocalObjects, Objects
from lakeroot.storage.lance_dir import compaction, versions
from lakeroot.storage.lance_dir.drafts import Draft, Plan, only_changes, plan_of
from lakeroot.storage.lance_dir.index import Entry, Index
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.restarts import metadata_after
from lakeroot.storage.lance_dir.rows import NAMESPACE, RowFiles, arrow_table, record_of
from lakeroot.storage.lance_dir.state import State, advance, children, find, load
from lakeroot.storage.lance_dir.version_file import (
    FIRST,
    Fragment,
    VersionFile,
    decode,
    encode,
    successor,
)
from lakeroot.storage.lance_dir.whole_table import WholeTable

READER_FEATURES: Final = "lance.namespace.manifest.reader_feature_flags"
WRITER_FEATURES: Final = "lance.namespace.manifest.writer_feature_flags"
_LOOKUPS_BEFORE_LOADING: Final = 2
_LONGEST_STAGING: Final = 20 * 60
"""Seconds after which files that wait for their version might be taken for a crashed writer's."""


class ManifestTable:
    """The newest version of the table, kept in memory."""

    def __init__(self, objects: Objects, whole_table: WholeTable) -> None:
        self.lock = threading.RLock()
        self.files = RowFiles(objects)
        self.whole_table = whole_table
        self.seen = 0
        """Up to which version this client knows that nothing was lost."""
        self._objects = objects
        self._head = FIRST
        self._state: State | None = None
        self._lookups = 0
        self._was_compacted = False
        self._pool = None if isinstance(objects, LocalObjects) else ThreadPoolExecutor(16)

    @property
    def head(self) -> VersionFile:
        """Give the newest version that is known."""
        return self._head

    @property
    def index(self) -> Index:
        """Give the rows of the newest known version."""
        with self.lock:
            if self._state is None:
                self._state = load(self._head, self.files, self.whole_table)
            return self._state.index

    def get(self, identifier: Identifier) -> Record | None:
        """Look one object up in the newest known version."""
        state = self._state
        if state is None:
            with self.lock:
                if self._is_too_early_to_load():
                    return self._find(identifier)
                return self.index.get(identifier)
        return state.index.get(identifier)

    def children(self, parent: Identifier, object_type: str) -> list[str]:
        """List the names of the child namespaces or tables, sorted."""
        with self.lock:
            if self._state is None and self._is_too_early_to_load():
                return children(self._head, self.files, parent, object_type)
            listings = self.index.listings
            found = listings.namespaces if object_type == NAMESPACE else listings.tables
            return found.get(parent, [])

    def _is_too_early_to_load(self) -> bool:
        """Tell whether only a question or two were asked: loading every row would not pay yet."""
        if self._state is not None or not self._head.editable:
            return False
        self._lookups += 1
        return self._lookups <= _LOOKUPS_BEFORE_LOADING

    def _find(self, identifier: Identifier) -> Record | None:
        if any(DELIMITER in name for name in identifier):
            return None
        row = find(self._head, self.files, identifier)
        return None if row is None else record_of(row)

    def refresh(self) -> None:
        """Move to the newest version there is."""
        if self._pool is None and self._is_still(self._head):
            return  # Most often, and without making other readers wait for our look at the disk.
        with self.lock:
            if self._head.version and self._is_newest():
                return
            newest = versions.latest(self._objects)
            if not newest:
                # There is no catalog, or none any more.
                self._head, self._state = FIRST, None
            elif newest != self._head.version:
                self.move_to(self.read_version(newest))

    def _is_newest(self) -> bool:
        if self._pool is None:
            return self._is_still(self._head)
        ours = versions.path_of(self._head.version)
        still_there = self._pool.submit(self._objects.exists, ours)
        content = self._objects.get(versions.path_of(self._head.version + 1))
        while content is not None:
            # Most often exactly one version follows; reading it at once saves asking again.
            self.move_to(self._decoded(self._head.version + 1, content))
            content = self._objects.get(versions.path_of(self._head.version + 1))
        return still_there.result()

    def _is_still(self, head: VersionFile) -> bool:
        """Tell whether a version is the newest in a local directory."""
        exists, version = self._objects.exists, head.version
        if not version or exists(versions.path_of(version + 1)):
            return False
        return exists(versions.path_of(version))

    def move_to(self, target: VersionFile) -> None:
        """Take another version for the newest."""
        if self._state is not None:
            try:
                advance(self._state, target, self.files, self.whole_table)
            except BaseException:
                self._state = None
                raise
        self._head = target

    def take_was_compacted(self) -> bool:
        """Tell, once, that a commit of ours rewrote the bulk of a large catalog."""
        if not self._was_compacted:
            return False
        with self.lock:
            was_compacted, self._was_compacted = self._was_compacted, False
            return was_compacted

    def read_version(self, version: int) -> VersionFile:
        """Read the file of a version."""
        content = self._objects.get(versions.path_of(version))
        if content is None:
            raise InvalidTableStateError(
                f"Version {version} of the catalog is not there",
                f"its file {versions.path_of(version)} is missing",
            )
        return self._decoded(version, content)

    def _decoded(self, version: int, content: bytes) -> VersionFile:
        try:
            found = decode(content)
        except MalformedError as error:
            raise InvalidTableStateError(
                f"Version {version} of the catalog cannot be read",
                f"its file {versions.path_of(version)} is damaged: {error}",
                "Run `lakeroot fsck` to see what is whole",
            ) from error
        _require_known_features(found, READER_FEATURES, "read")
        return found

    def publish(
        self,
        draft: Draft,
        alongside: Sequence[Callable[[], None]] = (),
        *,
        after: VersionFile | None = None,
    ) -> VersionFile | None:
        """Commit the version after the one a draft was made for; give it, if it is ours.

        What must be written before the version may be seen is done ``alongside`` the data files.
        Files are written with the lock open: others can read meanwhile, and plan their own.
        """
        with self.lock:
            before = self._head
            if after is not None and after is not before:
                return None
            _require_known_features(before, WRITER_FEATURES, "change")
            draft = only_changes(draft, self.index)
            plan = plan_of(draft, self._require_state()) if before.editable else None
        if plan is None:
            return self._rewrite(before, draft, alongside)
        started = time.time()
        step = self._staged(before, draft, plan, alongside)
        path = versions.path_of(step.target.version)
        is_late = time.time() - started > _LONGEST_STAGING
        if is_late or not self._is_put(path, encode(step.target)):
            self._objects.delete(step.written)
            return None
        if self._pool is None and before.version and not self._is_behind(before):
            self._objects.delete([path, *step.written])
            return None
        with self.lock:
            if self._head is before:
                self._install(step)
        with contextlib.suppress(LakerootError):  # The commit is made; this is only a hint.
            versions.write_hint(self._objects, step.target.version)
        return step.target

    def _is_behind(self, before: VersionFile) -> bool:
        """Tell whether the version that ours follows is still there.

        If somebody cleaned old versions up, ours may lie behind the newest, where no reader looks:
        it has to be taken back, and the newest looked for.
        """
        if self._objects.exists(versions.path_of(before.version)):
            return True
        with self.lock:
            self._head, self._state = FIRST, None
        return False

    def _is_put(self, path: str, content: bytes) -> bool:
        """Put a version file; recognise our own when the reply to putting it was lost."""
        try:
            if self._objects.put_if_absent(path, content):
                return True
        except LakerootError:
            if self._objects.get(path) != content:
                raise
            return True
        return self._objects.get(path) == content

    def _staged(
        self,
        before: VersionFile,
        draft: Draft,
        plan: Plan,
        alongside: Sequence[Callable[[], None]],
    ) -> "_Step":
        others: list[Future[None]] = []
        for effect in alongside:
            if self._pool is None:
                effect()
            else:
                others.append(self._pool.submit(effect))
        try:
            fragments, written = self._write_files(before, plan)
        finally:
            # Also after a failure: what they did is about to be taken back.
            wait(others)
        for other in others:
            other.result()
        return _Step(_successor(before, draft, fragments, self.seen), plan, written)

    def _write_files(self, before: VersionFile, plan: Plan) -> tuple[list[Fragment], list[str]]:
        """Write the data and deletion files of a plan; give its fragments and what was written."""
        written: list[str] = []
        fragments = []
        for fragment in plan.kept:
            offsets = plan.newly_deleted.get(fragment.path)
            if offsets is not None:
                deletion = self.files.write_deletion(fragment.id, before.version, offsets)
                written.append(f"{versions.TABLE}/{deletion.path(fragment.id)}")
                fragment = replace(fragment, deletion=deletion)
            fragments.append(fragment)
        if plan.rows:
            added = replace(self.files.write(plan.rows), id=before.max_fragment_id + 1)
            written.append(f"{versions.TABLE}/data/{added.path}")
            fragments.append(added)
        return fragments, written

    def _install(self, step: "_Step") -> None:
        """Bring the rows in memory to the version that was just committed."""
        state = self._require_state()
        index = state.index
        for identifier, path, offset in step.plan.removed:
            index.discard(identifier, path, offset)
        for path, offsets in step.plan.newly_deleted.items():
            state.deleted[path] = offsets
        kept = {fragment.path for fragment in step.target.fragments}
        if compaction.rewrote_the_largest(state.version_file.fragments, kept):
            self._was_compacted = True
        new = step.target.fragments[-1].path if step.target.fragments else ""
        for offset, row in enumerate(step.plan.rows):
            index.put_or_move(Entry(row, new, offset))
        for fragment in state.version_file.fragments:
            if fragment.path not in kept:
                for offset, member in enumerate(index.members(fragment.path)):
                    entry = None if member is None else index.entry(member)
                    if entry is not None and (entry.path != new or member in index.repeated):
                        index.discard(entry.row.identifier, fragment.path, offset)
                index.forget(fragment.path)
                state.deleted.pop(fragment.path, None)
        state.version_file = self._head = step.target

    def _rewrite(
        self, before: VersionFile, draft: Draft, alongside: Sequence[Callable[[], None]]
    ) -> VersionFile | None:
        if draft.table_metadata is not None:
            raise UnsupportedOperationError(
                "The properties of the root cannot be changed here",
                "this `__manifest` table was made by a newer version of Lance",
            )
        for effect in alongside:
            effect()
        removed = {DELIMITER.join(identifier) for identifier in draft.rows}
        added = arrow_table(row for row in draft.rows.values() if row is not None)
        if not self.whole_table.rewrite(before.version, removed, added):
            return None
        return self.read_version(before.version + 1)

    def _require_state(self) -> State:
        if self._state is None:
            self._state = load(self._head, self.files, self.whole_table)
        return self._state


class _Step(Struct, frozen=True):
    """A version that is ready to be published."""

    target: VersionFile
    plan: Plan
    written: list[str]


def _successor(
    before: VersionFile, draft: Draft, fragments: list[Fragment], seen: int
) -> VersionFile:
    # Strictly increasing, so that "as of this time" names one version whatever the clocks do.
    now_ms = max(int(time.time() * 1000), before.timestamp_ms + 1)
    if draft.table_metadata is not None:
        before = replace(before, table_metadata=draft.table_metadata)
    target = successor(
        before,
        tuple(fragments),
        timestamp_ms=now_ms,
        uuid=str(uuid4()),
        message=draft.message,
        author=draft.author,
        dropped=draft.dropped,
    )
    return replace(target, table_metadata=metadata_after(before, seen))


def _require_known_features(version_file: VersionFile, key: str, doing: str) -> None:
    flags = version_file.table_metadata.get(key, "0")
    if flags.strip() not in ("", "0"):
        raise UnsupportedOperationError(
            f"This version of Lakeroot cannot {doing} this catalog",
            f"it uses features that are newer ({key} = {flags})",
            "Upgrade Lakeroot",
        )
