"""Clients of a catalog, as threads or as processes of their own, and what they saw."""

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from lance_namespace import LanceNamespaceError

from tests.asking import Lake
from tests.histories.catalogs import KINDS, opened
from tests.histories.events import NEVER, Call, Outcome, written
from tests.histories.groups import Caller, Group, answer_of, groups_of
from tests.histories.objects import EXISTS, MISSING, READS

_REFUSALS: Final = {1: MISSING, 4: MISSING, 2: EXISTS, 5: EXISTS}
_GIVEN_UP: Final = {14, 21}
"""Another writer was faster, or the server is busy: nothing was done, and nothing is known."""

Tell = Callable[[Call], None]


def play(
    lake: Lake, catalog: str, where: str, client: str, seed: int, share: int, count: int, tell: Tell
) -> None:
    """Make this client's share of the calls; tell each before it begins and after it ended."""
    chance = random.Random(f"{seed}-{client}")
    caller = Caller(lake, catalog, where, client)
    number = 0
    for group in groups_of(catalog, count):
        for _ in range(max(1, group.calls // share)):
            number += 1
            verb, names = caller.invented(group, chance)
            value = "here" if KINDS[catalog].is_flat else f"{client}.{number}"
            call = Call(client, group.key, verb, names, value, time.monotonic_ns())
            tell(call)
            tell(_made(caller, group, call))


def _made(caller: Caller, group: Group, call: Call) -> Call:
    try:
        answer = caller.does(group, call.verb, call.names, call.value or "")
    except LanceNamespaceError as error:
        code = int(error.code)
        ended = replace(call, ended=time.monotonic_ns())
        if code in _GIVEN_UP:
            return replace(ended, verb="given up", outcome=Outcome.REFUSED, answer=code)
        if code in _REFUSALS:
            if call.verb in READS:  # that it is not there is an answer as good as any
                return replace(ended, outcome=Outcome.OK, answer=None)
            return replace(ended, outcome=Outcome.REFUSED, answer=_REFUSALS[code])
        return replace(ended, ended=NEVER, answer=f"code {code}: {error}")
    return replace(
        call,
        ended=time.monotonic_ns(),
        outcome=Outcome.OK,
        answer=answer_of(call.verb, answer),
        value=None if call.verb in READS else call.value,
    )


class Log:
    """Keeps what clients told; a call that was begun and never ended stays as it began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, int], Call] = {}

    def tell(self, call: Call) -> None:
        with self._lock:
            self._calls[call.client, call.began] = call

    def calls(self) -> list[Call]:
        return list(self._calls.values())


def main() -> None:
    """Be a client: say that it is ready, wait for a line, and tell every call on stdout."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    lake = Lake(opened(given["catalog"], given["where"]))
    lake.tables()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()

    def tell(call: Call) -> None:
        sys.stdout.write(written(call) + "\n")
        sys.stdout.flush()

    play(lake=lake, tell=tell, **given)


if __name__ == "__main__":
    main()
