"""How far long work is: whoever does it tells, whoever wants to know listens."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


Listener = Callable[[str, int, int], None]
"""Takes note of what is being done, how many of its parts are done, and how many there are."""

_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Listen to all work that is done inside this block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def each(items: Collection[T], doing: str) -> Iterator[T]:
    """Go through the parts of a piece of work, telling how far it is."""
    return counted(items, doing, len(items))


def counted(items: Iterable[T], doing: str, total: int) -> Iterator[T]:
    """Go through parts that come one by one, of which the number is known."""
    listener = _LISTENER.get()
    if listener is None:
        yield from items
        return
    listener(doing, 0, total)
    for done, item in enumerate(items, 1):
        yield item
        listener(doing, done, total)
