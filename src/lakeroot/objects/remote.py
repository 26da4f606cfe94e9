"""Objects in a bucket (S3, Google Cloud Storage, Azure) or in this process's memory, by obstore."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import obstore
from obstore import exceptions as store_errors
from obstore.store import from_url

from lakeroot.model.errors import InvalidInputError, LakerootError, NotFoundError
from lakeroot.objects.contract import Listing, ObjectInfo
from lakeroot.objects.remote_faults import translated

_DELETES_AT_ONCE: Final = 1000
_PART: Final = 8 << 20
_PARTS_AT_ONCE: Final = 4
_MOST_PARTS: Final = 9_000  # buckets allow 10,000

# Lance takes these among its storage options; obstore takes them apart from the store's own.
_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_SWITCHES: Final = frozenset(
    {"allow_http", "allow_invalid_certificates", "http1_only", "http2_only"}
)


class RemoteObjects:
    """Objects under a prefix of an obstore store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, path: str) -> bytes | None:
        """Read a whole object; nothing if there is none."""
        with translated(f"reading {path}"):
            try:
                return bytes(obstore.get(self._store, _checked(path)).bytes())
            except (FileNotFoundError, store_errors.NotFoundError):
                return None

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        """Write a whole object, in place of the one that was there."""
        with translated(f"writing {path}"):
            obstore.put(self._store, _checked(path), data, use_multipart=False)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole object unless there is one; tell whether it was written. Atomic."""
        with translated(f"writing {path}"):
            try:
                obstore.put(self._store, _checked(path), data, mode="create", use_multipart=False)
            except store_errors.AlreadyExistsError:
                # It may even be ours: a reply can be lost and the request sent again below us.
                # Whoever needs to know puts an id of its own into the bytes and reads them back.
                return False
            return True

    def read_chunks(self, path: str) -> Iterator[bytes] | None:
        """Read an object in pieces of a few megabytes; nothing if there is none."""
        with translated(f"reading {path}"):
            try:
                found = obstore.get(self._store, _checked(path))
            except (FileNotFoundError, store_errors.NotFoundError):
                return None
        return self._chunks(path, found)

    def _chunks(self, path: str, found: Any) -> Iterator[bytes]:
        with translated(f"reading {path}"):
            for chunk in found.stream(min_chunk_size=_PART):
                yield bytes(chunk)

    def write_chunks(self, path: str, chunks: Iterable[bytes], size: int) -> None:
        """Write a whole object of about this size; it is seen when it is whole, or never."""
        part = max(_PART, size // _MOST_PARTS)
        with translated(f"writing {path}"):
            # Pushed rather than handed over as an iterator: one that reads a bucket itself could
            # not be asked for more by obstore while it writes. Closing is what makes it visible.
            writer = obstore.open_writer(
                self._store, _checked(path), buffer_size=part, max_concurrency=_PARTS_AT_ONCE
            )
            for chunk in chunks:
                writer.write(chunk)
            writer.close()

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        """Give an object another name unless that is taken; tell whether it was given."""
        del flush  # a bucket acknowledges what it has stored
        # Read and put: a conditional copy is not offered by every bucket, a conditional put is.
        data = self.get(source)
        if data is None:
            raise NotFoundError(f"There is no object at {source}")
        if not self.put_if_absent(target, data):
            return False
        with contextlib.suppress(LakerootError):
            self.delete([source])
        return True

    def flush(self, paths: Sequence[str], *, are_named_later: bool = False) -> None:
        """Do nothing: a bucket acknowledges what it has stored."""

    def head(self, path: str) -> ObjectInfo | None:
        """Describe an object; nothing if there is none."""
        with translated(f"looking at {path}"):
            try:
                return _info(obstore.head(self._store, _checked(path)))
            except (FileNotFoundError, store_errors.NotFoundError):
                return None

    def exists(self, path: str) -> bool:
        """Tell whether there is an object at the path."""
        return self.head(path) is not None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List every object below a directory, at any depth, in no particular order."""
        with translated(f"listing {prefix or 'the root'}"):
            for chunk in obstore.list(self._store, prefix=_directory(prefix)):
                yield from map(_info, chunk)

    def list_directory(self, prefix: str) -> Listing:
        """List one level of a directory; an absent directory is an empty one."""
        with translated(f"listing {prefix or 'the root'}"):
            found = obstore.list_with_delimiter(self._store, prefix=_directory(prefix))
        directories = tuple(
            path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]
        )
        # Some buckets mark a directory by an empty object of its own name; it is none of ours.
        own = _checked(prefix).rstrip("/")
        inside = (item for item in map(_info, found["objects"]) if item.path != own)
        return Listing(directories, tuple(inside))

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """List the names in a directory, without looking at what they name."""
        found = self.list_directory(prefix)
        names = (item.path.rpartition("/")[2] for item in found.objects)
        return (*names, *found.directories)

    def has_any(self, prefix: str) -> bool:
        """Tell whether there is at least one object below a directory."""
        with translated(f"listing {prefix}"):
            chunks = obstore.list(self._store, prefix=_directory(prefix), chunk_size=1)
            return any(True for chunk in chunks for _ in chunk)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those already gone are fine."""
        remaining = iter(paths)
        while chunk := list(itertools.islice(remaining, _DELETES_AT_ONCE)):
            with translated(f"deleting {chunk[0]}"):
                try:
                    obstore.delete(self._store, [_checked(path) for path in chunk])
                except (FileNotFoundError, store_errors.NotFoundError):
                    if len(chunk) > 1:
                        for path in chunk:
                            self.delete([path])

    def delete_directory(self, prefix: str) -> None:
        """Delete every object below a directory."""
        self.delete([found.path for found in self.list(prefix)])

    def prune_directory(self, prefix: str) -> None:
        """Do nothing: a bucket has no directories."""


def _checked(path: str) -> str:
    if path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise InvalidInputError(f"The path {path!r} is not inside the root")
    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in path):
        raise InvalidInputError(f"The path {path!r} holds a control character")
    return path


def _directory(prefix: str) -> str | None:
    prefix = _checked(prefix).rstrip("/")
    return prefix + "/" if prefix else None


def _info(meta: Any) -> ObjectInfo:
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    return ObjectInfo(meta["path"], meta["size"], modified_ms, meta["e_tag"])


def open_bucket(uri: str, storage_options: Mapping[str, str]) -> RemoteObjects:
    """Open a bucket, or a prefix of one, with the options that Lance takes for it."""
    client: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for key, value in storage_options.items():
        plain = key.lower()
        if plain in _SWITCHES:
            client[plain] = value.lower() in ("true", "1", "yes")
        elif plain in _CLIENT_OPTIONS:
            client[plain] = value
        else:
            config[plain] = value
    with translated(f"opening {uri}"):
        # Its overloads ask for the keys of each cloud; ours come from the user.
        opener: Any = from_url
        return RemoteObjects(opener(uri, config=config, client_options=client))
