"""Every path of a catalog: the two layouts that are written, and all those that can be read.

``spec`` is the layout of the specification: revision files lie flat in ``rev/``, a name is hashed
with the names above it, and one file per transaction lies in ``txn/``. ``deltacat-2`` is what
released deltacat reads and writes: revision files lie in two levels of directories by number, a
name is hashed alone, and transactions are sorted by their outcome and their time. Paths that start
with ``_`` below ``txn/`` are ours alone; every deltacat listing passes over them.
"""

import datetime
import re
from enum import StrEnum
from typing import Final, NamedTuple

from lakeroot.metastore.locators import SEPARATOR, digest
from lakeroot.metastore.states import Operation

COMMITS: Final = "txn/_commit"
CHECKPOINTS: Final = "txn/_checkpoint"
LATEST_CHECKPOINT: Final = "txn/_checkpoint/_latest"
CLOCK: Final = "txn/_clock"
DATA: Final = "data"
REVISIONS: Final = "rev"
LANCE_DATA: Final = "lance"
VERSIONS: Final = "version"

_COMMITS_PER_DIRECTORY: Final = 1000
_TXN_ID: Final = (
    r"\d+[_-][0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
)
_FILE: Final = re.compile(rf"(\d{{20}})_(create|update|replace|delete)_({_TXN_ID})\.(.+)")
_TXN: Final = re.compile(_TXN_ID)
_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_NOT_OBJECTS: Final = frozenset({"txn", DATA, VERSIONS, "compute"})


class Layout(StrEnum):
    """How a catalog is laid out on disk."""

    SPEC = "spec"
    DELTACAT_2 = "deltacat-2"


class RevisionPath(NamedTuple):
    """A revision file or a name-mapping file, understood."""

    directory: str
    is_name: bool
    number: int
    operation: Operation
    txn_id: str
    target: str | None
    path: str


class SuccessPath(NamedTuple):
    """The log of a transaction that succeeded; its end time, if the path says it."""

    txn_id: str
    end_time: int | None
    path: str


def commit_path(sequence: int) -> str:
    """Give the place where the commit of this number is decided."""
    return f"{COMMITS}/{sequence // _COMMITS_PER_DIRECTORY:017d}/{sequence:020d}"


def commit_directory(sequence: int) -> str:
    """Give the directory of the commits around this number."""
    return commit_path(sequence).rpartition("/")[0]


def commit_number(path: str) -> int:
    """Read the number of a commit from its path."""
    return int(path.rpartition("/")[2])


def checkpoint_path(sequence: int) -> str:
    """Give the place of the checkpoint of this commit."""
    return f"{CHECKPOINTS}/{sequence:020d}"


def running_directory(layout: Layout) -> str:
    """Give the directory of the transactions that have announced what they are about to write."""
    return "txn/running" if layout is Layout.DELTACAT_2 else "txn/_running"


def running_path(layout: Layout, txn_id: str) -> str:
    """Give the place where a running transaction announces itself, and shows that it is alive."""
    return f"{running_directory(layout)}/{txn_id}"


def data_path(partition_id: str, txn_id: str, serial: int, suffix: str = "pq") -> str:
    """Name a new data file. The name says which transaction writes it, so gc knows whose it is."""
    return f"{DATA}/{partition_id}/{txn_id}-{serial:05d}.{suffix}"


def writer_of(path: str) -> str | None:
    """Read from a data file's name the id of the transaction that wrote it, if it says so."""
    match = _TXN.match(path.rpartition("/")[2])
    return None if match is None else match.group()


