"""Which tables were dropped, by what the versions of the catalog say."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Final

from lakeroot.objects import Objects
from lakeroot.storage.lance_dir import versions
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import decode

_AT_ONCE: Final = 16


class Dropped:
    """The directories of tables that were dropped, and when; read when it is needed."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    @cached_property
    def times(self) -> dict[str, int]:
        """When each directory was dropped the last time."""
        times: dict[str, int] = {}
        for place, when in self._read():
            times[place] = max(when, times.get(place, 0))
        return times

    def is_last(self, location: str, youngest_ms: int) -> bool:
        """Tell whether being dropped is the last thing that happened to a directory."""
        # One of this name may have been made and deregistered since: its files are younger.
        return location in self.times and youngest_ms <= self.times[location]

    def _read(self) -> Iterator[tuple[str, int]]:
        listed = self._objects.list_directory(versions.DIRECTORY).objects
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            contents = pool.map(lambda info: self._objects.get(info.path), listed)
            for info, content in zip(listed, contents, strict=True):
                try:
                    found = decode(content or b"")
                except MalformedError:
                    continue
                # Two clocks, the writer's and the storage's: here the earlier one counts.
                when = min(found.timestamp_ms, info.modified_ms)
                yield from ((location, when) for location in found.dropped)
