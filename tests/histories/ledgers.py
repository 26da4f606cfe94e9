"""Ledgers in real catalogs: lists that transactions append to and snapshots read."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

import lance
import pyarrow as pa
from lance_namespace import ConcurrentModificationError as Conflict

from lakeroot.catalog import Catalog
from lakeroot.metastore import Metastore
from lakeroot.model.commits import AlterTable, Unchanged
from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.model.records import Table
from tests.asking import Lake
from tests.histories.catalogs import opened
from tests.histories.events import Outcome
from tests.histories.ledger import Entry, Lists, anomalies
from tests.histories.running import Judged

TABLES: Final = ("x", "y", "z")
_CALLS: Final = 120
"""How many calls are made on one ledger; then the next is begun, so that lists stay short."""


class Ledger(Protocol):
    """Lists, in groups that are transacted on together."""

    def begin(self, ledger: str) -> None:
        """Make the lists of a ledger, empty."""

    def append(self, ledger: str, name: str, tables: tuple[str, ...], *, reads: bool) -> Lists:
        """Append a name to lists in one transaction, and tell what was read in it."""

    def newest(self) -> int:
        """Give the newest version of the catalog."""

    def look(self, ledger: str, version: int) -> Lists:
        """Read all lists of a ledger as of a version."""


class Properties:
    """Lists in the properties of tables, changed by commits that require what was read."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def begin(self, ledger: str) -> None:
        self._catalog.create_namespace((ledger,))
        self._catalog.declare_tables([((ledger, table), {}) for table in TABLES])

    def append(self, ledger: str, name: str, tables: tuple[str, ...], *, reads: bool) -> Lists:
        found = {table: self._catalog.table((ledger, table)) for table in tables}
        saw = {table: _listed(record) for table, record in found.items()}
        self._catalog.commit(
            *(
                AlterTable((ledger, table), {"list": " ".join((*saw[table], name))})
                for table in tables
            ),
            requires=[Unchanged(record.identifier, record) for record in found.values()],
        )
        return saw

    def newest(self) -> int:
        return next(iter(self._catalog.history(1))).version

    def look(self, ledger: str, version: int) -> Lists:
        past = self._catalog.at(version)
        return {table: _listed(past.table((ledger, table))) for table in TABLES}


def _listed(record: Table) -> tuple[str, ...]:
    return tuple(record.properties.get("list", "").split())


class Rows:
    """Lists in the rows of tables, changed by the transactions of a namespace."""

    def __init__(self, namespace: Any) -> None:
        self._namespace = namespace

    def begin(self, ledger: str) -> None:
        lake = Lake(self._namespace)
        lake.create_namespace(ledger)
        for table in TABLES:
            lake.create_table(ledger, table, rows=_names([]))

    def append(self, ledger: str, name: str, tables: tuple[str, ...], *, reads: bool) -> Lists:
        saw: dict[str, tuple[str, ...]] = {}
        with self._namespace.transaction(name) as tx:
            for table in tables:
                if reads:
                    saw[table] = _rows(tx.dataset([ledger, table]))
                tx.append([ledger, table], _names([name]))
        return saw

    def newest(self) -> int:
        return int(self._namespace.history(1)[0].version)

    def look(self, ledger: str, version: int) -> Lists:
        past = self._namespace.at(version=version)
        return {
            table: _rows(lance.dataset(namespace_client=past, table_id=[ledger, table]))
            for table in TABLES
        }


def _names(names: list[str]) -> pa.Table:
    return pa.table({"name": pa.array(names, pa.string())})


def _rows(dataset: Any) -> tuple[str, ...]:
    return tuple(dataset.to_table()["name"].to_pylist())


