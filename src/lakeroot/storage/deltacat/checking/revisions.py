"""Are the files there that the log speaks of, and are there any of which it does not."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from lakeroot.metastore import codecs
from lakeroot.metastore.contents import DataFiles, NamedFile
from lakeroot.metastore.data.files import relative
from lakeroot.metastore.index import Revision
from lakeroot.metastore.litter import Litter
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.records import Stream
from lakeroot.metastore.states import LANCE_FORMAT, LAST_ORDERED_POSITION, Operation
from lakeroot.model.errors import LakerootError
from lakeroot.objects import Objects
from lakeroot.storage.deltacat.checking.findings import finding
from lakeroot.storage.deltacat.checking.survey import Survey
from lakeroot.storage.findings import Finding

_DELTA_DEPTH = 5
_STREAM_PARTS = 4


def examine_revisions(survey: Survey) -> Iterator[Finding]:
    """Look at the file of every revision of every object and name that is kept."""
    files = []
    for place, chain in sorted(survey.index.objects.copy().items()):
        for revision in chain:
            if revision.txn_id not in survey.unpublished:
                path = survey.log.path_of(place, revision)
                kept = survey.contents.get((place, revision.number, revision.txn_id))
                mark = None if kept is None else hashlib.sha256(kept).digest()
                files.append(_File(path, f"{revision.number} of {place}", mark))
        yield from _gaps(survey, place, chain)
    for wrong in survey.spread(_Reading(survey.objects), files):
        yield from wrong
    paths = [
        survey.log.path_of(place, revision)
        for place, chain in sorted(survey.index.names.copy().items())
        for revision in chain
        if revision.txn_id not in survey.unpublished
    ]
    there = survey.spread(_Seeking(survey.objects), paths)
    for path in (path for path, is_there in zip(paths, there, strict=True) if not is_there):
        what = "Clients without the log do not find an object by its name"
        yield finding("name-file-missing", path, what, f"{path} is missing", path=path)


class _File(NamedTuple):
    """The file of a revision, which one that is, and a mark of what the log has of it."""

    path: str
    revision: str
    mark: bytes | None


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads files of revisions, here or in another process; it pickles."""

    objects: Objects = field(repr=False)

    def __call__(self, files: Sequence[_File]) -> list[list[Finding]]:
        """Read some files; give what is wrong with each."""
        return [list(_revision(file, self.objects.get(file.path))) for file in files]


@dataclass(frozen=True, slots=True)
class _Seeking:
    """Looks for files, here or in another process; it pickles."""

    objects: Objects = field(repr=False)

    def __call__(self, paths: Sequence[str]) -> list[bool]:
        """Tell of some files whether they are there."""
        return [self.objects.exists(path) for path in paths]


def _revision(file: _File, content: bytes | None) -> Iterator[Finding]:
    path = file.path
    if content is not None and hashlib.sha256(content).digest() == file.mark:
        return
    why = f"{path} is missing" if content is None else f"{path} is damaged"
    if file.mark is not None:
        what = f"Revision {file.revision} is not what was committed"
        yield finding("revision-damaged", path, what, f"{why}; the log has it", path=path)
        return
    try:
        if content is not None:
            codecs.decode(content, path)
            return
    except LakerootError as error:
        why = str(error)
    what = f"Revision {file.revision} cannot be read"
    yield finding("revision-lost", path, what, why, path=path)


def _gaps(survey: Survey, place: str, chain: list[Revision]) -> Iterator[Finding]:
    # In the other layout a number is passed over where a dead writer has left a file.
    if survey.log.layout is not Layout.SPEC:
        return
    for before, after in pairwise(chain):
        if after.number > before.number + 1:
            what = f"Revisions of {place} are missing"
            why = f"{before.number} is followed by {after.number}: a commit was lost"
            yield finding("revision-gap", place, what, why, path=place)


def examine_data(survey: Survey) -> Iterator[Finding]:
    """Look for the data files of every delta that is kept, and at the order of deltas."""
    deltas = [
        survey.log.written(place, revision)
        for place, chain in sorted(survey.index.objects.copy().items())
        if place.count("/") == _DELTA_DEPTH and not _is_lance(survey, place)
        for revision in chain
        if revision.operation != Operation.DELETE
    ]
    named = survey.spread(DataFiles(survey.log.contents), deltas)
    for delta, files in zip(deltas, named, strict=True):
        for file in files or ():  # One that cannot be read is told as a revision that is lost.
            yield from _data_file(survey, delta.directory, file)


def _data_file(survey: Survey, place: str, file: NamedFile) -> Iterator[Finding]:
    try:
        path = relative(survey.log, file.url)
    except LakerootError:
        return  # It lies outside the catalog, where nothing can be said of it.
    info = survey.files.get(path) or survey.objects.head(path)
    what = f"The rows of the delta {place} cannot be read"
    if info is None:
        yield finding("data-file-missing", path, what, f"{path} is missing", path=path)
    elif file.size not in (None, info.size):
        why = f"{path} should have {file.size} bytes and has {info.size}"
        yield finding("data-file-damaged", path, what, why, path=path)


def _is_lance(survey: Survey, place: str) -> bool:
    stream = "/".join(place.split("/")[:_STREAM_PARTS])
    chain = survey.index.objects.get(stream)
    try:
        record = survey.log.record(stream, chain[-1]) if chain else None
    except LakerootError:
        return True
    return not isinstance(record, Stream) or record.format == LANCE_FORMAT


def examine_positions(survey: Survey) -> Iterator[Finding]:
    """Look whether each partition knows its newest delta: the next one goes behind it."""
    for place, record in survey.alive(_DELTA_DEPTH):
        children = survey.index.child_ids(place, survey.state.snapshot)
        numbers = [int(name) for name, _ in children if name.isdigit()]
        newest = max((n for n in numbers if n <= LAST_ORDERED_POSITION), default=0)
        known = getattr(record, "stream_position", None) or 0
        if newest > known:
            yield finding(
                "position-behind",
                place,
                f"The next delta of the partition {place} would replace one",
                f"it has a delta at {newest}, and takes {known} for the newest",
                path=place,
                version=newest,
            )


def examine_orphans(survey: Survey) -> Iterator[Finding]:
    """Find files that no state that is kept leads to, left long ago."""
    alive = {*survey.running, *survey.paused}
    files = list(survey.files.values())
    litter = Litter(survey.log, files, survey.index.horizon, set(), alive, survey.spread)
    try:
        paths = [*litter.revisions(survey.now_ms, survey.grace_ms)]
        paths += [info.path for info in litter.data(survey.now_ms, survey.grace_ms)]
    except LakerootError:
        return  # What cannot be read may lead to any of them.
    for path in sorted(paths):
        info = survey.files.get(path)
        if info is not None and info.modified_ms <= survey.cutoff_ms:
            what = f"{path} is of no use to anybody"
            yield finding("file-orphan", path, what, "its transaction never committed", path=path)
