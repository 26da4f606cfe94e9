"""The objects of one directory, seen as a root of their own."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from lakeroot.objects.contract import Listing, ObjectInfo, Objects


class Below:
    """Objects below a directory of other objects."""

    def __init__(self, objects: Objects, directory: str) -> None:
        self._objects = objects
        self._prefix = directory.rstrip("/") + "/"

    def get(self, path: str) -> bytes | None:
        """Read a whole object; nothing if there is none."""
        return self._objects.get(self._prefix + path)

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        """Write a whole object, in place of the one that was there."""
        self._objects.put(self._prefix + path, data, is_named_later=is_named_later)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole object unless there is one; tell whether it was written. Atomic."""
        return self._objects.put_if_absent(self._prefix + path, data)

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        """Give an object another name unless that is taken; tell whether it was given."""
        prefix = self._prefix
        return self._objects.move_if_absent(prefix + source, prefix + target, flush=flush)

    def flush(self, paths: Sequence[str], *, are_named_later: bool = False) -> None:
        """Wait until objects that somebody else wrote are on the disk, where there is one."""
        below = [self._prefix + path for path in paths]
        self._objects.flush(below, are_named_later=are_named_later)

    def above(self, path: str) -> tuple[Objects, str]:
        """Give the objects that these are below, and an object's path among them."""
        return self._objects, self._prefix + path

    def head(self, path: str) -> ObjectInfo | None:
        """Describe an object; nothing if there is none."""
        found = self._objects.head(self._prefix + path)
        return None if found is None else replace(found, path=path)

    def exists(self, path: str) -> bool:
        """Tell whether there is an object at the path."""
        return self._objects.exists(self._prefix + path)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List every object below a directory, at any depth, in no particular order."""
        return map(self._shown, self._objects.list(self._prefix + prefix))

    def list_directory(self, prefix: str) -> Listing:
        """List one level of a directory; an absent directory is an empty one."""
        found = self._objects.list_directory(self._prefix + prefix)
        return Listing(found.directories, tuple(map(self._shown, found.objects)))

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """List the names in a directory, without looking at what they name."""
        return self._objects.list_names(self._prefix + prefix)

    def has_any(self, prefix: str) -> bool:
        """Tell whether there is at least one object below a directory."""
        return self._objects.has_any(self._prefix + prefix)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those already gone are fine."""
        self._objects.delete(self._prefix + path for path in paths)

    def delete_directory(self, prefix: str) -> None:
        """Delete every object below a directory, and the directory itself where there is one."""
        self._objects.delete_directory(self._prefix + prefix)

    def prune_directory(self, prefix: str) -> None:
        """Remove a directory without a single object, where a storage has such a thing."""
        self._objects.prune_directory(self._prefix + prefix)

    def _shown(self, found: ObjectInfo) -> ObjectInfo:
        return replace(found, path=found.path.removeprefix(self._prefix))


def flush_together(found: Iterable[tuple[Objects, str]], *, are_named_later: bool = False) -> None:
    """Flush objects of several directories: those of one root in one go."""
    for objects, paths in _by_root(found):
        objects.flush(paths, are_named_later=are_named_later)


def delete_together(found: Iterable[tuple[Objects, str]]) -> None:
    """Delete objects of several directories: those of one root in one go."""
    for objects, paths in _by_root(found):
        objects.delete(paths)


def _by_root(found: Iterable[tuple[Objects, str]]) -> Iterable[tuple[Objects, list[str]]]:
    roots: dict[int, tuple[Objects, list[str]]] = {}
    for objects, path in found:
        if isinstance(objects, Below):
            objects, path = objects.above(path)
        roots.setdefault(id(objects), (objects, []))[1].append(path)
    return roots.values()
