"""What single objects of a catalog may do, one call after the other: the sequential specification.

A group is the smallest set of objects that a call can span: the names of one namespace (a rename
and a list touch several of them), the rows of one table, one counter. Groups know nothing of each
other, so each group's history is judged by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.histories.events import Call, Outcome

MISSING, EXISTS = "missing", "exists"
State = Any

READS = frozenset({"read", "exists", "list", "count"})


@dataclass(frozen=True)
class Names:
    """Names that are free, or taken with a value."""

    names: tuple[str, ...]

    @property
    def initial(self) -> State:
        return (None,) * len(self.names)

    def step(self, state: State, call: Call) -> State | None:
        """Give the state after a call, or nothing if the call could not have answered so."""
        places = [self.names.index(name) for name in call.names]
        if call.outcome is Outcome.REFUSED:
            return state if self._may_refuse(state, call, places) else None
        if call.verb in READS:
            return state if self._answers(state, call, places) else None
        after = self._after(state, call, places)
        if after is None and call.outcome is Outcome.UNKNOWN:
            return state
        return after

    def _answers(self, state: State, call: Call, places: Sequence[int]) -> bool:
        if call.verb == "list":
            taken = {name for name, held in zip(self.names, state, strict=True) if held is not None}
            return bool(call.answer == taken)
        held = state[places[0]]
        return bool(call.answer == (held is not None if call.verb == "exists" else held))

    def _may_refuse(self, state: State, call: Call, places: Sequence[int]) -> bool:
        held = [state[place] for place in places]
        if call.answer == EXISTS:
            taken = held[1:] if call.verb == "rename" else held
            return any(one is not None for one in taken)
        return held[0] is None

    def _after(self, state: State, call: Call, places: Sequence[int]) -> State | None:
        after = list(state)
        if call.verb == "put":
            after[places[0]] = call.value
        elif call.verb == "create":  # of several names together: a batch
            if any(state[place] is not None for place in places):
                return None
            for place in places:
                after[place] = call.value
        elif call.verb == "drop":
            if state[places[0]] is None:
                return None
            after[places[0]] = None
        elif call.verb == "rename":
            if state[places[0]] is None or state[places[1]] is not None:
                return None
            after[places[1]], after[places[0]] = state[places[0]], None
        elif call.verb == "erase":  # of a row: no error if it is gone already
            after[places[0]] = None
        else:
            raise AssertionError(call.verb)
        return tuple(after)

    def only(self, kept: frozenset[str], calls: Sequence[Call]) -> "tuple[Names, list[Call]]":
        """Look at some of the names only; what is true of all is true of them."""
        found = []
        for call in calls:
            if call.verb == "list" and call.outcome is Outcome.OK:
                found.append(replace(call, answer=call.answer & kept))
            elif call.verb != "list" and kept.intersection(call.names):
                found.append(call)
        return Names(tuple(name for name in self.names if name in kept)), found


@dataclass(frozen=True)
class Counter:
    """A number that calls add one to."""

    initial: State = 0

    def step(self, state: State, call: Call) -> State | None:
        if call.outcome is Outcome.REFUSED:
            return state
        if call.verb == "count":
            return state if call.answer == state else None
        return state + 1

    def only(self, kept: frozenset[str], calls: Sequence[Call]) -> "tuple[Counter, list[Call]]":
        return self, list(calls)


Model = Names | Counter
