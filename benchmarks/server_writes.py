"""64 clients create tables at once over HTTP; every one that was acknowledged must be there."""

import json
import urllib.request
from collections.abc import Iterable

from benchmarks import servers
from benchmarks.catalogs import catalog
from benchmarks.report import HIGHER, LOWER, Row, size_label

TITLE = "Server: 64 connections declare tables, every name a new one"
PEER = "pylance RestAdapter"

_DECLARE = """
wrk.method = "POST"
wrk.body = "{}"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. token
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, string.format("/v1/table/space00000%%24fresh%08d/declare", n))
end
"""


def run(*, quick: bool) -> Iterable[Row]:
    seconds = 4 if quick else 15
    for objects in (1_000,) if quick else (1_000, 10_000):
        loads = []
        for start in (servers.ours, servers.peer):
            with catalog(objects) as root, start(root) as server:
                load = servers.wrk(server, _DECLARE, seconds=seconds, connections=64)
                kept = _fresh_tables(server)
                assert kept >= load.requests, f"{load.requests} acknowledged, {kept} kept"
                loads.append((load, kept))
        (mine, my_kept), (theirs, their_kept) = loads
        size = size_label(objects)
        note = f"none lost: {mine.requests} of {my_kept}, {theirs.requests} of {their_kept} kept"
        yield Row("declare", size, mine.per_second, theirs.per_second, "tables/s", 20, HIGHER, note)
        yield Row("declare, CPU", size, mine.cpu_us, theirs.cpu_us, "µs/request", None, LOWER)
        yield Row("declare, p99", size, mine.p99_ms, theirs.p99_ms, "ms", None, LOWER)


def _fresh_tables(server: servers.Running) -> int:
    request = urllib.request.Request(
        f"{server.url}/v1/namespace/space00000/table/list",
        headers={"Authorization": f"Bearer {servers.TOKEN}"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return sum(name.startswith("fresh") for name in json.load(answer)["tables"])
