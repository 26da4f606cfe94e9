"""Whether a history is linearizable, after Wing & Gong, with the memory that Lowe added.

Each call must seem to happen at one moment between its beginning and its end. The search takes the
calls in an order that their times allow; what was tried from the same state with the same calls
done is not tried again. A call whose answer nobody got may happen at any time after it began, or
never.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.histories.events import NEVER, Call, Outcome
from tests.histories.objects import READS, Model, Names, State


def is_linearizable(calls: Sequence[Call], model: Model, initial: State | None = None) -> bool:
    """Tell whether some order of the calls explains every answer."""
    start = model.initial if initial is None else initial
    return _Search(calls, model).finds(start)


class _Search:
    def __init__(self, calls: Sequence[Call], model: Model) -> None:
        told = [call for call in calls if _says_something(call)]
        self._calls = sorted(told, key=lambda call: call.began)
        self._model = model
        # Of two events at the same moment the beginning comes first: both orders are allowed then.
        events = [(call.began, 0, place) for place, call in enumerate(self._calls)]
        events += [
            (call.ended, 1, place) for place, call in enumerate(self._calls) if call.ended != NEVER
        ]
        events.sort()
        size = len(events)
        self._call_of = [place for _, _, place in events]
        self._is_end = [kind == 1 for _, kind, _ in events]
        # A list with links both ways; `size` is before the first event and after the last.
        self._next = [*range(1, size), size, 0 if size else size]
        self._before = [size, *range(size)]
        if not size:
            self._before = [0]
        self._begin_at: dict[int, int] = {}
        self._end_at: dict[int, int] = {}
        for at, (_, kind, place) in enumerate(events):
            (self._end_at if kind else self._begin_at)[place] = at
        self._left = len(self._end_at)

    def finds(self, state: State) -> bool:
        """Tell whether there is an order, from a state on."""
        return next(self._orders(state), None) is not None

    def ends(self, state: State) -> set[State]:
        """Give the states that are left by all possible orders."""
        return {left[0] for left in self._orders(state)}

    def _orders(self, state: State) -> Iterator[tuple[State]]:
        nobody = len(self._call_of)
        done, first = 0, 0
        seen: set[tuple[int, int, State]] = set()
        stack: list[tuple[int, State, int, int]] = []
        at = self._next[nobody]
        while True:
            if not self._left:
                yield (state,)
            elif not self._is_end[at]:
                place = self._call_of[at]
                after = self._after(state, place)
                if after is not None:
                    then, begin = _shortened(done | 1 << (place - first), first)
                    if (begin, then, after) not in seen:
                        seen.add((begin, then, after))
                        stack.append((at, state, done, first))
                        state, done, first = after, then, begin
                        self._take_out(place)
                        at = self._next[nobody]
                        continue
                at = self._next[at]
                continue
            if not stack:
                return
            at, state, done, first = stack.pop()
            self._put_back(self._call_of[at])
            at = self._next[at]

    def _after(self, state: State, place: int) -> State | None:
        call = self._calls[place]
        after = self._model.step(state, call)
        # A call without an answer that changes nothing here might as well never have happened.
        return None if call.outcome is Outcome.UNKNOWN and after == state else after

    def _take_out(self, place: int) -> None:
        self._unlink(self._begin_at[place])
        if place in self._end_at:
            self._unlink(self._end_at[place])
            self._left -= 1

    def _put_back(self, place: int) -> None:
        if place in self._end_at:
            self._link(self._end_at[place])
            self._left += 1
        self._link(self._begin_at[place])

    def _unlink(self, at: int) -> None:
        self._next[self._before[at]] = self._next[at]
        self._before[self._next[at]] = self._before[at]

    def _link(self, at: int) -> None:
        self._next[self._before[at]] = at
        self._before[self._next[at]] = at


def _shortened(done: int, first: int) -> tuple[int, int]:
    """Write the set of calls that are done as those before a place, and the bits after it."""
    ones = (~done & (done + 1)).bit_length() - 1
    return done >> ones, first + ones


def _says_something(call: Call) -> bool:
    return call.outcome is not Outcome.UNKNOWN or call.verb not in READS


def smallest(calls: Sequence[Call], model: Model) -> tuple[set[State], list[Call]]:
    """Make a history that is not linearizable small, without making it wrong where it was right.

    Whatever is taken away leaves a history that would be linearizable if the whole were: calls
    after the first that cannot be explained, objects, reads and refusals, and a beginning after
    which all was quiet; what that left, in any order of its calls, is where the rest begins.
    """
    starts = {model.initial}
    left = _until_it_fails(sorted(calls, key=lambda call: call.began), model)
    if isinstance(model, Names):
        for name in model.names:
            kept = frozenset(model.names) - {name}
            if not kept or any(name in call.names and kept & {*call.names} for call in left):
                continue  # a call that spans both: neither can be judged without the other
            smaller, projected = model.only(kept, left)
            if not is_linearizable(projected, smaller):
                model, left = smaller, projected
                starts = {model.initial}
    for _ in range(2):
        left = _without_idle(left, model, starts)
        starts, left = _late_start(left, model, starts)
    return starts, left


def _fails(calls: Sequence[Call], model: Model, starts: set[State]) -> bool:
    return not any(_Search(calls, model).finds(start) for start in starts)


def _late_start(
    calls: list[Call], model: Model, starts: set[State]
) -> tuple[set[State], list[Call]]:
    """Leave out the longest beginning after which nothing was under way, if the rest fails."""
    for cut in range(len(calls) - 1, 0, -1):
        before, after = calls[:cut], calls[cut:]
        if max(call.ended for call in before) >= after[0].began or all(map(_is_idle, after)):
            continue
        states = {state for start in starts for state in _Search(before, model).ends(start)}
        if states and _fails(after, model, states):
            return states, after
    return starts, calls


def _until_it_fails(calls: list[Call], model: Model) -> list[Call]:
    """Cut a history after the first answer that cannot be explained."""
    ends = sorted(call.ended for call in calls if call.ended != NEVER)
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if is_linearizable(_until(calls, ends[middle]), model):
            low = middle + 1
        else:
            high = middle
    return _until(calls, ends[low])


def _until(calls: list[Call], moment: int) -> list[Call]:
    found = []
    for call in calls:
        if call.ended <= moment:
            found.append(call)
        elif call.began <= moment and call.outcome is not Outcome.REFUSED:
            found.append(replace(call, ended=NEVER, outcome=Outcome.UNKNOWN, answer=None))
    return found


def _is_idle(call: Call) -> bool:
    return call.verb in READS or call.outcome is Outcome.REFUSED


def _without_idle(calls: list[Call], model: Model, starts: set[State]) -> list[Call]:
    """Take away reads and refusals, in ever smaller pieces, as long as the rest still fails."""
    size = max(len(calls) // 2, 1)
    while True:
        at, smaller = 0, False
        while at < len(calls):
            kept = [call for call in calls[at : at + size] if not _is_idle(call)]
            rest = calls[:at] + kept + calls[at + size :]
            if len(rest) < len(calls) and _fails(rest, model, starts):
                calls, smaller = rest, True
            else:
                at += size
        if size == 1 and not smaller:
            return calls
        size = max(size // 2, 1)


def counterexample(group: str, calls: Sequence[Call], model: Model) -> str:
    """Show why a history is not linearizable, in as few calls as possible."""
    starts, few = smallest(calls, model)
    origin = min(call.began for call in few)
    title = f"{group}: no order of these {len(few)} of {len(calls)} calls explains them, "
    return "\n".join(
        [title + f"from {' or '.join(map(str, starts))}:", *(str(_since(c, origin)) for c in few)]
    )


def _since(call: Call, origin: int) -> Call:
    ended = call.ended if call.ended == NEVER else call.ended - origin
    return replace(call, began=call.began - origin, ended=ended)
