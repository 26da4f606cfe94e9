"""The commit log: a dense sequence of entries, each decided by one put-if-absent.

Files of a commit are published after it is decided, so nothing uncommitted is ever on disk. Whoever
decides an entry first makes sure that the one before it is published; so at most the newest entry
can be unfinished, whoever died, and any writer, `vacuum` or repairing reader can finish it.
"""

import threading
from collections.abc import Iterable
from typing import Final

from lakeroot.metastore import checkpoints, foreign, imports, naming, records, recovery
from lakeroot.metastore.contents import Contents, Written
from lakeroot.metastore.entries import VOID, Entry, EntryKind, read_entry, write_entry
from lakeroot.metastore.index import Index, Revision
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.txnlogs import write_log
from lakeroot.model.errors import InvalidInputError, ServiceUnavailableError
from lakeroot.objects import Objects

CHECKPOINT_EVERY: Final = 256
_DECISION_ATTEMPTS: Final = 4


class CommitLog:
    """The log of one catalog, the index that follows from it, and the contents read so far."""

    def __init__(
        self,
        objects: Objects,
        *,
        layout: Layout | None = None,
        read_only: bool = False,
        catalog_root: str = "",
    ) -> None:
        self.objects = objects
        self.read_only = read_only
        self.catalog_root = catalog_root
        self._wanted = layout
        self.contents = Contents(objects, read_only=read_only)
        self._lock = threading.RLock()
        self.index = Index()
        self._unborn: Entry | None = None
        self._newest: Entry | None = None
        self._has_virtual = self._is_rebuilt = self._has_damage = False
        self._real_head = 0
        self._checkpoint = 0
        self._published = 0
        self._foreign = foreign.Watch()
        self._load()

    @property
    def layout(self) -> Layout:
        """The layout of the catalog."""
        return self.index.layout

    def sync(self) -> Index:
        """Bring the index up to the newest commit."""
        with self._lock:
            if self._unborn is not None or self._has_virtual:
                self._sync_without_log()
            else:
                self._catch_up()
            if self._has_damage and self._unborn is None:
                self._recover()
            if self.layout is Layout.DELTACAT_2:
                self._adopt(self._foreign.discover(self.objects, self.index))
            return self.index

    @property
    def has_strangers(self) -> bool:
        """Whether another implementation writes to the catalog too, or did."""
        return self._foreign.has_strangers

    def look_wide(self) -> None:
        """Look far and wide for other writers at the next `sync`."""
        self._foreign.widen()

    def decide(self, entry: Entry, after: int | None = None) -> bool:
        """Try to make an entry the next one of the log. False: another writer was faster.

        ``after`` is the commit up to which the caller has looked for conflicts: the entry is to
        follow that one and no other, also if another thread has moved the index on meanwhile.
        """
        with self._lock:
            self._be_born()
            if after is not None and self.index.head != after:
                return False
            self.publish_head()
            sequence = self.index.head + 1
            if not self._put(sequence, write_entry(entry)):
                self._catch_up()
                return False
            self._take(sequence, entry)
            return True

    def publish_head(self) -> None:
        """Finish the newest entry if whoever decided it has not."""
        with self._lock:
            entry, sequence = self._newest, self.index.head
            if entry is None or sequence <= self._published or self.read_only:
                return
            if entry.kind is EntryKind.COMMIT:
                path = naming.success_path(self.layout, entry.txn_id, entry.end_time)
                if not self.objects.exists(path):
                    self.publish(entry)
            self._published = sequence

    def publish(self, entry: Entry) -> None:
        """Write the files of a decided commit; the success log, which shows them, comes last."""
        for write in entry.writes:
            place = write.path_in(self.layout, entry.txn_id)
            self.objects.put(place, write.content or b"", is_named_later=True)
        path = naming.success_path(self.layout, entry.txn_id, entry.end_time)
        self.objects.put(path, write_log(entry, self.layout, self.catalog_root))

    def finish(self, entry: Entry) -> None:
        """Publish one's own commit, and now and then write a checkpoint."""
        with self._lock:
            sequence = self.index.sequences.get(entry.txn_id)
            if sequence != self.index.head:
                return  # a later writer has already published it
            self.publish(entry)
            self._published = max(self._published, sequence)
            if sequence - self._checkpoint >= max(CHECKPOINT_EVERY, len(self.index.marks) // 16):
                self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint of the present index."""
        with self._lock:
            self.publish_head()  # a checkpoint says that everything before it is in its files
            checkpoints.write_checkpoint(self.objects, self.index)
            self._checkpoint = self.index.head

    def record(self, directory: str, revision: Revision) -> records.Record:
        """Read a revision of an object. Contents never change, so they are read once."""
        return self.contents.record(self.written(directory, revision))

    def written(self, directory: str, revision: Revision) -> Written:
        """Say of a revision of an object where it is written."""
        return Written(directory, revision, self.path_of(directory, revision))

    def path_of(self, directory: str, revision: Revision) -> str:
        """Give the path of the file of a revision."""
        return revision.path or naming.revision_path(
            self.layout,
            directory,
            revision.number,
            revision.operation,
            revision.txn_id,
            revision.target,
        )

    def entry(self, sequence: int) -> Entry | None:
        """Read an entry again."""
        return self.contents.entry(sequence)

    def _load(self, *, from_files: bool = False) -> None:
        index = None if from_files else checkpoints.read_checkpoint(self.objects)
        self._unborn = None
        self._has_virtual = False
        self._is_rebuilt = from_files
        self._newest = None
        self._foreign = foreign.Watch()
        if index is not None:
            self.index = index
            self._checkpoint = self._published = index.head
            self._let_go()
        else:
            self._begin()
        if self._unborn is None:
            self._catch_up()
            self._has_damage = self._has_damage or recovery.has_gap(self.objects, self.index.head)
        self._check_layout()

    def _begin(self) -> None:
        self.index = Index()
        sequence, first = self._first_entry()
        if first is not None and first.kind is not EntryKind.GENESIS:
            # The first entry is damaged; the one found follows it.
            self._is_rebuilt, sequence = True, sequence - 1
        if first is None or self._is_rebuilt:
            # Without a log, or without the checkpoint that a shortened log needs, the files tell.
            found = imports.genesis(self.objects, self._wanted)
            self._unborn = found if first is None else None
            first = found
        self.index.apply(sequence, first)
        self._checkpoint = self._published = sequence

    def _first_entry(self) -> tuple[int, Entry | None]:
        sequence = 0
        while (data := self.objects.get(naming.commit_path(sequence))) is not None:
            entry = read_entry(data)
            if entry.kind is not EntryKind.VOID:
                return sequence, entry
            sequence += 1
        return sequence, None

    def _check_layout(self) -> None:
        if self._wanted is not None and self._wanted is not self.layout:
            raise InvalidInputError(
                f"This catalog has the layout {self.layout.value!r}, not {self._wanted.value!r}",
                fix="Open it without naming a layout",
            )

    def _catch_up(self) -> None:
        while True:
            sequence = self.index.head + 1
            data = self.objects.get(naming.commit_path(sequence))
            if data is None:
                return
            entry = read_entry(data)
            if entry.kind is EntryKind.SLIM and not self._is_rebuilt:
                # The log has been shortened behind us; a checkpoint has its effects.
                found = checkpoints.read_checkpoint(self.objects)
                self._load(from_files=found is None or found.head < sequence)
                return
            self._take(sequence, entry)

    def _take(self, sequence: int, entry: Entry) -> None:
        self._has_damage = self._has_damage or entry.kind is EntryKind.VOID
        self.index.apply(sequence, entry)
        self._newest = entry
        if entry.kind is EntryKind.EXPIRE:
            self._let_go()

    def _let_go(self) -> None:
        # Nobody may ever ask again for the contents of what is forgotten.
        if len(self.contents):
            chains = self.index.objects.copy().items()
            self.contents.keep_only({self.path_of(place, chain[-1]) for place, chain in chains})

    def _sync_without_log(self) -> None:
        following = self.index.head if self._unborn is not None else self._real_head + 1
        if self.objects.exists(naming.commit_path(following)):
            self._load()

    def _be_born(self) -> None:
        if self._unborn is None:
            return
        while not self._put(self._first_entry()[0], write_entry(self._unborn)):
            if self._first_entry()[1] is not None:
                break
        wanted, self._wanted = self._wanted, None
        self._load()
        self._wanted = wanted
        self._check_layout()

    def _recover(self) -> None:
        self._has_damage = False
        self._adopt(recovery.lost_commits(self.objects, self.index))
        if not self.read_only and recovery.has_gap(self.objects, self.index.head):
            self.decide(VOID)  # whatever it was, nobody has published it

    def _adopt(self, entries: Iterable[Entry]) -> None:
        for found in entries:
            if self.read_only or self._unborn is not None:
                self._take_virtually(found)
                continue
            while found.txn_id not in self.index.sequences:
                if self.decide(found):
                    break

    def _take_virtually(self, entry: Entry) -> None:
        # Nothing may be written here: the entry gets a number in this process only, and the index
        # is read anew as soon as the real log moves on.
        if not self._has_virtual:
            self._real_head = self.index.head
            self._has_virtual = True
        self.index.apply(self.index.head + 1, entry)

    def _put(self, sequence: int, data: bytes) -> bool:
        path = naming.commit_path(sequence)
        for attempt in range(_DECISION_ATTEMPTS):
            try:
                won = self.objects.put_if_absent(path, data)
            except ServiceUnavailableError:
                if attempt == _DECISION_ATTEMPTS - 1:
                    raise
                won = False
            if won:
                return True
            # The reply of an attempt that succeeded may have been lost: the bytes tell.
            found = self.objects.get(path)
            if found is not None:
                return found == data
        return False
