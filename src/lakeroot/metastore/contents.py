"""What the revisions of objects hold: read once, here or in another process."""

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from lakeroot.metastore import codecs, naming, records
from lakeroot.metastore.entries import Entry, read_entry
from lakeroot.metastore.index import Revision
from lakeroot.metastore.recall import Recall
from lakeroot.model.errors import InternalError, LakerootError
from lakeroot.objects import Objects


class Written(NamedTuple):
    """A revision of an object, and where its file is."""

    directory: str
    revision: Revision
    path: str


class NamedFile(NamedTuple):
    """A data file that a delta names, and how long it should be, if that is known."""

    url: str
    size: int | None


class Contents:
    """Reads revisions. Contents never change, so they are read once; it pickles without them."""

    def __init__(self, objects: Objects, *, read_only: bool) -> None:
        self._objects = objects
        self._read_only = read_only
        self._records: Recall[str, records.Record] = Recall(50_000)

    def __reduce__(self) -> tuple[Any, ...]:
        return _anew, (self._objects,)

    def __len__(self) -> int:
        """Say how many contents are in memory."""
        return len(self._records)

    def keep_only(self, paths: Container[str]) -> None:
        """Let go of what was read from all other files."""
        self._records.keep_only(paths)

    def record(self, written: Written) -> records.Record:
        """Read a revision of an object."""
        known = self._records.get(written.path)
        if known is None:
            known = codecs.placed(self._read(*written), written.directory)
            self._records.put(written.path, known)
        return known

    def entry(self, sequence: int) -> Entry | None:
        """Read an entry of the log."""
        data = self._objects.get(naming.commit_path(sequence))
        return None if data is None else read_entry(data)

    def _read(self, directory: str, revision: Revision, path: str) -> records.Record:
        content = revision.body or self._objects.get(path)
        try:
            if content is not None:
                return codecs.decode(content, path)
        except LakerootError:
            if self._again(directory, revision) is None:
                raise
        content = self._again(directory, revision)
        if content is None:
            raise InternalError(
                f"The file {path} is missing",
                "something other than the catalog removed it",
                "Restore the file from a copy, or delete the object it belongs to",
            )
        if not self._read_only:
            self._objects.put(path, content)
        return codecs.decode(content, path)

    def _again(self, directory: str, revision: Revision) -> bytes | None:
        entry = self.entry(revision.sequence) if revision.sequence > 0 else None
        for write in entry.writes if entry is not None else ():
            if write.directory == directory and write.number == revision.number:
                return write.content
        return None


class DataFiles:
    """Reads which data files deltas name; nothing is known of a delta that cannot be read."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents

    def __call__(self, deltas: Sequence[Written]) -> list[list[NamedFile] | None]:
        """Give the data files of each delta."""
        return [self._of(delta) for delta in deltas]

    def _of(self, delta: Written) -> list[NamedFile] | None:
        try:
            return data_files(self._contents.record(delta))
        except LakerootError:
            return None


def data_files(record: records.Record) -> list[NamedFile]:
    """Give the data files that a delta names."""
    if not isinstance(record, records.Delta) or record.manifest is None:
        return []
    return [NamedFile(one.url, one.meta.content_length) for one in record.manifest.entries]


def _anew(objects: Objects) -> Contents:
    return Contents(objects, read_only=True)
