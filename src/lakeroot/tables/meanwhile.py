"""What other writers have committed to a table since a version that somebody knows."""

from typing import Final

import lance
from lance import LanceDataset

from lakeroot.tables.made import transaction_of

ROUNDS: Final = 100
"""How often a commit is tried after versions that it may pass."""
# Neither changes rows, or looks for keys: each might as well have come later.
_PASSED: Final = frozenset({"Append", "CreateIndex"})


def is_still(newest: LanceDataset, known: LanceDataset) -> bool:
    """Tell whether a table still has a version as it was: one that was made anew has another."""
    try:
        return bool(newest.checkout_version(known.version).get_version() == known.get_version())
    except (OSError, ValueError):
        return False  # It was cleaned up, or the new table has fewer.


def may_pass(newest: LanceDataset, onto: LanceDataset) -> bool:
    """Tell whether everything that came after a version is as good as if it came later still."""
    if not is_still(newest, onto):
        return False
    made = _transactions(newest, onto)
    return all(one is not None and type(one.operation).__name__ in _PASSED for one in made.values())


def made_by(transaction: lance.Transaction, newest: LanceDataset, onto: LanceDataset) -> int | None:
    """Find the version that a transaction has made, if its answer was lost."""
    made = _transactions(newest, onto).items()
    return next((number for number, one in made if one and one.uuid == transaction.uuid), None)


def _transactions(newest: LanceDataset, onto: LanceDataset) -> dict[int, lance.Transaction | None]:
    """Give the transactions of the versions after one; nothing of those that were cleaned up."""
    found: dict[int, lance.Transaction | None] = {}
    for number in range(onto.version + 1, newest.version + 1):
        try:
            found[number] = transaction_of(newest, number)
        except (OSError, ValueError):
            found[number] = None
    return found
