"""Litter: the files of a catalog that no state that is kept can reach."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeroot.metastore import naming
from lakeroot.metastore.contents import DataFiles, data_files
from lakeroot.metastore.index import Index, first_kept
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.naming import RevisionPath
from lakeroot.metastore.states import Operation
from lakeroot.model.spreading import Spread, here
from lakeroot.objects import ObjectInfo, Objects

_DELTA_DEPTH: Final = 5
_OBJECT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def list_files(log: CommitLog, spread: Spread = here) -> list[ObjectInfo]:
    """List the files of objects, names and data; tables of other formats are not looked into."""
    found: list[ObjectInfo] = []
    places = [
        name
        for name in log.objects.list_directory("").directories
        if _OBJECT.fullmatch(name) or name in log.index.objects
    ]
    places.append(naming.DATA)
    if spread is not here:
        # Parts that others can list: tables and names of a namespace, partitions with data.
        levels = {place: log.objects.list_directory(place) for place in places}
        places = [f"{at}/{name}" for at, level in levels.items() for name in level.directories]
        found += [info for level in levels.values() for info in level.objects]
    found += [info for listed in spread(_Listing(log.objects), places) for info in listed]
    return found


@dataclass(frozen=True, slots=True)
class _Listing:
    """Lists directories, here or in another process; it pickles."""

    objects: Objects = field(repr=False)

    def __call__(self, places: Sequence[str]) -> list[list[ObjectInfo]]:
        """List everything below some directories."""
        return [list(self.objects.list(place)) for place in places]


class Litter:
    """What may go once the states before a horizon are forgotten.

    A file counts as litter if its writer is not alive and nothing that is kept leads to it. A file
    that does not name its writer has to be old as well: it may be about to be committed.
    """

    def __init__(
        self,
        log: CommitLog,
        files: list[ObjectInfo],
        horizon: int,
        orphans: set[str],
        alive: set[str],
        spread: Spread = here,
    ) -> None:
        self._log = log
        self._spread = spread
        self._files = files
        self._index: Index = log.index
        self._alive = alive
        self._seen = log.index.head  # Other threads of this client may commit from here on.
        self._kept = {
            place: kept
            for chains in (log.index.objects, log.index.names)
            for place, chain in chains.copy().items()
            if place not in orphans and (kept := chain[first_kept(chain, horizon) :])
        }
        self._horizon = horizon

    def revisions(self, now_ms: int, patience_ms: int) -> Iterator[str]:
        """List revision and name-mapping files that are litter."""
        kept = {
            self._log.path_of(place, revision)
            for place, chain in self._kept.items()
            for revision in chain
        }
        for info in self._files:
            path = naming.understand(info.path)
            if not isinstance(path, RevisionPath) or info.path in kept:
                continue
            if self._may_go(path.txn_id, info, now_ms, patience_ms):
                yield info.path
        for place, chain in self._index.names.copy().items():
            # Private names lie where a listing of objects does not look.
            for revision in chain.copy() if place.startswith("_") else ():
                path_of = self._log.path_of(place, revision)
                if revision.sequence <= self._seen and path_of not in kept:
                    yield path_of

    def data(self, now_ms: int, patience_ms: int) -> Iterator[ObjectInfo]:
        """List data files that are litter."""
        used = set(self._referenced())
        for info in self._files:
            if not info.path.startswith(f"{naming.DATA}/"):
                continue
            writer = naming.writer_of(info.path)
            if info.path not in used and self._may_go(writer, info, now_ms, patience_ms):
                yield info

    def logs(self, now_ms: int, patience_ms: int) -> Iterator[str]:
        """List logs of transactions of which nothing is left."""
        writers = {revision.txn_id for chain in self._kept.values() for revision in chain}
        for sequence, mark in self._index.marks.copy().items():
            if sequence < self._horizon and mark.txn_id not in writers:
                yield naming.success_path(self._log.layout, mark.txn_id, mark.end_time)
        for directory in ("txn/failed", "txn/_failed"):
            for info in self._log.objects.list(directory):
                if now_ms - info.modified_ms > patience_ms:
                    yield info.path

    def _may_go(self, writer: str | None, info: ObjectInfo, now_ms: int, patience_ms: int) -> bool:
        if writer is None:
            return now_ms - info.modified_ms > patience_ms
        return writer not in self._alive

    def _referenced(self) -> Iterator[str]:
        deltas = [
            self._log.written(place, revision)
            for place, chain in self._kept.items()
            if place.count("/") == _DELTA_DEPTH
            for revision in chain
            if revision.target is None and revision.operation != Operation.DELETE
        ]
        reading = DataFiles(self._log.contents)
        for delta, named in zip(deltas, self._spread(reading, deltas), strict=True):
            # What a delta names that cannot be read is not known: then it is said why.
            files = data_files(self._log.contents.record(delta)) if named is None else named
            for file in files:
                # Older catalogs have whole addresses, perhaps of a place they were moved from.
                _, inside, rest = file.url.rpartition("/data/")
                yield f"data/{rest}" if inside else file.url
