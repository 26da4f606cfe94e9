"""Objects in a dictionary, and wrappers that count calls and crash on demand."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lakeroot.objects import Listing, ObjectInfo

_CLOCK = itertools.count(1_000)


class MemoryObjects:
    """The smallest store that keeps the contract. Several may share one dictionary."""

    def __init__(self, held: dict[str, tuple[bytes, int]] | None = None) -> None:
        self.held = {} if held is None else held
        self.now_ms: Callable[[], int] = lambda: next(_CLOCK)

    def get(self, path: str) -> bytes | None:
        found = self.held.get(path)
        return None if found is None else found[0]

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        self.held[path] = (bytes(data), self.now_ms())

    def put_if_absent(self, path: str, data: bytes) -> bool:
        new = (bytes(data), self.now_ms())
        return self.held.setdefault(path, new) is new

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        if not self.put_if_absent(target, self.held[source][0]):
            return False
        self.delete([source])
        return True

    def flush(self, paths: Sequence[str], *, are_named_later: bool = False) -> None:
        """There is no disk."""

    def head(self, path: str) -> ObjectInfo | None:
        found = self.held.get(path)
        return None if found is None else ObjectInfo(path, len(found[0]), found[1])

    def exists(self, path: str) -> bool:
        return path in self.held

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        below = f"{prefix.rstrip('/')}/" if prefix else ""
        for path, (data, modified) in list(self.held.items()):
            if path.startswith(below):
                yield ObjectInfo(path, len(data), modified)

    def list_directory(self, prefix: str) -> Listing:
        below = f"{prefix.rstrip('/')}/" if prefix else ""
        directories: dict[str, None] = {}
        objects = []
        for info in self.list(prefix):
            name, slash, _ = info.path[len(below) :].partition("/")
            if slash:
                directories[name] = None
            else:
                objects.append(info)
        return Listing(tuple(directories), tuple(objects))

    def list_names(self, prefix: str) -> tuple[str, ...]:
        level = self.list_directory(prefix)
        return (*level.directories, *(info.path.rpartition("/")[2] for info in level.objects))

    def has_any(self, prefix: str) -> bool:
        return next(self.list(prefix), None) is not None

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.held.pop(path, None)

    def prune_directory(self, prefix: str) -> None:
        """There are no directories."""

    def delete_directory(self, prefix: str) -> None:
        self.delete([info.path for info in self.list(prefix)])


_CALLS = (
    "get",
    "put",
    "put_if_absent",
    "move_if_absent",
    "flush",
    "head",
    "exists",
    "list",
    "list_directory",
    "list_names",
    "has_any",
    "delete",
    "delete_directory",
)


class CountingObjects:
    """Counts the calls that reach the objects below."""

    def __init__(self, below: Any) -> None:
        self.below = below
        self.calls: Counter[str] = Counter()
        for name in _CALLS:
            setattr(self, name, self._counted(name))

    def _counted(self, name: str) -> Callable[..., Any]:
        function = getattr(self.below, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return function(*arguments, **options)

        return call

    def take(self) -> int:
        """Give the number of calls since the last time, and start again."""
        total = self.calls.total()
        self.calls.clear()
        return total


class Crash(BaseException):
    """The process ends here; no handler of the code under test may see it."""


class CrashingObjects(CountingObjects):
    """Crashes at the n-th call that writes: before it, after it, or in the middle of it."""

    def __init__(self, below: Any, at: int, how: str) -> None:
        self.at, self.how, self.writes = at, how, 0
        super().__init__(below)

    def _counted(self, name: str) -> Callable[..., Any]:
        function = super()._counted(name)
        if not name.startswith(("put", "move", "delete")):
            return function

        def call(*arguments: Any, **options: Any) -> Any:
            self.writes += 1
            if self.writes != self.at:
                return function(*arguments, **options)
            if self.how == "after":
                function(*arguments, **options)
            elif self.how == "torn" and name.startswith("put"):
                path, data = arguments
                function(path, data[: len(data) // 2])
            raise Crash

        return call
