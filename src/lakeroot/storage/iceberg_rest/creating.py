"""Making a Lance table in an Iceberg REST catalog.

A new table is made in two steps. The first reserves its name with an ordinary, empty Iceberg table
whose location the server chooses; nobody takes that for a Lance table. The second is one commit
that gives it everything: the location of the data, the marks, the schema, the current version.
So the server's own files never lie among the data (there are servers that delete a table's files
when the table is only taken out of the catalog), and a Lance table is never seen half made. A
server that knows Lance tables by itself needs one step only.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from lakeroot.model.errors import (
    ConcurrentModificationError,
    LakerootError,
    NotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.storage.iceberg_rest.client import Client, Json
from lakeroot.storage.iceberg_rest.entries import (
    Entries,
    schema_updates,
    snapshot_updates,
)
from lakeroot.storage.iceberg_rest.faults import OutcomeUnknownError
from lakeroot.storage.iceberg_rest.properties import (
    CREATED_AT,
    HOUSEKEEPING,
    REQUEST_ID,
    RESERVED_FOR,
    table_properties,
)
from lakeroot.storage.iceberg_rest.telling import properties_in
from lakeroot.tables.iceberg import ManagedBy, guard_properties, is_lance

ABANDONED_MS: Final = 60_000
_MARK: Final = "This name is reserved for a Lance table that is being created."
_NO_COLUMNS: Final[Mapping[str, Any]] = {"type": "struct", "schema-id": 1, "fields": []}
_PLACEHOLDER: Final[Mapping[str, Any]] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {
            "id": 1,
            "name": "reserved",
            "type": "boolean",
            "required": False,
            "doc": _MARK,
        }
    ],
}
_WITHDRAWN: Final[Mapping[str, Any]] = {
    "type": "struct",
    "schema-id": 1,
    "fields": [{"id": 2, "name": "withdrawn", "type": "boolean", "required": False, "doc": _MARK}],
}


@dataclass(frozen=True, slots=True)
class NewTable:
    """Everything about a table that is to be entered."""

    identifier: Identifier
    location: str
    managed_by: ManagedBy
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: Mapping[str, Any] = field(default_factory=lambda: dict(_NO_COLUMNS))
    snapshots: tuple[Mapping[str, Any], ...] = ()


class Creation:
    """Enters new tables into one catalog."""

    def __init__(self, client: Client, entries: Entries) -> None:
        self._client = client
        self._entries = entries

    def create(self, new: NewTable) -> None:
        """Enter a table; exactly one of several that try at once succeeds."""
        if self._client.server.is_native:
            self._create_natively(new)
            return
        reserved = self._reserve(new.identifier)
        try:
            self._publish(new, reserved)
            self._require_kept(new.identifier, reserved)
        except OutcomeUnknownError:
            raise  # it may be there; what is there must not be taken away
        except ConcurrentModificationError as error:
            raise _taken(new.identifier) from error
        except TableNotFoundError as error:
            raise _taken_away(new.identifier) from error
        except LakerootError:
            self._give_up(new.identifier, properties_in(reserved).get(RESERVED_FOR))
            raise

    def _create_natively(self, new: NewTable) -> None:
        """Ask a server that knows Lance tables: it chooses the place, and repeats nothing twice."""
        if new.snapshots:
            self._client.register_table(new.identifier, new.location)
            if new.properties:
                self._entries.set_properties(self._entries.get(new.identifier), new.properties)
            return
        marks = {"table_type": "lance"}
        if new.managed_by is ManagedBy.IMPL:
            marks["managed_by"] = new.managed_by.value
        body: Json = {"schema": dict(new.schema), "properties": {**new.properties, **marks}}
        if new.location:
            body["location"] = new.location
        self._client.create_table(new.identifier, body)

    def _reserve(self, identifier: Identifier) -> Json:
        """Take the name with a table that is not a Lance table yet."""
        request_id = uuid4().hex
        marks = {RESERVED_FOR: request_id, REQUEST_ID: request_id, CREATED_AT: str(_now_ms())}
        body = {"schema": dict(_PLACEHOLDER), "properties": {**marks, "gc.enabled": "false"}}
        try:
            return self._create(identifier, body, request_id)
        except TableAlreadyExistsError:
            abandoned = self._abandoned(identifier)
            if abandoned is None:
                raise
            return abandoned

    def _create(self, identifier: Identifier, body: Json, request_id: str) -> Json:
        """Create a table and make sure that it is ours: some servers answer 200 to a double."""
        retries = self._client.config.patience.retries
        for attempt in range(retries + 1):
            try:
                told = self._client.create_table(identifier, body)
            except OutcomeUnknownError:
                told = self._found(identifier)
                if not told and attempt < retries:
                    continue
                if not told:
                    raise
            except TableAlreadyExistsError:
                # It may be our own earlier request, which was slow and not lost.
                told = self._found(identifier) if attempt else {}
                if not told:
                    raise
            loaded = told if "metadata" in told else self._found(identifier)
            if not loaded:
                raise _taken_away(identifier)
            if properties_in(loaded).get(REQUEST_ID) == request_id:
                return loaded
            raise _taken(identifier)
        raise AssertionError  # the last attempt returns or raises

    def _publish(self, new: NewTable, reserved: Json) -> None:
        """Turn the reservation into the Lance table, in one commit that only one can make."""
        metadata = reserved["metadata"]
        request_id = uuid4().hex
        requirements = _as_it_was(metadata)
        last_column = metadata.get("last-column-id")
        updates: list[Json] = [
            {"action": "set-location", "location": new.location},
            {"action": "set-properties", "updates": _all_properties(new, request_id)},
            {"action": "remove-properties", "removals": [RESERVED_FOR]},
            *schema_updates(new.schema, last_column if isinstance(last_column, int) else 0),
            *snapshot_updates(new.snapshots),
        ]
        try:
            self._client.update_table(new.identifier, requirements, updates)
        except OutcomeUnknownError:
            if self._is_made_by(request_id, new.identifier):
                return
            try:
                self._client.update_table(new.identifier, requirements, updates)
            except ConcurrentModificationError:
                # It may be our own earlier request, which was slow and not lost.
                if not self._is_made_by(request_id, new.identifier):
                    raise

    def _require_kept(self, identifier: Identifier, reserved: Json) -> None:
        """Look again whether the table is ours.

        Some servers look whether a name is free and take it in a second step: they may have put a
        table over ours whose creation they had begun before.
        """
        try:
            found = self._found(identifier)
        except LakerootError:
            return  # It was made; nothing is known against it.
        if found and found["metadata"].get("table-uuid") != reserved["metadata"].get("table-uuid"):
            raise _taken(identifier)

    def _is_made_by(self, request_id: str, identifier: Identifier) -> bool:
        found = self._entries.find(identifier)
        return found is not None and found.definition.properties.get(REQUEST_ID) == request_id

    def _abandoned(self, identifier: Identifier) -> Json | None:
        """Find a reservation whose maker is long gone; whoever publishes first gets the name."""
        told = self._found(identifier)
        properties = properties_in(told)
        if RESERVED_FOR not in properties or is_lance(properties):
            return None
        made = properties.get(CREATED_AT, "0")
        if made.isdigit() and _now_ms() - int(made) < ABANDONED_MS:
            raise ConcurrentModificationError(
                f"Somebody else is creating the table {show(identifier)}",
                fix="Try again in a minute",
            )
        return told

    def withdraw(self, identifier: Identifier, before_ms: int, *, dry_run: bool = False) -> bool:
        """Take back a reservation that is older than a moment; tell whether there was one.

        Dropping asks no questions, so it is made our own first: whoever wanted to take it over
        at the same time comes second.
        """
        told = self._found(identifier)
        properties = properties_in(told)
        if RESERVED_FOR not in properties or is_lance(properties):
            return False
        made = properties.get(CREATED_AT, "0")
        if not made.isdigit() or int(made) > before_ms:
            return False
        if not dry_run:
            metadata, request_id = told["metadata"], uuid4().hex
            marks = {RESERVED_FOR: request_id, REQUEST_ID: request_id, CREATED_AT: str(_now_ms())}
            last_column = metadata.get("last-column-id")
            updates: list[Json] = [
                {"action": "set-properties", "updates": marks},
                *schema_updates(_WITHDRAWN, last_column if isinstance(last_column, int) else 0),
            ]
            try:
                self._client.update_table(identifier, _as_it_was(metadata), updates)
            except ConcurrentModificationError:
                return False
            self._client.drop_table(identifier)
        return True

    def _give_up(self, identifier: Identifier, reserved_for: str | None) -> None:
        """Take a reservation back, unless it has become somebody else's."""
        if (
            reserved_for
            and properties_in(self._found(identifier)).get(RESERVED_FOR) == reserved_for
        ):
            self._client.drop_table(identifier)

    def _found(self, identifier: Identifier) -> Json:
        try:
            return self._client.load_table(identifier)
        except NotFoundError:
            return {}


def _all_properties(new: NewTable, request_id: str) -> dict[str, str]:
    return {
        **table_properties(new.properties),
        **HOUSEKEEPING,
        **guard_properties(new.location, new.managed_by),
        REQUEST_ID: request_id,
        CREATED_AT: str(_now_ms()),
    }


def _as_it_was(metadata: Json) -> list[Json]:
    """Require that nobody has turned a reservation into anything since it was read."""
    return [
        {"type": "assert-table-uuid", "uuid": metadata.get("table-uuid")},
        {
            "type": "assert-current-schema-id",
            "current-schema-id": metadata.get("current-schema-id"),
        },
    ]


def _taken(identifier: Identifier) -> TableAlreadyExistsError:
    return TableAlreadyExistsError(f"There is already a table {show(identifier)}")


def _taken_away(identifier: Identifier) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"The name {show(identifier)} was taken away while the table was created",
        "somebody else dropped it, or creates a table of that name too",
        "Look what is there, and try again",
    )


def _now_ms() -> int:
    return int(time.time() * 1000)
