"""Cleaning a metastore catalog: the metastore itself, and directories that no table owns."""

from collections.abc import Mapping

from lakeroot.metastore import Metastore
from lakeroot.metastore.vacuum import DAY_MS, Vacuumed, storage_time
from lakeroot.model.records import Table
from lakeroot.objects import Objects
from lakeroot.storage.deltacat.view import DeltaCatView
from lakeroot.storage.lance_dir.checking.tables import MANIFEST
from lakeroot.storage.lance_dir.collecting import Garbage

TABLES = "_lance"
"""The directory of the tables that a catalog places; deltacat passes over it."""


def unowned(metastore: Metastore, retention_ms: int) -> list[str]:
    """List directories of tables that are nobody's, and have been still for a good while.

    A drop takes the name away before it deletes the data, and a new table may write before it has
    a name; so a directory that has changed within a day (or the retention) is left alone. So is
    one that a table was deregistered from, if it holds a version: that is somebody's data.
    """
    now_ms = storage_time(metastore.log, dry_run=True)
    patience = max(retention_ms, DAY_MS)
    # The directories first: a table that gets its name meanwhile is found by the view after them.
    found = [f"{TABLES}/{name}" for name in metastore.objects.list_directory(TABLES).directories]
    view = DeltaCatView(metastore.view())
    tables = (view.get(identifier) for identifier in view.all_tables(None, None))
    # A claim may be missing: the table is there all the same.
    taken = {table.location for table in tables if isinstance(table, Table)}
    return [
        location
        for location in found
        if location not in taken
        and view.owner_of(location) is None
        and _last_change(metastore, location) < now_ms - patience
        and not (view.is_claimed(location) and _has_version(metastore, location))
    ]


def sizes_in(objects: Objects) -> dict[str, int]:
    """Look how large everything is, before it goes."""
    return {info.path: info.size for info in objects.list("")}


def garbage_of(sizes: Mapping[str, int], planned: Vacuumed) -> tuple[Garbage, ...]:
    """Say of everything that a vacuum removes what it is, and how large."""
    found = [(path, "no state that is kept has it") for path in planned.revisions]
    found += [(path, "no delta that is kept has it") for path in planned.data]
    found += [(path, "nobody needs it any more") for path in planned.other]
    return tuple(Garbage(path, _size(sizes, path), why) for path, why in found)


def _size(sizes: Mapping[str, int], path: str) -> int:
    own = sizes.get(path)
    return own if own is not None else sum(n for p, n in sizes.items() if p.startswith(f"{path}/"))


def _has_version(metastore: Metastore, location: str) -> bool:
    files = (info.path.removeprefix(f"{location}/") for info in metastore.objects.list(location))
    return any(map(MANIFEST.fullmatch, files))


def _last_change(metastore: Metastore, location: str) -> int:
    return max((info.modified_ms for info in metastore.objects.list(location)), default=0)
