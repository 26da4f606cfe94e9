"""Roots: where a catalog lives, as people write it, and the objects below it."""

import atexit
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from lakeroot.model.errors import InvalidInputError
from lakeroot.objects.contract import Streams
from lakeroot.objects.local import LocalObjects

BUCKETS: Final = frozenset({"s3", "s3a", "gs", "az", "abfs", "abfss"})

_MEMORY: Final[dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Root:
    """A place for a catalog: its address, and the options that open it.

    The options may hold credentials, so they are never shown.
    """

    uri: str
    is_local: bool
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def join(self, path: str) -> str:
        """Give the address of a path below the root."""
        return f"{self.uri.rstrip('/')}/{path}"

    def relative(self, uri: str) -> str | None:
        """Give the path below the root that an address names; nothing if it names another place."""
        try:
            plain = parse_root(uri, self.storage_options).uri
        except InvalidInputError:
            return None
        below = self.uri.rstrip("/") + "/"
        path = plain.removeprefix(below).rstrip("/")
        return path if plain.startswith(below) and path else None

    def locate(self, location: str) -> str | None:
        """Understand a location as a caller writes it, relative to the root or as an address.

        Gives the path below the root; nothing if it is the root itself or lies elsewhere.
        """
        if "\0" in location:
            return None
        is_relative = "://" not in location and not location.startswith("/")
        path = location.rstrip("/") if is_relative else self.relative(location)
        if not path or any(part in ("", ".", "..") for part in path.split("/")):
            return None
        return path


def parse_root(root: str, storage_options: Mapping[str, str] | None = None) -> Root:
    """Understand a root as a person writes it: a path, ``file://``, ``s3://``, ``memory://``."""
    options = dict(storage_options or {})
    if not root or "\0" in root:
        raise InvalidInputError(
            f"{root!r} is not a root", fix="Give a directory or a URL, such as s3://bucket/prefix"
        )
    scheme, separator, _ = root.partition("://")
    if not separator:
        return Root(str(Path(root).expanduser().absolute()), is_local=True, storage_options=options)
    match scheme.lower():
        case "file":
            parts = urlsplit(root)
            if parts.netloc not in ("", "localhost"):
                raise InvalidInputError(f"{root!r} names another host", fix="Write file:///path")
            return Root(unquote(parts.path).rstrip("/") or "/", is_local=True)
        case "memory":
            return Root(_memory_directory(root), is_local=True)
        case bucket if bucket in BUCKETS:
            if not urlsplit(root).netloc:
                raise InvalidInputError(f"{root!r} names no bucket", fix=f"Write {scheme}://bucket")
            return Root(root.rstrip("/"), is_local=False, storage_options=options)
        case _:
            known = ", ".join(sorted(BUCKETS | {"file", "memory"}))
            raise InvalidInputError(
                f"{scheme!r} is not a kind of storage", fix=f"Use a path or one of {known}"
            )


def open_root(root: Root, *, fsync: bool = False) -> Streams:
    """Open the objects below a root; nothing is read or written yet."""
    if root.is_local:
        return LocalObjects(root.uri, fsync=fsync)
    # Only buckets need it, and loading it takes longer than many a command on a directory.
    from lakeroot.objects.remote import open_bucket

    return open_bucket(root.uri, root.storage_options)


def _memory_directory(root: str) -> str:
    import shutil
    import tempfile

    # Lance's own memory:// cannot be shared with anything, so ours is a directory in memory
    # (where there is one) that lives as long as this process.
    if root not in _MEMORY:
        shared_memory = Path("/dev/shm")  # noqa: S108 (a directory of our own is made inside)
        parent = str(shared_memory) if shared_memory.is_dir() else None
        directory = tempfile.mkdtemp(prefix="lakeroot-", dir=parent)
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        _MEMORY[root] = directory
    return _MEMORY[root]
