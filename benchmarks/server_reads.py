"""Warm reads over HTTP: describe, exists and list, beside the Rust adapter of pylance."""

import os
from collections.abc import Iterable

from benchmarks import servers
from benchmarks.catalogs import TABLES_PER_NAMESPACE, catalog, namespace_name
from benchmarks.report import HIGHER, LOWER, Row, size_label

# As many processes as there are cores: the peer is one process with a thread for each of them.
WORKERS = len(os.sched_getaffinity(0))
TITLE = f"Server: warm reads over HTTP, {WORKERS} workers, 32 connections"
PEER = "pylance RestAdapter"

_TABLE = """
wrk.method = "POST"
wrk.body = "{}"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer " .. token
local n = 0
request = function()
  n = n + 1
  local space = math.floor(n / %(tables)d) %% %(spaces)d
  local path = string.format("/v1/table/space%%05d%%%%24table%%05d/%(action)s", space,
    n %% %(tables)d + 1)
  return wrk.format(nil, path)
end
"""
_LIST = """
wrk.headers["Authorization"] = "Bearer " .. token
local n = 0
request = function()
  n = n + 1
  return wrk.format(nil, string.format("/v1/namespace/space%%05d/table/list?limit=20",
    n %% %(spaces)d))
end
"""


def run(*, quick: bool) -> Iterable[Row]:
    seconds = 2 if quick else 5
    for objects, bar in ((1_000, 5.0),) if quick else ((1_000, 5.0), (100_000, 25.0)):
        spaces = max(1, objects // (TABLES_PER_NAMESPACE + 1))
        assert namespace_name(0) == "space00000"
        scripts = {
            action: _TABLE % {"tables": TABLES_PER_NAMESPACE, "spaces": spaces, "action": action}
            for action in ("describe", "exists")
        } | {"list": _LIST % {"spaces": spaces}}
        with (
            catalog(objects) as root,
            servers.ours(root, WORKERS) as us,
            servers.peer(root) as them,
        ):
            for what, script in scripts.items():
                yield from _compare(what, script, size_label(objects), bar, us, them, seconds)
            yield Row("memory", size_label(objects), us.memory_mb(), them.memory_mb(), "MB")


def _compare(
    what: str,
    script: str,
    size: str,
    bar: float,
    us: servers.Running,
    them: servers.Running,
    seconds: int,
) -> Iterable[Row]:
    for server in (us, them):
        servers.wrk(server, script, seconds=1, connections=32)
    # In turns, so that a noisy machine disturbs both alike; the better of two rounds counts.
    rounds = [
        [servers.wrk(server, script, seconds=seconds, connections=32) for server in (us, them)]
        for _ in range(2)
    ]
    mine = max((pair[0] for pair in rounds), key=lambda load: load.per_second)
    theirs = max((pair[1] for pair in rounds), key=lambda load: load.per_second)
    note = f"failed: {mine.failed} / {theirs.failed}"
    yield Row(what, size, mine.per_second, theirs.per_second, "requests/s", bar, HIGHER, note)
    yield Row(f"{what}, CPU", size, mine.cpu_us, theirs.cpu_us, "µs/request", bar, LOWER)
    yield Row(f"{what}, p99", size, mine.p99_ms, theirs.p99_ms, "ms", None, LOWER)
