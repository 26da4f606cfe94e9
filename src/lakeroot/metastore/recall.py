"""A bounded memory of values that never change."""

import contextlib
from collections import OrderedDict
from collections.abc import Container
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recall(Generic[K, V]):
    """The values used most recently, up to a number of them. Safe to use from several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        """Say how many values are kept."""
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Remember a value."""
        value = self._values.get(key)
        if value is not None:
            with contextlib.suppress(KeyError):  # another thread may just have let go of it
                self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value; the one not used for the longest time may go."""
        self._values[key] = value
        while len(self._values) > self._size:
            try:
                self._values.popitem(last=False)
            except KeyError:
                return

    def keep_only(self, keys: Container[K]) -> None:
        """Let go of the values of all other keys."""
        for key in [known for known in list(self._values) if known not in keys]:
            self._values.pop(key, None)
