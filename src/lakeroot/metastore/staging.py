"""The changes of a transaction before it commits: an overlay on the state it started from."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lakeroot.metastore import codecs
from lakeroot.metastore.conflicts import Footprint
from lakeroot.metastore.entries import Write
from lakeroot.metastore.index import Snapshot
from lakeroot.metastore.locators import new_id
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.records import Partition, Record, Stream
from lakeroot.metastore.states import CommitState, Operation
from lakeroot.metastore.view import View, directory_of
from lakeroot.model.errors import InvalidInputError, PermissionDeniedError


class Staged(NamedTuple):
    """The new state of an object: a record, or nothing if it is deleted."""

    record: Record | None
    is_replacement: bool = False


@dataclass(slots=True)
class Changes:
    """What a transaction has changed, looked at and relied on so far."""

    objects: dict[str, Staged] = field(default_factory=dict)
    names: dict[str, str | None] = field(default_factory=dict)
    footprint: Footprint = field(default_factory=Footprint)


class Staging(View):
    """A view with changes on top of it."""

    def __init__(self, log: CommitLog, snapshot: Snapshot, *, serializable: bool = False) -> None:
        super().__init__(log, snapshot)
        self.txn_id = f"{time.time_ns()}_{new_id()}"
        self.changes = Changes()
        self._serializable = serializable

    def record_at(self, directory: str) -> Record | None:
        """Read the object of a directory, with the changes of this transaction."""
        if directory in self.changes.objects:
            return self.changes.objects[directory].record
        if self._serializable:
            self.changes.footprint.reads.add(directory)
        return super().record_at(directory)

    def target_of(self, directory: str) -> str | None:
        """Find the id that a name leads to, with the changes of this transaction."""
        if directory in self.changes.names:
            return self.changes.names[directory]
        if self._serializable:
            self.changes.footprint.reads.add(directory)
        return super().target_of(directory)

    def child_ids(self, directory: str) -> Iterator[str]:
        """List the ids of the children of an object, with the changes of this transaction."""
        if self._serializable:
            self.changes.footprint.listings.add(directory)
        for name in super().child_ids(directory):
            path = f"{directory}/{name}" if directory else name
            if path not in self.changes.objects:
                yield name
        for path, staged in list(self.changes.objects.items()):
            parent, _, name = path.rpartition("/")
            if parent == directory and staged.record is not None:
                yield name

    def stage(self, record: Record, *, is_replacement: bool = False) -> None:
        """Give an object a new state."""
        self._writable()
        directory = directory_of(record)
        above = directory.split("/")[:-1]
        ancestors = ("/".join(above[:end]) for end in range(1, len(above) + 1))
        self.changes.footprint.alive.update(ancestors)
        self.changes.objects[directory] = Staged(record, is_replacement)

    def stage_delete(self, record: Record) -> None:
        """Delete an object."""
        self._writable()
        self.changes.objects[directory_of(record)] = Staged(None)

    def stage_name(self, directory: str, target: str | None) -> None:
        """Let a name lead to an object, or nowhere."""
        self._writable()
        self.changes.names[directory] = target

    def writes(self) -> tuple[Write, ...]:
        """Say what this transaction writes: at most one revision of each object and each name."""
        objects = [self._object_write(*item) for item in self.changes.objects.items()]
        names = [self._name_write(*item) for item in self.changes.names.items()]
        return tuple(write for write in (*objects, *names) if write is not None)

    def _object_write(self, directory: str, staged: Staged) -> Write | None:
        index = self.log.index
        before = index.object(directory, self.snapshot)
        number = index.last_number(directory, is_name=False) + 1
        if staged.record is None:
            if before is None:
                return None
            last = _retired(self.log.record(directory, before))
            return Write(directory, number, Operation.DELETE.value, None, codecs.encode(last))
        operation = Operation.CREATE if before is None else Operation.UPDATE
        if staged.is_replacement and before is not None:
            operation = Operation.REPLACE
        return Write(directory, number, operation.value, None, codecs.encode(staged.record))

    def _name_write(self, directory: str, target: str | None) -> Write | None:
        index = self.log.index
        before = index.name(directory, self.snapshot)
        number = index.last_number(directory, is_name=True) + 1
        if before == target:
            return None
        if target is None:
            return Write(directory, number, Operation.DELETE.value, before)
        operation = Operation.CREATE if before is None else Operation.REPLACE
        return Write(directory, number, operation.value, target)

    def _writable(self) -> None:
        if self.snapshot.before is not None:
            raise InvalidInputError(
                "A transaction in the past cannot write", fix="Begin it without `as_of`"
            )
        if self.log.read_only:
            raise PermissionDeniedError(
                "This catalog was opened read-only", fix="Open it without `read_only`"
            )


def _retired(record: Any) -> Any:
    if isinstance(record, Stream | Partition):
        return replace(record, state=CommitState.DEPRECATED)
    return record
