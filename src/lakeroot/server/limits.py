"""How much the server takes on: bytes, rows, seconds, requests at once, requests per second."""

from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic
from typing import Final

from lakeroot.server.refusals import OverloadedError, TooManyRequestsError

_MOST_CALLERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one worker process. A rate of 0 means no limit on the rate."""

    json_bytes: int = 8 << 20
    arrow_bytes: int = 512 << 20
    rows: int = 50_000_000
    request_seconds: float = 120.0
    idle_seconds: float = 20.0
    header_seconds: float = 10.0
    keep_alive_seconds: float = 30.0
    concurrency: int = 256
    requests_per_second: float = 0.0
    burst: int = 100


class Gate:
    """Counts the requests in flight and lets no more in than the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.in_flight = 0

    def enter(self) -> None:
        """Let a request in, or refuse it."""
        if self.in_flight >= self._limit:
            raise OverloadedError(
                "The server is busy",
                f"{self._limit} requests are in flight",
                headers={"Retry-After": "1"},
            )
        self.in_flight += 1

    def leave(self) -> None:
        """A request is done."""
        self.in_flight -= 1


class Rates:
    """A bucket of tokens per caller: each request takes one; they grow back at a steady rate."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(max(burst, 1))
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @property
    def limited(self) -> bool:
        """Tell whether there is a limit at all."""
        return self._per_second > 0

    def take(self, caller: str) -> None:
        """Take a token for this caller, or refuse and say when the next one is there."""
        now = monotonic()
        tokens, then = self._buckets.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._per_second)
        enough = tokens >= 1
        self._buckets[caller] = (tokens - 1 if enough else tokens, now)
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        if not enough:
            wait = max(1, round((1 - tokens) / self._per_second + 0.5))
            raise TooManyRequestsError(
                f"More than {self._per_second:g} requests a second",
                headers={"Retry-After": str(wait)},
            )
