"""Transactions of one table: what a commit did, and notes kept beside it.

A Lance transaction is the change that made a version. It is found by the number of that version
or by its id. What is noted about it afterwards (a status, properties) lies beside the table in
``_alter_transactions/``, where pylance's own catalog keeps such notes:

    <uuid>.json       the notes of now; the only file pylance's catalog reads and writes
    <uuid>.<n>.json   the n-th state; written once, so that of two writers one must look again
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from lance import LanceDataset

from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    NotFoundError,
    TransactionNotFoundError,
)
from lakeroot.objects.contract import Objects
from lakeroot.objects.roots import open_root, parse_root
from lakeroot.tables.faults import translated
from lakeroot.tables.handle import TableHandle, steadily, working_on
from lakeroot.tables.made import transaction_of
from lakeroot.tables.options import read_mode
from lakeroot.tables.versions import TREE

NOTES: Final = "_alter_transactions"
_ATTEMPTS: Final = 20
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")
_VERSION: Final = re.compile(r"[0-9]{1,19}", re.ASCII)


class Status(StrEnum):
    """How far a transaction has come. One that made a version has succeeded."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


class IfSet(StrEnum):
    """What setting a property does when it is set already."""

    OVERWRITE = "overwrite"
    FAIL = "fail"
    SKIP = "skip"


class IfUnset(StrEnum):
    """What unsetting a property does when it is not set."""

    SKIP = "skip"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Note another status."""

    status: str


@dataclass(frozen=True, slots=True)
class SetProperty:
    """Note a property."""

    key: str
    value: str
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class UnsetProperty:
    """Take back a property."""

    key: str
    mode: str | None = None


Action = SetStatus | SetProperty | UnsetProperty


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """A transaction: its id, the version it made, its status and properties."""

    transaction_id: str
    version: int
    status: str = Status.SUCCEEDED.name
    properties: Mapping[str, str] = field(default_factory=dict)


def describe_transaction(handle: TableHandle, transaction_id: str) -> TransactionInfo:
    """Describe a transaction, found by its id or by the number of the version it made."""
    committed = _committed(handle, transaction_id)
    _, notes = _notes(_beside(handle), committed.transaction_id)
    return _noted(committed, notes)


def alter_transaction(
    handle: TableHandle, transaction_id: str, actions: Iterable[Action]
) -> TransactionInfo:
    """Note a status and properties beside a transaction; all of them or none.

    The commit itself stays what it is: a note of another status undoes nothing.
    """
    wanted = list(actions)
    committed = _committed(handle, transaction_id)
    objects = _beside(handle)
    uuid = committed.transaction_id
    for _ in range(_ATTEMPTS):
        number, notes = _notes(objects, uuid)
        for action in wanted:
            notes = _applied(committed, notes, action)
        if not wanted:
            return _noted(committed, notes)
        body = json.dumps(notes.to_json(), sort_keys=True).encode()
        if objects.put_if_absent(f"{NOTES}/{uuid}.{number + 1}.json", body):
            objects.put(f"{NOTES}/{uuid}.json", body)
            return _noted(committed, notes)
    raise ConcurrentModificationError(
        f"Too many writers alter the transaction {uuid}", fix="Try again"
    )


@dataclass(frozen=True, slots=True)
class _Notes:
    status: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    removed_properties: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "properties": dict(self.properties),
            "removed_properties": list(self.removed_properties),
        }


def _noted(committed: TransactionInfo, notes: _Notes) -> TransactionInfo:
    kept = {
        key: value
        for key, value in committed.properties.items()
        if key not in notes.removed_properties
    }
    return replace(
        committed,
        status=notes.status or committed.status,
        properties=kept | dict(notes.properties),
    )


def _applied(committed: TransactionInfo, notes: _Notes, action: Action) -> _Notes:
    if isinstance(action, SetStatus):
        return replace(notes, status=read_mode(Status, action.status, Status.SUCCEEDED).name)
    if not action.key:
        raise InvalidInputError("A property of a transaction needs a key")
    if action.key in _FACTS:
        raise InvalidInputError(f"The property {action.key!r} is a fact of the commit and stays")
    present = _noted(committed, notes).properties
    if isinstance(action, SetProperty):
        return _set(notes, action, present)
    if action.key not in present:
        if read_mode(IfUnset, action.mode, IfUnset.SKIP) is IfUnset.FAIL:
            raise InvalidInputError(f"The transaction has no property {action.key!r}")
        return notes
    properties = {key: value for key, value in notes.properties.items() if key != action.key}
    removed = (*notes.removed_properties, action.key)
    return replace(notes, properties=properties, removed_properties=removed)


def _set(notes: _Notes, action: SetProperty, present: Mapping[str, str]) -> _Notes:
    mode = read_mode(IfSet, action.mode, IfSet.OVERWRITE)
    if action.key in present and mode is IfSet.FAIL:
        raise InvalidInputError(f"The transaction already has a property {action.key!r}")
    if action.key in present and mode is IfSet.SKIP:
        return notes
    removed = tuple(key for key in notes.removed_properties if key != action.key)
    properties = {**notes.properties, action.key: action.value}
    return replace(notes, properties=properties, removed_properties=removed)


_FACTS: Final = frozenset({"uuid", "version", "read_version", "operation"})


def _notes(objects: Objects, uuid: str) -> tuple[int, _Notes]:
    """Read the latest notes and their number; 0 for those only pylance's catalog has written."""
    numbers = [
        int(found[1])
        for entry in objects.list_directory(NOTES).objects
        if (found := re.fullmatch(rf"(?:.*/)?{uuid}\.(\d+)\.json", entry.path))
    ]
    number = max(numbers, default=0)
    body = objects.get(f"{NOTES}/{uuid}.{number}.json" if number else f"{NOTES}/{uuid}.json")
    if body is None:
        return number, _Notes()
    try:
        written = json.loads(body)
        return number, _Notes(
            written.get("status"),
            dict(written.get("properties") or {}),
            tuple(written.get("removed_properties") or ()),
        )
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidTableStateError(
            f"The notes beside transaction {uuid} cannot be read", str(error)
        ) from error


