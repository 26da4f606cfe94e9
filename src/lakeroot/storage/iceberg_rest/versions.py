"""Versions of tables whose commits the catalog arbitrates (`managed_by=impl`).

A version is a snapshot whose id is the version's number. A commit is a single request that requires
the current snapshot to be the one that was read; the catalog picks the winner. Each commit carries
an id of its own in the snapshots it adds, so that a lost answer can be found out by reading.
"""

from collections.abc import Mapping, Sequence
from uuid import uuid4

from lakeroot.model.commits import (
    CreateTableVersions,
    DeleteTableVersions,
    PointTableVersions,
)
from lakeroot.model.errors import (
    ConcurrentModificationError,
    TableVersionAlreadyExistsError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.records import TableVersion
from lakeroot.storage.iceberg_rest.client import Client, Json
from lakeroot.storage.iceberg_rest.entries import Entries, Entry, set_main
from lakeroot.storage.iceberg_rest.faults import OutcomeUnknownError
from lakeroot.storage.iceberg_rest.snapshots import (
    REQUEST_ID,
    as_table_version,
    new_snapshot,
    now_ms,
    requires_main,
    summary_of,
)
from lakeroot.tables.versions import MAIN

VersionChange = CreateTableVersions | PointTableVersions | DeleteTableVersions
VERSION_CHANGES = (CreateTableVersions, PointTableVersions, DeleteTableVersions)


class Versions:
    """The versions of the tables of one catalog."""

    def __init__(self, client: Client, entries: Entries) -> None:
        self._client = client
        self._entries = entries

    def kept(self, entry: Entry) -> dict[int, TableVersion]:
        """Give the versions that the catalog keeps of a table; none if storage arbitrates."""
        current = entry.definition.version
        if not entry.is_managed or current is None:
            return {}
        numbers = sorted(v for v in entry.definition.snapshots if 1 <= v <= current)
        return {version: as_table_version(entry, version) for version in numbers}

    def commit(self, changes: Sequence[VersionChange]) -> None:
        """Apply changes of the versions of one or more tables: all of them, or none."""
        request_id = uuid4().hex
        groups = _by_table(changes)
        unsure = False
        retries = self._client.config.patience.retries
        for attempt in range(retries + 1):
            entries = {identifier: self._entries.get(identifier) for identifier in groups}
            if unsure and _is_done(entries, groups, request_id):
                return
            try:
                self._commit(entries, groups, request_id)
            except OutcomeUnknownError:
                unsure = True
                if attempt == retries and not self._was_done(groups, request_id):
                    raise
            except ConcurrentModificationError:
                # The winner may be our own earlier request, which was slow and not lost.
                if not unsure or not self._was_done(groups, request_id):
                    raise
                return
            else:
                return

    def _commit(
        self,
        entries: Mapping[Identifier, Entry],
        groups: Mapping[Identifier, Sequence[VersionChange]],
        request_id: str,
    ) -> None:
        planned = [
            (identifier, _requirements(entries[identifier]), updates)
            for identifier, group in groups.items()
            if (updates := _updates(entries[identifier], group, request_id))
        ]
        if len(planned) == 1:
            self._client.update_table(*planned[0])
        elif planned:
            self._client.commit_transaction(planned)

    def _was_done(
        self, groups: Mapping[Identifier, Sequence[VersionChange]], request_id: str
    ) -> bool:
        entries = {identifier: self._entries.get(identifier) for identifier in groups}
        return _is_done(entries, groups, request_id)


def _by_table(changes: Sequence[VersionChange]) -> dict[Identifier, list[VersionChange]]:
    groups: dict[Identifier, list[VersionChange]] = {}
    for change in changes:
        if change.branch not in (None, MAIN):
            raise UnsupportedOperationError(
                f"An Iceberg catalog cannot keep the versions of the branch {change.branch!r}",
                "its snapshots are numbered once per table",
            )
        groups.setdefault(change.identifier, []).append(change)
    return groups


def _requirements(entry: Entry) -> list[Json]:
    main = requires_main(entry.definition.version)
    if entry.definition.uuid is None:
        return [main]
    return [{"type": "assert-table-uuid", "uuid": entry.definition.uuid}, main]


def _updates(entry: Entry, changes: Sequence[VersionChange], request_id: str) -> list[Json]:
    """Say how the snapshots of one table change."""
    if not entry.is_managed:
        return []  # the files of such a table are the arbiters of its versions
    known = set(entry.definition.snapshots)
    updates: list[Json] = []
    removed: set[int] = set()
    sequence = entry.definition.last_sequence_number
    time_ms = max(now_ms(), entry.definition.last_updated_ms)
    for change in changes:
        if isinstance(change, CreateTableVersions):
            for version in change.versions:
                _require_new(entry, version.version, known)
                # A number that was retracted comes again, but sequence numbers only rise.
                sequence = max(sequence + 1, version.version)
                told = new_snapshot(entry, version, sequence, time_ms, request_id)
                updates.append({"action": "add-snapshot", "snapshot": told})
                known.add(version.version)
        elif isinstance(change, DeleteTableVersions):
            removed |= known & set(change.versions)
            known -= removed
    updates += _main_updates(entry.definition.version, max(known, default=None))
    if removed:
        updates.append({"action": "remove-snapshots", "snapshot-ids": sorted(removed)})
    return updates


def _main_updates(before: int | None, after: int | None) -> list[Json]:
    if after == before:
        return []
    if after is None:
        return [{"action": "remove-snapshot-ref", "ref-name": "main"}]
    return [set_main(after)]


def _require_new(entry: Entry, version: int, known: set[int]) -> None:
    if version in known or version <= max(known, default=0):
        raise TableVersionAlreadyExistsError(
            f"{show(entry.identifier)} already has a version {version}",
            "another writer committed it first",
            "Read the table again and commit the version after its newest",
        )


def _is_done(
    entries: Mapping[Identifier, Entry],
    groups: Mapping[Identifier, Sequence[VersionChange]],
    request_id: str,
) -> bool:
    """Tell whether the tables already are as this very request would make them."""
    for identifier, group in groups.items():
        entry = entries[identifier]
        for change in group:
            if isinstance(change, CreateTableVersions) and any(
                summary_of(entry, version.version).get(REQUEST_ID) != request_id
                for version in change.versions
            ):
                return False
            if isinstance(change, DeleteTableVersions) and any(
                version in entry.definition.snapshots for version in change.versions
            ):
                return False
    return True
