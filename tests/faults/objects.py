"""A storage that dies: in the middle of its n-th call, or after it (so, before the next)."""

import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from lakeroot.model.errors import ServiceUnavailableError
from lakeroot.objects import Listing, ObjectInfo, Objects


class When(StrEnum):
    """At which moment of a call the process dies."""

    TORN = "torn"
    AFTER = "after"


class Crash(BaseException):
    """The process is gone; nothing may catch this and go on."""


class Fragile:
    """Objects that fail at the n-th call and, as a dead process does, at every call after it."""

    def __init__(self, objects: Objects, at: int | None = None, when: When = When.AFTER) -> None:
        self._objects = objects
        self._at = at
        self._when = when
        self._calls = itertools.count(1)
        self._lock = threading.Lock()
        self.calls = 0
        self.tore = False

    def _is_last(self) -> bool:
        """Count a call; tell whether it is the one that fails; fail if that one is over."""
        with self._lock:
            self.calls = next(self._calls)
        if self._at is None or self.calls < self._at:
            return False
        if self.calls > self._at:
            raise Crash
        return True

    def get(self, path: str) -> bytes | None:
        last = self._is_last()
        found = self._objects.get(path)
        _die(last)
        return found

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        last = self._is_last()
        # A put of an object is whole or not there at all: that is what a storage promises.
        self._objects.put(path, data, is_named_later=is_named_later)
        _die(last)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        last = self._is_last()
        done = self._objects.put_if_absent(path, data)
        _die(last)
        return done

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        last = self._is_last()
        done = self._objects.move_if_absent(source, target, flush=flush)
        _die(last)
        return done

    def flush(self, paths: Sequence[str], *, are_named_later: bool = False) -> None:
        self._objects.flush(paths, are_named_later=are_named_later)

    def head(self, path: str) -> ObjectInfo | None:
        last = self._is_last()
        found = self._objects.head(path)
        _die(last)
        return found

    def exists(self, path: str) -> bool:
        return self.head(path) is not None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        last = self._is_last()
        found = list(self._objects.list(prefix))
        _die(last)
        return iter(found)

    def list_directory(self, prefix: str) -> Listing:
        last = self._is_last()
        found = self._objects.list_directory(prefix)
        _die(last)
        return found

    def list_names(self, prefix: str) -> tuple[str, ...]:
        last = self._is_last()
        found = self._objects.list_names(prefix)
        _die(last)
        return found

    def has_any(self, prefix: str) -> bool:
        return next(self.list(prefix), None) is not None

    def delete(self, paths: Iterable[str]) -> None:
        last = self._is_last()
        wanted = list(paths)
        # Many deletions are not one: a process can die between them.
        self.tore = last and self._when is When.TORN and len(wanted) > 1
        self._objects.delete(wanted[: len(wanted) // 2] if self.tore else wanted)
        _die(last)

    def prune_directory(self, prefix: str) -> None:
        last = self._is_last()
        self._objects.prune_directory(prefix)
        _die(last)

    def delete_directory(self, prefix: str) -> None:
        self.delete(sorted(found.path for found in self._objects.list(prefix)))


class LosesReplies:
    """Objects whose n-th writing call is done, but whose reply never arrives."""

    def __init__(self, objects: Objects, at: int) -> None:
        self._objects = objects
        self._at = at
        self._lock = threading.Lock()
        self.writes = 0

    def _lose(self) -> None:
        with self._lock:
            self.writes += 1
            is_lost = self.writes == self._at
        if is_lost:
            raise ServiceUnavailableError("The storage does not answer")

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        self._objects.put(path, data, is_named_later=is_named_later)
        self._lose()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        done = self._objects.put_if_absent(path, data)
        self._lose()
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)


class FailsEarly:
    """Objects that refuse data files at once, while markers are still on their way."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._failed = threading.Event()
        self.arrived = threading.Semaphore(0)

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        self._failed.set()
        raise ServiceUnavailableError("The storage does not answer")

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._failed.wait()
        # Whoever does not wait for the markers is long done with taking them back by now.
        time.sleep(0.02)
        done = self._objects.put_if_absent(path, data)
        self.arrived.release()
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)


def _die(last: bool) -> None:
    if last:
        raise Crash
