"""Are the files there that the log speaks of, and are there any of which it does not."""

from collections.abc import Iterator
from itertools import pairwise

from lakeroot.metastore import codecs
from lakeroot.metastore.data.files import relative
from lakeroot.metastore.index import Revision
from lakeroot.metastore.litter import Litter
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.records import Delta, Stream
from lakeroot.metastore.states import LANCE_FORMAT, LAST_ORDERED_POSITION, Operation
from lakeroot.model.errors import LakerootError
from lakeroot.storage.deltacat.checking.findings import finding
from lakeroot.storage.deltacat.checking.survey import Survey
from lakeroot.storage.findings import Finding

_DELTA_DEPTH = 5
_STREAM_PARTS = 4


def examine_revisions(survey: Survey) -> Iterator[Finding]:
    """Look at the file of every revision of every object and name that is kept."""
    for place, chain in sorted(survey.index.objects.copy().items()):
        for revision in chain:
            if revision.txn_id not in survey.unpublished:
                yield from _revision(survey, place, revision)
        yield from _gaps(survey, place, chain)
    for place, chain in sorted(survey.index.names.copy().items()):
        for revision in chain:
            path = survey.log.path_of(place, revision)
            if revision.txn_id in survey.unpublished or survey.objects.exists(path):
                continue
            what = "Clients without the log do not find an object by its name"
            yield finding("name-file-missing", path, what, f"{path} is missing", path=path)


def _revision(survey: Survey, place: str, revision: Revision) -> Iterator[Finding]:
    path = survey.log.path_of(place, revision)
    content = survey.objects.get(path)
    kept = survey.contents.get((place, revision.number, revision.txn_id))
    if content is not None and content == kept:
        return
    why = f"{path} is missing" if content is None else f"{path} is damaged"
    if kept is not None:
        what = f"Revision {revision.number} of {place} is not what was committed"
        yield finding("revision-damaged", path, what, f"{why}; the log has it", path=path)
        return
    try:
        if content is not None:
            codecs.decode(content, path)
            return
    except LakerootError as error:
        why = str(error)
    what = f"Revision {revision.number} of {place} cannot be read"
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
    for place, chain in sorted(survey.index.objects.copy().items()):
        if place.count("/") != _DELTA_DEPTH or _is_lance(survey, place):
            continue
        for revision in chain:
            if revision.operation != Operation.DELETE:
                yield from _data_of(survey, place, revision)


def _data_of(survey: Survey, place: str, revision: Revision) -> Iterator[Finding]:
    try:
        delta = survey.log.record(place, revision)
    except LakerootError:
        return  # told as a revision that is lost
    if not isinstance(delta, Delta) or delta.manifest is None:
        return
    for entry in delta.manifest.entries:
        try:
            path = relative(survey.log, entry.url)
        except LakerootError:
            continue  # It lies outside the catalog, where nothing can be said of it.
        info = survey.files.get(path) or survey.objects.head(path)
        what = f"The rows of the delta {place} cannot be read"
        if info is None:
            yield finding("data-file-missing", path, what, f"{path} is missing", path=path)
        elif entry.meta.content_length not in (None, info.size):
            why = f"{path} should have {entry.meta.content_length} bytes and has {info.size}"
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
    litter = Litter(survey.log, list(survey.files.values()), survey.index.horizon, set(), alive)
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
