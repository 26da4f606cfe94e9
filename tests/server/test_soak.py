"""A mixed load on a real server: nothing is lost, and neither memory nor open files grow.

A few seconds here; `LAKEROOT_SOAK_SECONDS=3600` makes an hour of it, and with `pytest -s` each
eighth of it is reported: requests a second, how long they took, memory, open files.
"""

import itertools
import os
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from tests.server.http import Client
from tests.server.processes import Served, served
from tests.server.test_lance_clients import stream

SECONDS = float(os.environ.get("LAKEROOT_SOAK_SECONDS", "6"))
SLICES = 8
CLIENTS = 6
ROWS = stream(pa.table({"x": pa.array([1, 2, 3], pa.int64())}))
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
# A table is written anew, and a name dropped, before there are more of them than this: a load that
# leaves the catalog as large as it found it, so that what still grows is a leak.
INSERTS = 64
NAMES = 16
# Allocators and caches settle during the first rounds; a leak grows with every request.
ROOM_MB = 48


class Worked:
    """What one client did, and was told had happened."""

    def __init__(self, url: str, number: int) -> None:
        self.http = Client(url)
        self.number = number
        self.tables: list[str] = []
        self.inserts = 0
        self.requests = 0
        self.rounds = itertools.count()
        self.milliseconds: Counter[int] = Counter()

    def until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self.round(next(self.rounds))

    def round(self, round_: int) -> None:
        name = f"c{self.number}r{round_}"
        self.ask("POST", f"/v1/table/soak%24{name}/declare", {})
        self.tables.append(name)
        if round_ % 8 == 0:
            if self.inserts == INSERTS:
                self.ask("POST", f"/v1/table/soak%24rows{self.number}/create?mode=overwrite", ROWS)
                self.inserts = 0
            self.ask("POST", f"/v1/table/soak%24rows{self.number}/insert", ROWS)
            self.inserts += 1
            self.ask("POST", f"/v1/table/soak%24rows{self.number}/count_rows", {})
        for action in ("describe", "exists"):
            self.ask("POST", f"/v1/table/soak%24{name}/{action}", {})
        self.ask("GET", "/v1/namespace/soak/table/list?limit=20")
        self.ask("GET", "/iceberg/v1/namespaces")
        if round_ % 32:
            self.drop(name)
        elif len(self.tables) > NAMES:
            self.drop(self.tables[0])
        # What is wrong is refused, again and again, and costs nothing either.
        for path, body, status in (
            ("/v1/table/soak%24none/describe", {}, 404),
            ("/v1/table/soak%24none/insert", b"no arrow at all", 400),
            ("/v1/namespace/soak/create", b'{"id":', 400),
        ):
            headers = ARROW if path.endswith("insert") else None
            assert self.http.post(path, body, headers=headers).status == status
        self.requests += 3

    def drop(self, name: str) -> None:
        self.ask("POST", f"/v1/table/soak%24{name}/drop")
        self.tables.remove(name)

    def ask(self, method: str, path: str, body: object = None) -> None:
        headers = ARROW if isinstance(body, bytes) else None
        start = time.monotonic()
        answer = self.http.call(method, path, body, headers=headers)
        self.milliseconds[round((time.monotonic() - start) * 1000)] += 1
        assert answer.status == 200, (method, path, answer.body)
        self.requests += 1


def report(clients: list[Worked], seconds: float, memory: float, files: int) -> None:
    """Say what a part of the load looked like; the counts begin anew."""
    taken: Counter[int] = Counter()
    for client in clients:
        taken += client.milliseconds
        client.milliseconds.clear()
    in_order = sorted(taken.elements())
    if not in_order:
        return
    middle, late = in_order[len(in_order) // 2], in_order[int(len(in_order) * 0.99)]
    sys.stdout.write(
        f"{len(in_order) / seconds:.0f} requests/s, half within {middle} ms, 99% within {late} ms, "
        f"longest {in_order[-1]} ms, {memory:.0f} MB, {files} open files\n"
    )


def measured(server: Served) -> tuple[float, int]:
    """The memory in MB and the open files of a server."""
    pid = server.process.pid
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_a_mixed_load_leaks_nothing_and_loses_nothing(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with served(
        str(tmp_path / "lake"), "--log-format", "none", "--audit-log", str(audit)
    ) as server, Client(server.url) as http:  # fmt: skip
        assert http.post("/v1/namespace/soak/create", {}).status == 200
        clients = [Worked(server.url, number) for number in range(CLIENTS)]
        for client in clients:
            client.ask("POST", f"/v1/table/soak%24rows{client.number}/create", ROWS)
            client.round(next(client.rounds))
        with ThreadPoolExecutor(CLIENTS) as pool:

            def load(seconds: float) -> tuple[float, int]:
                deadline = time.monotonic() + seconds
                list(pool.map(lambda client: client.until(deadline), clients))
                found = measured(server)
                report(clients, seconds, *found)
                return found

            samples = [load(SECONDS / SLICES) for _ in range(SLICES)]
        # The second half is what is looked at.
        memory, files = samples[SLICES // 2]
        later, open_later = samples[-1]
        assert later - memory < ROOM_MB, f"{memory:.0f} MB, then {later:.0f} MB"
        assert open_later <= files + 4, f"{files} open files, then {open_later}"
        kept = set(http.get("/v1/namespace/soak/table/list").json["tables"])
        expected = {name for client in clients for name in client.tables}
        assert kept == expected | {f"rows{client.number}" for client in clients}
        for client in clients:
            count = http.post(f"/v1/table/soak%24rows{client.number}/count_rows", {}).json
            assert count == 3 + 3 * client.inserts
        assert http.get("/readyz").status == 200
    assert server.process.returncode in (0, -15)
    assert sum(client.requests for client in clients) > 0
    assert audit.read_text().count('"event":"done"') == audit.read_text().count(
        '"event":"attempt"'
    ) - audit.read_text().count('"event":"failed"')