def revision_partition(number: int) -> str:
    """Give the two levels of directories of a revision number."""
    first = -(-number // 1_000_000)
    second = -(-(number - (first - 1) * 1_000_000) // 1000)
    return f"{first * 1_000_000}/{second * 1000}"


def start_time(txn_id: str) -> int:
    """Read the start of a transaction from its id, in nanoseconds; old ids are in milliseconds."""
    number, mark = re.match(r"(\d+)([_-])", txn_id).groups()  # type: ignore[union-attr]
    return int(number) * (1 if mark == "_" else 1_000_000)


def revision_path(
    layout: Layout, directory: str, number: int, operation: str, txn_id: str, target: str | None
) -> str:
    """Give the path of a revision file, or (with a target) of a name-mapping file."""
    middle = f"{revision_partition(number)}/" if layout is Layout.DELTACAT_2 else ""
    below = f"{directory}/" if target is not None else f"{directory}/{REVISIONS}/"
    return f"{below}{middle}{number:020d}_{operation}_{txn_id}.{target or 'mpk'}"


def success_path(layout: Layout, txn_id: str, end_time: int) -> str:
    """Give the path of the log of a transaction that succeeded."""
    if layout is Layout.SPEC:
        return f"txn/{txn_id}"
    return f"txn/success/{minute(start_time(txn_id))}/{txn_id}/{end_time}"


def failed_path(layout: Layout, txn_id: str) -> str:
    """Give the path of the log of a transaction that failed."""
    middle = f"{minute(start_time(txn_id))}/" if layout is Layout.DELTACAT_2 else ""
    return f"txn/{'_' if layout is Layout.SPEC else ''}failed/{middle}{txn_id}"


def minute(time_ns: int) -> str:
    """Give the directories of a moment, down to the minute, in UTC."""
    moment = datetime.datetime.fromtimestamp(time_ns // 1_000_000_000, tz=datetime.UTC)
    return moment.strftime("%Y/%m/%d/%H/%M")


def name_digests(layout: Layout, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Give the directory of a name below its parent: first the one this layout writes.

    After it come those of the other generations, for reading: the whole canonical string, the own
    name alone, and the own name behind the hash of its parent's.
    """
    whole, own = digest(SEPARATOR.join(parts)), digest(parts[-1])
    if len(parts) == 1:
        return (own,)
    chained = parts[0]
    for part in parts[1:]:
        chained = f"{digest(chained)}{SEPARATOR}{part}"
    first, second = (whole, own) if layout is Layout.SPEC else (own, whole)
    return first, second, digest(chained)


def understand(path: str) -> RevisionPath | SuccessPath | None:
    """Say what a file of a catalog is, in any generation; nothing if it is of no interest."""
    head, _, rest = path.partition("/")
    if head == "txn":
        return _success(path, rest)
    if head in _NOT_OBJECTS or any(part[:1] in ("_", ".") for part in path.split("/")):
        return None
    directory, _, name = path.rpartition("/")
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    number, operation, txn_id, suffix = match.groups()
    directory = _without_partition(directory)
    parent, _, last = directory.rpartition("/")
    if last == REVISIONS and suffix in ("mpk", "json"):
        place, target = parent, None
    elif _SHA1.fullmatch(last):
        place, target = directory, suffix
    else:
        return None
    kind = Operation(operation)
    return RevisionPath(place, target is not None, int(number), kind, txn_id, target, path)


def _without_partition(directory: str) -> str:
    parts = directory.split("/")
    if len(parts) > 2 and _is_partition(parts[-2], parts[-1]) and not parts[-3].isdigit():
        return "/".join(parts[:-2])
    return directory


def _is_partition(first: str, second: str) -> bool:
    if not (first.isascii() and first.isdigit() and second.isascii() and second.isdigit()):
        return False
    return int(first) % 1_000_000 == 0 and int(second) % 1000 == 0


def _success(path: str, rest: str) -> SuccessPath | None:
    parts = rest.split("/")
    if len(parts) == 1 and _TXN.fullmatch(rest):
        return SuccessPath(rest, None, path)
    if parts[0] == "success" and len(parts) >= 3 and _TXN.fullmatch(parts[-2]):
        end = parts[-1]
        return SuccessPath(parts[-2], int(end) if end.isdigit() else None, path)
    return None