class Transactions:
    """Lists in the properties of a metastore's namespaces, changed by its own transactions."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._known: dict[int, str] = {}

    def begin(self, ledger: str) -> None:
        with self._metastore.transaction() as txn:
            for table in TABLES:
                txn.create_namespace(f"{ledger}{table}", properties={"list": ""})

    def append(self, ledger: str, name: str, tables: tuple[str, ...], *, reads: bool) -> Lists:
        saw: dict[str, tuple[str, ...]] = {}
        with self._metastore.transaction() as txn:
            for table in tables:
                saw[table] = _held(txn, ledger, table)
                value = " ".join((*saw[table], name))
                txn.update_namespace(f"{ledger}{table}", properties={"list": value})
        return saw

    def newest(self) -> int:
        return self._metastore.view().snapshot.sequence

    def look(self, ledger: str, version: int) -> Lists:
        marks = self._metastore.log.sync().sequences
        names = {sequence: txn_id for txn_id, sequence in marks.items()}
        view = self._metastore.view(names[version])
        return {table: _held(view, ledger, table) for table in TABLES}


def _held(view: Any, ledger: str, table: str) -> tuple[str, ...]:
    properties: Mapping[str, str] = view.namespace(f"{ledger}{table}").properties or {}
    return tuple(properties["list"].split())


LEDGERS: Final = (
    "memory",
    "dir-v2",
    "dir-compat",
    "dir-managed",
    "metastore",
    "metastore-deltacat-2",
)


def _open(catalog: str, where: str) -> Ledger:
    if catalog == "dir-managed":
        return Rows(opened(catalog, where))
    if catalog.startswith("metastore"):
        layout = "deltacat-2" if catalog.endswith("2") else "spec"
        return Transactions(Metastore.open(where, layout=layout))
    return Properties(opened(catalog, where).catalog)


class _Player:
    """One client of the ledgers."""

    def __init__(self, ledger: Ledger, client: str, seed: int, tell: Any) -> None:
        self._ledger = ledger
        self._client = client
        self._chance = random.Random(f"{seed}-{client}")
        self._tell = tell

    def play(self, ledger: str, calls: int) -> None:
        for number in range(calls):
            if self._chance.random() < 0.5:
                self._append(ledger, f"{self._client}.{number}")
            else:
                self.look(ledger)

    def _append(self, ledger: str, name: str) -> None:
        tables = tuple(self._chance.sample(TABLES, self._chance.choice([1, 2, 2, 3])))
        reads = self._chance.random() < 0.5
        entry = Entry(self._client, ledger, name, tables, began=time.monotonic_ns())
        try:
            saw = self._ledger.append(ledger, name, tables, reads=reads)
        except (ConcurrentModificationError, Conflict):
            self._tell(replace(entry, ended=time.monotonic_ns(), outcome=Outcome.REFUSED))
            return
        done = replace(entry, saw=saw, ended=time.monotonic_ns(), outcome=Outcome.OK)
        self._tell(done)

    def look(self, ledger: str, *, is_past: bool | None = None) -> None:
        began = time.monotonic_ns()
        newest = self._ledger.newest()
        past = self._chance.random() < 0.3 if is_past is None else is_past
        version = max(newest - self._chance.randint(0, 3), self.first) if past else newest
        saw = self._ledger.look(ledger, version)
        self._tell(
            Entry(self._client, ledger, "", (), saw, version, began, time.monotonic_ns(),
                  Outcome.OK, past and version != newest)
        )  # fmt: skip

    first = 0


def transact(catalog: str, directory: Path, seed: int, count: int, clients: int = 4) -> Judged:
    """Let clients transact and look, each with a catalog of its own, and judge every ledger."""
    where = str(directory / "ledger")
    first = _open(catalog, where)
    entries: dict[str, list[Entry]] = defaultdict(list)
    lock = threading.Lock()

    def tell(entry: Entry) -> None:
        with lock:
            entries[entry.ledger].append(entry)

    people = [
        _Player(first if catalog == "memory" else _open(catalog, where), f"c{n}", seed, tell)
        for n in range(clients)
    ]
    started = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        for number in range(-(-count // _CALLS)):
            ledger = f"l{number}"
            first.begin(ledger)
            begun = first.newest()
            for person in people:
                person.first = begun
            for done in [pool.submit(p.play, ledger, _CALLS // clients) for p in people]:
                done.result()
            people[0].look(ledger, is_past=False)
    found = Judged(sum(map(len, entries.values())), seconds=time.monotonic() - started)
    for ledger, told in entries.items():
        found.given_up += sum(entry.outcome is Outcome.REFUSED for entry in told)
        found.wrong += [f"{catalog} {ledger}: {one}" for one in anomalies(told)]
    return found
