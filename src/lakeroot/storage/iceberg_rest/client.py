"""The operations of an Iceberg REST catalog, each a method; JSON values in and out."""

import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakeroot.model.errors import (
    InvalidInputError,
    NotFoundError,
    ServiceUnavailableError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.storage.iceberg_rest.config import Config
from lakeroot.storage.iceberg_rest.faults import Answer, Kind, OutcomeUnknownError, Target
from lakeroot.storage.iceberg_rest.routes import Routes, parent_parameter
from lakeroot.storage.iceberg_rest.transport import Transport

Json = dict[str, Any]

COMMIT_TRANSACTION: Final = "POST /v1/{prefix}/transactions/commit"
NATIVE: Final = "lakeroot.native-lance-tables"
"""A server that has this in its configuration, or in ours, keeps Lance tables by itself."""
ONLY_LANCE: Final = "lakeroot.only-lance-tables"
"""A server that has this in its configuration, or in ours, holds no tables but Lance tables."""
RENAME_TABLE: Final = "POST /v1/{prefix}/tables/rename"
_MOST_PAGES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says about itself."""

    routes: Routes
    endpoints: frozenset[str] | None
    properties: Mapping[str, str]
    remembers_keys: bool = False

    @property
    def is_native(self) -> bool:
        """Whether the server keeps Lance tables by itself, without files of its own."""
        return self.properties.get(NATIVE, "").lower() == "true"

    @property
    def has_only_lance(self) -> bool:
        """Whether every table is a Lance table, so that none must be looked at to know."""
        return self.properties.get(ONLY_LANCE, "").lower() == "true"

    def offers(self, endpoint: str, *, by_default: bool) -> bool:
        """Tell whether the server has an endpoint; one that lists none has the usual ones."""
        return by_default if self.endpoints is None else endpoint in self.endpoints


class Client:
    """A client of one catalog. The first request asks the server for its configuration."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._transport = Transport(config)
        self._server: Server | None = None
        self._lock = threading.Lock()

    @property
    def server(self) -> Server:
        """What the server says about itself; asked once, and again if asking failed."""
        with self._lock:
            if self._server is None:
                self._server = self._ask_server()
            return self._server

    def close(self) -> None:
        """Let go of the connections."""
        self._transport.close()

    # Namespaces

    def list_namespaces(self, parent: Identifier) -> list[Identifier]:
        """List the direct children of a namespace; some servers list theirs as well."""
        query = {"parent": parent_parameter(parent)} if parent else {}
        path = self.server.routes.at("namespaces")
        target = Target(Kind.NAMESPACE, parent)
        depth = len(parent) + 1
        found: dict[Identifier, None] = {}
        for page in self._pages(path, target, query):
            for names in _list(page, "namespaces", target):
                if isinstance(names, list) and len(names) == depth:
                    identifier = tuple(str(name) for name in names)
                    if identifier[:-1] == parent:
                        found[identifier] = None
        return list(found)

    def create_namespace(self, identifier: Identifier, properties: Mapping[str, str]) -> Json:
        """Create a namespace; return what the server says of it, nothing if it says nothing."""
        body = {"namespace": list(identifier), "properties": dict(properties)}
        target = Target(Kind.NAMESPACE, identifier)
        path = self.server.routes.at("namespaces")
        return _told(self._write("POST", path, target, body), target)

    def load_namespace(self, identifier: Identifier) -> dict[str, str]:
        """Return the properties of a namespace."""
        target = Target(Kind.NAMESPACE, identifier)
        told = self._read("GET", self.server.routes.namespace(identifier), target).json(target)
        properties = told.get("properties") or {}
        if not isinstance(properties, dict):
            raise _unreadable(target, "`properties` is not an object")
        return {str(k): str(v) for k, v in properties.items()}

    def update_namespace(
        self, identifier: Identifier, updates: Mapping[str, str], removals: Sequence[str]
    ) -> None:
        """Set and remove properties of a namespace. Doing it twice is doing it once."""
        body = {"updates": dict(updates), "removals": list(removals)}
        path = f"{self.server.routes.namespace(identifier)}/properties"
        target = Target(Kind.NAMESPACE, identifier)
        self._transport.send("POST", path, target, safe=True, body=body)

    def drop_namespace(self, identifier: Identifier) -> None:
        """Drop an empty namespace."""
        target = Target(Kind.NAMESPACE, identifier)
        self._remove(self.server.routes.namespace(identifier), target, {})

    # Tables

    def list_tables(self, namespace: Identifier) -> list[Json]:
        """List what is in a namespace: an object per table, with at least its `name`."""
        target = Target(Kind.NAMESPACE, namespace)
        found: dict[str, Json] = {}
        for page in self._pages(self.server.routes.tables(namespace), target, {}):
            for entry in _list(page, "identifiers", target):
                if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                    found[entry["name"]] = entry
        return list(found.values())

    def create_table(self, identifier: Identifier, body: Mapping[str, Any]) -> Json:
        """Create a table; return what the server says of it, nothing if it says nothing."""
        target = Target(Kind.TABLE, identifier)
        path = self.server.routes.tables(identifier[:-1])
        answer = self._write("POST", path, target, {"name": _named(identifier)["name"], **body})
        return _told(answer, target)

    def register_table(self, identifier: Identifier, location: str) -> Json:
        """Give a name to a table that is there; return what the server says of it."""
        target = Target(Kind.TABLE, identifier)
        path = f"{self.server.routes.namespace(identifier[:-1])}/register"
        body = {"name": _named(identifier)["name"], "metadata-location": location}
        return _told(self._write("POST", path, target, body), target)

    def load_table(self, identifier: Identifier) -> Json:
        """Load a table: its metadata, and the configuration to read it with."""
        target = Target(Kind.TABLE, identifier)
        return self._read("GET", self.server.routes.table(identifier), target).json(target)

    def load_table_unless(
        self, identifier: Identifier, tag: str | None
    ) -> tuple[Json | None, str | None]:
        """Load a table without its history, unless its tag is still this one; with its tag."""
        target = Target(Kind.TABLE, identifier)
        path, query = self.server.routes.table(identifier), {"snapshots": "refs"}
        headers = {"If-None-Match": tag} if tag else None
        answer = self._transport.send("GET", path, target, safe=True, query=query, headers=headers)
        if answer.is_unchanged:
            return None, tag
        return answer.json(target), answer.header("ETag")

    def drop_table(self, identifier: Identifier) -> None:
        """Take a table out of the catalog. The server is never asked to purge its data."""
        target = Target(Kind.TABLE, identifier)
        self._remove(self.server.routes.table(identifier), target, {"purgeRequested": "false"})

    def rename_table(self, source: Identifier, destination: Identifier) -> None:
        """Give a table another name."""
        if not self.server.offers(RENAME_TABLE, by_default=True):
            raise UnsupportedOperationError("This catalog cannot rename tables")
        body = {"source": _named(source), "destination": _named(destination)}
        target = Target(Kind.TABLE, destination)
        self._write("POST", self.server.routes.at("tables/rename"), target, body)

    def update_table(
        self, identifier: Identifier, requirements: Sequence[Json], updates: Sequence[Json]
    ) -> Json:
        """Commit updates to one table if the requirements hold."""
        target = Target(Kind.COMMIT, identifier)
        body = {
            "identifier": _named(identifier),
            "requirements": list(requirements),
            "updates": list(updates),
        }
        return _told(
            self._write("POST", self.server.routes.table(identifier), target, body), target
        )

    def commit_transaction(
        self, changes: Sequence[tuple[Identifier, Sequence[Json], Sequence[Json]]]
    ) -> None:
        """Commit updates to several tables: all of them, or none."""
        if not self.server.offers(COMMIT_TRANSACTION, by_default=True):
            raise UnsupportedOperationError(
                "This catalog cannot commit to several tables at once",
                "it does not offer transactions",
                "Commit to one table after the other",
            )
        body = {
            "table-changes": [
                {
                    "identifier": _named(identifier),
                    "requirements": list(requirements),
                    "updates": list(updates),
                }
                for identifier, requirements, updates in changes
            ]
        }
        target = Target(Kind.COMMIT, changes[0][0])
        self._write("POST", self.server.routes.at("transactions/commit"), target, body)

    # How requests are made

    def _ask_server(self) -> Server:
        target = Target(Kind.CONFIG)
        query = {"warehouse": self.config.warehouse} if self.config.warehouse else None
        told = self._transport.send("GET", "config", target, safe=True, query=query).json(target)
        defaults, overrides = _strings(told.get("defaults")), _strings(told.get("overrides"))
        # The server's defaults yield to ours, its overrides do not.
        ours = {"prefix": self.config.prefix} if self.config.prefix else {}
        if self.config.native_lance_tables:
            ours[NATIVE] = "true"
        if self.config.only_lance_tables:
            ours[ONLY_LANCE] = "true"
        properties = {**defaults, **ours, **overrides}
        endpoints = told.get("endpoints")
        return Server(
            routes=Routes(
                prefix=properties.get("prefix", "").strip("/"),
                separator=properties.get("namespace-separator") or "%1F",
            ),
            endpoints=frozenset(map(str, endpoints)) if isinstance(endpoints, list) else None,
            properties=properties,
            remembers_keys="idempotency-key-lifetime" in {**told, **properties},
        )

    def _read(
        self, method: str, path: str, target: Target, query: Mapping[str, str] | None = None
    ) -> Answer:
        return self._transport.send(method, path, target, safe=True, query=query)

    def _write(self, method: str, path: str, target: Target, body: Mapping[str, Any]) -> Answer:
        # A server that remembers keys makes a repeated request the same request.
        remembers = self.server.remembers_keys
        headers = {"Idempotency-Key": str(_uuid7())} if remembers else None
        return self._transport.send(
            method, path, target, safe=remembers, body=body, headers=headers
        )

    def _remove(self, path: str, target: Target, query: Mapping[str, str]) -> None:
        try:
            self._transport.send("DELETE", path, target, safe=False, query=query)
        except OutcomeUnknownError:
            try:
                self._transport.send("DELETE", path, target, safe=True, query=query)
            except NotFoundError:
                return  # it was there before the first request, and is gone

    def _pages(self, path: str, target: Target, query: Mapping[str, str]) -> Iterator[Json]:
        """Yield every page. A server may page unasked, or not at all; a circle is an error."""
        asked = dict(query)
        if self.config.page_size is not None:
            asked |= {"pageSize": str(self.config.page_size), "pageToken": ""}
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            page = self._read("GET", path, target, asked).json(target)
            yield page
            token = page.get("next-page-token")
            if not token:
                return
            if not isinstance(token, str) or token in seen:
                break
            seen.add(token)
            asked["pageToken"] = token
        raise _unreadable(target, "its pages go round in a circle")


def _named(identifier: Identifier) -> Json:
    if len(identifier) < 2:
        raise InvalidInputError(
            f"The table {show(identifier)} cannot be in an Iceberg catalog",
            "such a catalog keeps every table in a namespace",
            "Give the table a namespace",
        )
    return {"namespace": list(identifier[:-1]), "name": identifier[-1]}


def _told(answer: Answer, target: Target) -> Json:
    """Read the answer to a request that was carried out: what it says besides is not vital."""
    try:
        return answer.json(target)
    except ServiceUnavailableError:
        return {}


def _list(page: Json, key: str, target: Target) -> list[Any]:
    value = page.get(key)
    if not isinstance(value, list):
        raise _unreadable(target, f"`{key}` is not a list")
    return value


def _strings(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _unreadable(target: Target, why: str) -> ServiceUnavailableError:
    return ServiceUnavailableError(
        f"The catalog's answer about {target} cannot be read",
        why,
        "Check that the endpoint is an Iceberg REST catalog",
    )


def _uuid7() -> uuid.UUID:
    """Make a UUID that sorts by time, as servers expect of an idempotency key (RFC 9562)."""
    value = (time.time_ns() // 1_000_000) << 80 | uuid.uuid4().int & ((1 << 80) - 1)
    value = value & ~(0xF << 76) | 7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 2 << 62)
