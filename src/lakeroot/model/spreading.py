"""Long work that falls into parts: one process does them all, or many do some each."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Spread(Protocol):
    """Lets some work be done on many items, and gives what it says of each, in their order.

    The work takes a group of items at a time, so that what it needs is opened once for all of
    them. It and the items may go to other processes: they pickle.
    """

    def __call__(
        self, work: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item]
    ) -> list[Result]:
        """Do the work on all items."""
        ...


def here(work: Callable[[Sequence[Item]], Sequence[Result]], items: Sequence[Item]) -> list[Result]:
    """Do the work in this process."""
    return list(work(items))
