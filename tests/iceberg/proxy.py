"""A proxy between a client and a real catalog that loses requests and answers on order."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import urllib3

from tests.iceberg.servers import Misbehaving, Reply, Request, misbehaving

_OWN_HEADERS = ("host", "content-length")


class Fault(Enum):
    """What happens to a request."""

    LOST_REQUEST = "the connection dies before the request is carried out"
    LOST_REPLY = "the request is carried out, then the connection dies"
    FAILED_REPLY = "the request is carried out, then the answer is 500"
    UNAVAILABLE = "the request is refused with 503"
    UNAUTHORIZED = "the request is refused with 401"
    EXPIRED = "the request is refused with 419"
    GARBLED_REPLY = "the request is carried out, then the answer is no JSON"


_REFUSALS = {Fault.UNAVAILABLE: 503, Fault.UNAUTHORIZED: 401, Fault.EXPIRED: 419}


@dataclass
class Proxy:
    """The faults to come, each for the next request that it is meant for."""

    endpoint: str = ""
    faults: list[tuple[Callable[[Request], bool], Fault]] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    left: int | None = None
    server: Misbehaving | None = None

    def next_write(self, fault: Fault, times: int = 1) -> None:
        """Let a fault befall the next requests that change something."""
        self.faults += [(_is_write, fault)] * times

    def die_after(self, writes: int) -> None:
        """Refuse everything once so many changes were carried out, as after a crash."""
        self.left = writes

    def fault_for(self, request: Request) -> Fault | None:
        if self.left is not None and self.left <= 0:
            return Fault.LOST_REQUEST
        for index, (meant_for, fault) in enumerate(self.faults):
            if meant_for(request):
                del self.faults[index]
                return fault
        return None


@contextmanager
def proxy(upstream: str) -> Iterator[Proxy]:
    pool = urllib3.PoolManager(maxsize=8)
    state = Proxy()

    def behave(request: Request) -> Reply | None:
        fault = state.fault_for(request)
        if fault is Fault.LOST_REQUEST:
            return None
        if fault in _REFUSALS:
            return _REFUSALS[fault], b""
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _OWN_HEADERS}
        body = request.body
        data = body if isinstance(body, str) or body is None else json.dumps(body)
        reply = pool.request(
            request.method, upstream + request.path, body=data, headers=headers, retries=False
        )
        if _is_write(request):
            state.passed.append(f"{request.method} {request.path}")
            state.left = None if state.left is None else state.left - 1
        if fault is Fault.LOST_REPLY:
            return None
        if fault is Fault.FAILED_REPLY:
            return 500, b""
        if fault is Fault.GARBLED_REPLY and reply.status < 300:
            return reply.status, b"{half"
        return reply.status, reply.data

    with misbehaving(behave) as server:
        state.endpoint = server.endpoint
        state.server = server
        yield state
    pool.clear()


def _is_write(request: Request) -> bool:
    return request.method != "GET" and not request.path.endswith("/tokens")
