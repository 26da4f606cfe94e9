"""Which tables were dropped, by what the versions of the catalog say."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from lakeroot.objects import Objects
from lakeroot.storage.lance_dir import versions
from lakeroot.storage.lance_dir.checking.tables import Files
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import decode

_AT_ONCE: Final = 16


class Dropped:
    """The directories of tables that were dropped, and when; read when it is needed."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._times: dict[str, int] | None = None

    def dropped_ms(self, location: str, files: Files) -> int | None:
        """Say when a directory was dropped, if that is the last thing that happened to it."""
        if self._times is None:
            self._times = {}
            for place, when in self._read():
                self._times[place] = max(when, self._times.get(place, 0))
        found = self._times.get(location)
        # A directory of this name may have been made and deregistered since: its files are younger.
        youngest = max((info.modified_ms for info in files.values()), default=0)
        return found if found is not None and youngest <= found else None

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
