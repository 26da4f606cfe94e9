"""The checker is believed because it finds every bug that was planted, and no others."""

import pytest

from tests.histories.double import BUGS, MODEL, Double, history
from tests.histories.events import Call, Outcome
from tests.histories.ledger import anomalies
from tests.histories.ledger_double import LEDGER_BUGS, LedgerDouble, ledger_history
from tests.histories.linear import counterexample, is_linearizable, smallest
from tests.histories.objects import Counter, Names

SEEDS = range(30)


def wrong(calls: list[Call]) -> list[tuple[str, list[Call], Names | Counter]]:
    """Give the groups of a history that are not linearizable."""
    found: list[tuple[str, list[Call], Names | Counter]] = []
    for group, model in (("names", MODEL), ("counter", Counter())):
        own = [call for call in calls if call.group == group]
        if not is_linearizable(own, model):
            found.append((group, own, model))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_a_correct_catalog_is_never_accused(seed: int) -> None:
    assert wrong(history(Double, seed)) == []


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    caught = [found for seed in SEEDS for found in wrong(history(BUGS[bug], seed))]
    assert len(caught) >= 3, f"{bug} was found in {len(caught)} of {len(SEEDS)} histories"

    group, calls, model = caught[0]
    text = counterexample(group, calls, model)

    _, few = smallest(calls, model)
    assert len(few) < len(calls)
    assert len(text.splitlines()) == len(few) + 1


def test_a_counterexample_is_as_small_as_the_story_it_tells() -> None:
    calls = [
        Call("w", "g", "put", ("a",), "1", 0, 1, Outcome.OK),
        Call("w", "g", "put", ("b",), "x", 2, 3, Outcome.OK),
        Call("r", "g", "list", (), None, 2, 4, Outcome.OK, frozenset({"a", "b"})),
        Call("w", "g", "put", ("a",), "2", 5, 6, Outcome.OK),
        Call("r", "g", "read", ("b",), None, 5, 6, Outcome.OK, "x"),
        Call("r", "g", "read", ("a",), None, 7, 8, Outcome.OK, "1"),
        Call("r", "g", "read", ("a",), None, 9, 10, Outcome.OK, "2"),
    ]

    starts, few = smallest(calls, MODEL)

    assert [(call.verb, call.value or call.answer) for call in few] == [("put", "2"), ("read", "1")]
    assert starts == {("1",)}


def test_overlapping_calls_may_happen_in_either_order_but_not_in_both() -> None:
    write = Call("w", "g", "put", ("a",), "1", 0, 10, Outcome.OK)
    old = Call("r", "g", "read", ("a",), None, 1, 2, Outcome.OK, None)
    new = Call("r", "g", "read", ("a",), None, 3, 4, Outcome.OK, "1")
    model = Names(("a",))

    assert is_linearizable([write, old, new], model)
    flipped = [
        write,
        Call("r", "g", "read", ("a",), None, 1, 2, Outcome.OK, "1"),
        Call("r", "g", "read", ("a",), None, 3, 4, Outcome.OK, None),
    ]
    assert not is_linearizable(flipped, model)


def test_a_call_without_an_answer_happens_late_or_never_but_once() -> None:
    model = Names(("a",))
    lost = Call("w", "g", "create", ("a",), "1", 0)

    def read(answer: str | None, began: int) -> Call:
        return Call("r", "g", "read", ("a",), None, began, began + 1, Outcome.OK, answer)

    dropped = Call("w", "g", "drop", ("a",), None, 20, 21, Outcome.OK)
    assert is_linearizable([lost, read(None, 5), read("1", 10)], model)
    assert is_linearizable([lost, read(None, 5), read(None, 10)], model)
    assert not is_linearizable([lost, read("1", 5), read(None, 10)], model)
    assert not is_linearizable([lost, read("1", 5), dropped, read("1", 30)], model)


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_transactions_are_never_accused(seed: int) -> None:
    assert anomalies(ledger_history(LedgerDouble, seed)) == []


@pytest.mark.parametrize("bug", LEDGER_BUGS)
def test_a_bug_planted_in_transactions_is_caught_by_its_name(bug: str) -> None:
    make, names = LEDGER_BUGS[bug]
    found = [anomalies(ledger_history(make, seed)) for seed in SEEDS]

    caught = [told for told in found if {one.partition(":")[0] for one in told} & names]

    assert len(caught) >= 3, found
