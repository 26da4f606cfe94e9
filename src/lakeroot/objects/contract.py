"""What every format needs of a storage: whole objects, and one atomic step, put-if-absent.

Paths are relative to the root, written with ``/``; they never start with one and never climb out
of the root. A race that is lost is a value (``False``); an error is a storage that does not answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct


class ObjectInfo(Struct, frozen=True):
    """One object as a listing shows it."""

    path: str
    size: int
    modified_ms: int
    e_tag: str | None = None


class Listing(Struct, frozen=True):
    """One level of a directory: the names of its directories, and its objects."""

    directories: tuple[str, ...]
    objects: tuple[ObjectInfo, ...]


class Objects(Protocol):
    """Objects under one root."""

    def get(self, path: str) -> bytes | None:
        """Read a whole object; nothing if there is none."""
        ...

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        """Write a whole object, in place of the one that was there.

        What is named later, by an object that is put after it, counts for nothing before that:
        where flushing the later one brings it to the disk as well, it is not waited for.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole object unless there is one; tell whether it was written. Atomic."""
        ...

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        """Give an object another name unless that is taken; tell whether it was given.

        At every moment it is there under one name at least. An old name that cannot be taken
        away stays: the new one was given all the same. Without ``flush`` a power failure may
        bring the old name back.
        """
        ...

    def flush(self, paths: Sequence[str], *, are_named_later: bool = False) -> None:
        """Wait until objects that somebody else wrote are on the disk, where there is one."""
        ...

    def head(self, path: str) -> ObjectInfo | None:
        """Describe an object; nothing if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether there is an object at the path."""
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List every object below a directory, at any depth, in no particular order."""
        ...

    def list_directory(self, prefix: str) -> Listing:
        """List one level of a directory; an absent directory is an empty one."""
        ...

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """List the names in a directory, without looking at what they name."""
        ...

    def has_any(self, prefix: str) -> bool:
        """Tell whether there is at least one object below a directory."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those already gone are fine."""
        ...

    def delete_directory(self, prefix: str) -> None:
        """Delete every object below a directory, and the directory itself where there is one."""
        ...

    def prune_directory(self, prefix: str) -> None:
        """Remove a directory without a single object, where a storage has such a thing."""
        ...


class Streams(Objects, Protocol):
    """Objects that may be larger than memory: read and written piece by piece."""

    def read_chunks(self, path: str) -> Iterator[bytes] | None:
        """Read an object in pieces of a few megabytes; nothing if there is none."""
        ...

    def write_chunks(self, path: str, chunks: Iterable[bytes], size: int) -> None:
        """Write a whole object of about this size; it is seen when it is whole, or never."""
        ...
