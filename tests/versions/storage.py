"""A disk that dies at a given call: before it, after it, or in the middle of writing."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from lakeroot.catalog import Catalog
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.objects import LocalObjects, parse_root
from lakeroot.storage.lance_dir import DirectorySettings, LanceDirStore

WRITES = ("put", "put_if_absent", "move_if_absent", "delete", "delete_directory")


class Death(BaseException):
    """The process is gone; nothing that follows in it happens."""


class MortalDisk(LocalObjects):
    """Dies at the n-th call that changes something."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.calls = 0
        self.dies_at: int | None = None
        self.dies_after = False
        self.before_put: Any = None

    def _call(self, method: Any, *arguments: Any) -> Any:
        self.calls += 1
        if self.calls == self.dies_at and not self.dies_after:
            raise Death
        if self.dies_at is not None and self.calls > self.dies_at:
            raise Death
        result = method(*arguments)
        if self.calls == self.dies_at:
            raise Death
        return result

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        self._call(partial(super().put, is_named_later=is_named_later), path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.before_put is not None:
            self.before_put(path)
        return bool(self._call(super().put_if_absent, path, data))

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        if self.before_put is not None:
            self.before_put(target)
        return bool(self._call(partial(super().move_if_absent, flush=flush), source, target))

    def delete(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            self._call(super().delete, [path])

    def delete_directory(self, prefix: str) -> None:
        self._call(super().delete_directory, prefix)

    def prune_directory(self, prefix: str) -> None:
        self._call(super().prune_directory, prefix)


def opened_on(root: str, *, manages: bool = True) -> tuple[LakerootNamespace, MortalDisk]:
    disk = MortalDisk(root)
    settings = DirectorySettings(table_version_management=manages)
    store = LanceDirStore(parse_root(root), settings, disk)
    return LakerootNamespace(Catalog(store)), disk
