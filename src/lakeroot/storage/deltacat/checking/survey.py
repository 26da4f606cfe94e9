"""One look at a whole metastore: its files first, then its log, then the newest state."""

import time
from collections.abc import Iterator
from datetime import timedelta
from functools import cached_property

from lakeroot.metastore import View, naming
from lakeroot.metastore.entries import Entry, EntryKind, read_entry, unseal
from lakeroot.metastore.index import Index, Snapshot
from lakeroot.metastore.litter import list_files
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.records import Record
from lakeroot.model.errors import LakerootError
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import ObjectInfo, Objects


class Survey:
    """What the files hold and what the log says of them; nothing is written.

    The files are listed before the log is read: a file that a writer adds meanwhile is not seen,
    and one that seems to be missing is looked for once more.
    """

    def __init__(
        self, objects: Objects, catalog_root: str, grace: timedelta, spread: Spread = here
    ) -> None:
        self.objects = objects
        self.spread = spread
        self.grace_ms = int(grace.total_seconds() * 1000)
        self.now_ms = int(time.time() * 1000)
        self.cutoff_ms = self.now_ms - self.grace_ms
        self.running = self._level("txn/running") | self._level("txn/_running")
        self.paused = self._level("txn/paused")
        self.log_files = {
            naming.commit_number(info.path): info
            for info in objects.list(naming.COMMITS)
            if info.path.rpartition("/")[2].isdigit()
        }
        self.log = CommitLog(objects, read_only=True, catalog_root=catalog_root)
        self.files = {info.path: info for info in list_files(self.log, spread)}
        self.log.sync()
        self.state = View(self.log, Snapshot(self.index.head))

    @property
    def index(self) -> Index:
        """The index of all revisions that are kept."""
        return self.log.index

    @cached_property
    def entries(self) -> dict[int, Entry | None]:
        """Give every entry of the log that can be read; nothing for one that is damaged."""
        read: dict[int, Entry | None] = {}
        for number in sorted(self.log_files):
            content = self.objects.get(naming.commit_path(number))
            whole = content is not None and unseal(content) is not None
            read[number] = read_entry(content) if whole and content is not None else None
        return read

    @cached_property
    def contents(self) -> dict[tuple[str, int, str], bytes | None]:
        """Give the content of each revision that the log still has, and of its names."""
        return {
            (write.directory, write.number, entry.txn_id): write.content
            for entry in self.entries.values()
            if entry is not None and entry.kind is EntryKind.COMMIT
            for write in entry.writes
        }

    @cached_property
    def unpublished(self) -> dict[str, int]:
        """Give the transactions whose success log is missing, with their entries' numbers."""
        found = {}
        for number, entry in self.entries.items():
            if entry is None or entry.kind is not EntryKind.COMMIT:
                continue
            if self.index.sequences.get(entry.txn_id) != number or number < self.index.horizon:
                continue
            path = naming.success_path(self.log.layout, entry.txn_id, entry.end_time)
            if not self.objects.exists(path):
                found[entry.txn_id] = number
        return found

    def is_alive(self, directory: str) -> bool:
        """Tell whether an object and everything above it exists in the newest state."""
        parts = directory.split("/")
        above = ("/".join(parts[:end]) for end in range(1, len(parts) + 1))
        return all(self.index.object(one, self.state.snapshot) is not None for one in above)

    def alive(self, depth: int) -> Iterator[tuple[str, Record]]:
        """Give the objects of a depth that exist and can be read; namespaces have depth 1."""
        for place in sorted(self.index.objects):
            if place.count("/") == depth - 1 and self.is_alive(place):
                record = self.read(place)
                if record is not None:
                    yield place, record

    def read(self, directory: str) -> Record | None:
        """Read an object of the newest state; nothing if it cannot be read."""
        try:
            return self.state.record_at(directory)
        except LakerootError:
            return None  # told as a revision that is lost

    def _level(self, directory: str) -> dict[str, ObjectInfo]:
        found = self.objects.list_directory(directory).objects
        return {info.path.rpartition("/")[2]: info for info in found}