def _beside(handle: TableHandle) -> Objects:
    return open_root(parse_root(handle.location, handle.storage_options))


def _committed(handle: TableHandle, transaction_id: str) -> TransactionInfo:
    with working_on(handle, "Finding the transaction") as table:
        latest = table.open()
        if _VERSION.fullmatch(transaction_id):
            found = _made(latest, int(transaction_id))
            if found is not None:
                return found
        elif _UUID.fullmatch(transaction_id):
            for line, read_version in _lines(handle, latest, transaction_id):
                for version in _candidates(line, read_version):
                    found = _made(line, version)
                    if found is not None and found.transaction_id == transaction_id:
                        return found
    raise TransactionNotFoundError(
        f"The table has no transaction {transaction_id!r}",
        fix="Give the id a change returned, or the number of the version it made",
    )


def _lines(
    handle: TableHandle, latest: LanceDataset, uuid: str
) -> Iterator[tuple[LanceDataset, int | None]]:
    """Give the branches that may hold a transaction, each with the version it was based on."""
    objects = _beside(handle)
    branches = [None, *steadily(latest.branches.list)]
    for branch in branches:
        prefix = f"{TREE}/{branch}/_transactions" if branch else "_transactions"
        for entry in objects.list_directory(prefix).objects:
            found = re.fullmatch(rf"(?:.*/)?(\d+)-{uuid}\.txn", entry.path)
            if found is not None:
                line = latest if branch is None else latest.checkout_version((branch, None))
                yield line, int(found[1])
    # Some commits keep their transaction in the manifest alone.
    yield latest, None


def _candidates(line: LanceDataset, read_version: int | None) -> Iterable[int]:
    if read_version is None:
        return range(line.version, 0, -1)
    return range(read_version + 1, line.version + 1)


def _made(line: LanceDataset, version: int) -> TransactionInfo | None:
    try:
        with translated("Reading the transaction"):
            transaction = transaction_of(line, version)
    except (NotFoundError, InvalidInputError):
        return None
    if transaction is None:
        return None
    properties = {str(k): str(v) for k, v in (transaction.transaction_properties or {}).items()}
    return TransactionInfo(
        transaction.uuid,
        version,
        properties=properties
        | {
            "uuid": transaction.uuid,
            "version": str(version),
            "read_version": str(transaction.read_version),
            "operation": type(transaction.operation).__name__,
        },
    )
