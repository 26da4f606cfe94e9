"""Groups of objects, and the calls that clients make on them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import lance_namespace as spec
import pyarrow as pa

from tests.asking import Lake, arrow_stream
from tests.histories.catalogs import KINDS, Kind
from tests.histories.objects import READS, Counter, Model, Names
from tests.server.http import Client

ROWS: Final = 48
NAMES: Final = "abcd"
_PATTERN: Final = ("namespaces", "tables", "tables", "rows", "counter")
_CALLS: Final = {"namespaces": 240, "tables": 240, "rows": 60, "counter": 40}


@dataclass(frozen=True)
class Group:
    """Objects that one call can span, and how often they are called."""

    key: str
    kind: str
    parent: tuple[str, ...]
    names: tuple[str, ...]
    calls: int

    @property
    def model(self) -> Model:
        return Counter() if self.kind == "counter" else Names(self.names)


def groups_of(catalog: str, count: int) -> list[Group]:
    """Give the groups of a history of about so many calls."""
    found: list[Group] = []
    left, number = count, 0
    while left > 0:
        kind = _PATTERN[number % len(_PATTERN)]
        if KINDS[catalog].is_flat and kind == "namespaces":
            kind = "tables"
        calls = min(_CALLS[kind], left)
        found.append(_group(catalog, kind, number, calls))
        left, number = left - calls, number + 1
    return found


def _group(catalog: str, kind: str, number: int, calls: int) -> Group:
    parent = () if KINDS[catalog].is_flat or kind == "namespaces" else (f"p{number}",)
    names = tuple(f"g{number}{letter}" for letter in NAMES)
    if kind == "rows":
        names = tuple(str(row) for row in range(ROWS))
    return Group(f"{catalog} {kind} {number}", kind, parent, names, calls)


def prepare(lake: Lake, groups: list[Group]) -> None:
    """Make what the calls on groups take for granted."""
    for group in groups:
        if group.parent:
            lake.create_namespace(*group.parent)
        if group.kind == "rows":
            lake.create_table(*_table(group), rows=_numbers([]))
        elif group.kind == "counter":
            lake.create_table(*_table(group), rows=_numbers([0]))


def _table(group: Group) -> tuple[str, ...]:
    return (*group.parent, f"table{group.key.rpartition(' ')[2]}")


def _numbers(numbers: list[int]) -> pa.Table:
    return pa.table({"x": pa.array(numbers, pa.int64())})


class Caller:
    """Makes the calls of one client."""

    def __init__(self, lake: Lake, catalog: str, where: str, client: str) -> None:
        self._lake = lake
        self._kind: Kind = KINDS[catalog]
        self._http = Client(where) if catalog == "server" else None
        self._client = client
        self._rows: dict[str, list[str]] = {}

    def invented(self, group: Group, chance: random.Random) -> tuple[str, tuple[str, ...]]:
        """Think of a call: its verb and its names."""
        if group.kind == "counter":
            return chance.choice(["add", "count"]), ()
        if group.kind == "rows":
            return self._on_rows(group, chance)
        verbs = ["create", "create", "drop", "read", "read", "exists", "list", "list"]
        if group.kind == "tables" and not self._kind.is_flat:
            verbs += ["rename"]
            verbs += ["batch"] if self._kind.has_batches else []
        if group.kind == "namespaces" and self._kind.overwrites:
            verbs += ["put"]
        verb = chance.choice(verbs)
        if self._kind.is_flat and verb in ("create", "drop"):
            return self._alone(group, verb, chance)
        if verb == "list":
            return verb, ()
        if verb in ("batch", "rename"):
            one, two = chance.sample(group.names, 2)
            return "create" if verb == "batch" else verb, (one, two)
        return verb, (chance.choice(group.names),)

    def _alone(self, group: Group, verb: str, chance: random.Random) -> tuple[str, tuple[str, ...]]:
        """In V1 a drop hides a directory and then empties it, whoever has come there meanwhile.

        So all may race for the first name, which nobody drops; each other name has one writer.
        """
        number = int(self._client[1:])
        if 1 <= number < len(group.names) and chance.random() < 0.8:
            return verb, (group.names[number],)
        return "create", (group.names[0],)

    def _on_rows(self, group: Group, chance: random.Random) -> tuple[str, tuple[str, ...]]:
        # Each row is inserted once, by one client: nothing else makes it unique.
        number = int(self._client[1:])
        own = self._rows.setdefault(group.key, list(group.names[number % 8 :: 8]))
        verb = chance.choice(["create", "create", "erase", "list", "exists"])
        if verb == "create" and own:
            return verb, (own.pop(0),)
        if verb in ("create", "list"):
            return "list", ()
        return verb, (chance.choice(group.names),)

    def does(self, group: Group, verb: str, names: tuple[str, ...], value: str) -> Any:
        """Make a call, and give its answer."""
        if group.kind in ("rows", "counter"):
            return self._inside(group, verb, names)
        on: dict[str, Callable[..., Any]] = {
            "namespaces": self._namespaces,
            "tables": self._tables,
        }
        return on[group.kind](group, verb, names, value)

    def _namespaces(self, group: Group, verb: str, names: tuple[str, ...], value: str) -> Any:
        lake, full = self._lake, (*group.parent, *names[:1])
        match verb:
            case "list":
                return frozenset(lake.namespaces(*group.parent)) & frozenset(group.names)
            case "read":
                return lake.describe_namespace(*full)["v"]
            case "exists":
                return lake.namespace_exists(*full)
            case "create":
                return lake.create_namespace(*full, properties={"v": value})
            case "put":
                return lake.create_namespace(*full, properties={"v": value}, mode="Overwrite")
            case _:
                return lake.drop_namespace(*full)

    def _tables(self, group: Group, verb: str, names: tuple[str, ...], value: str) -> Any:
        lake, full = self._lake, (*group.parent, *names[:1])
        properties = {} if self._kind.is_flat else {"properties": {"v": value}}
        match verb:
            case "list":
                return frozenset(lake.tables(*group.parent)) & frozenset(group.names)
            case "read":
                described = lake.describe_table(*full)
                return value if self._kind.is_flat else (described.properties or {})["v"]
            case "exists":
                return lake.table_exists(*full)
            case "rename":
                return lake.rename_table(*full, to=names[1])
            case "drop" if not self._kind.is_flat and value.endswith("1"):
                return lake.deregister_table(*full)
            case "drop":
                return lake.drop_table(*full)
            case "create" if len(names) > 1:
                return self._batch([{"id": [*group.parent, name], **properties} for name in names])
            case _:
                return lake.declare_table(*full, **properties)

    def _batch(self, tables: list[dict[str, Any]]) -> None:
        request = {"operations": [{"declare_table": table} for table in tables]}
        if self._http is None:
            self._lake.client.batch_commit_tables(request)
            return
        # Lance's own client has no word for it.
        answer = self._http.post("/v1/table/batch-commit", request)
        if answer.status != 200:
            raise spec.from_error_code(answer.json["code"], answer.json["error"])

    def _inside(self, group: Group, verb: str, names: tuple[str, ...]) -> Any:
        client, table = self._lake.client, list(_table(group))
        match verb:
            case "create":
                request = spec.InsertIntoTableRequest(id=table)
                return client.insert_into_table(request, arrow_stream(_numbers([int(names[0])])))
            case "erase":
                predicate = f"x = {names[0]}"
                return client.delete_from_table(
                    spec.DeleteFromTableRequest(id=table, predicate=predicate)
                )
            case "exists":
                predicate = f"x = {names[0]}"
                counted = client.count_table_rows(
                    spec.CountTableRowsRequest(id=table, predicate=predicate)
                )
                return getattr(counted, "count", counted) > 0
            case "add":
                updates = [["x", "x + 1"]]
                return client.update_table(spec.UpdateTableRequest(id=table, updates=updates))
        query = spec.QueryTableRequest(id=table, k=1000, vector={})
        answer = client.query_table(query)
        found = pa.ipc.open_file(getattr(answer, "data", answer)).read_all()["x"].to_pylist()
        return found[0] if verb == "count" else frozenset(map(str, found))


def answer_of(verb: str, answer: Any) -> Any:
    """Keep of an answer what the history judges."""
    return answer if verb in READS else None
