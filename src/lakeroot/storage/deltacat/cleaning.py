"""Cleaning a metastore catalog: the metastore itself, and directories that no table owns."""

from lakeroot.metastore import Metastore
from lakeroot.metastore.vacuum import DAY_MS, Vacuumed, storage_time
from lakeroot.objects import Objects
from lakeroot.storage.deltacat.view import DeltaCatView
from lakeroot.storage.lance_dir.collecting import Garbage

TABLES = "_lance"
"""The directory of the tables that a catalog places; deltacat passes over it."""


def unowned(metastore: Metastore, retention_ms: int) -> list[str]:
    """List directories of tables that are nobody's, and have been still for a good while.

    A drop takes the name away before it deletes the data, and a new table may write before it has
    a name; so a directory that has changed within a day (or the retention) is left alone.
    """
    now_ms = storage_time(metastore.log, dry_run=True)
    patience = max(retention_ms, DAY_MS)
    # The directories first: a table that gets its name meanwhile is found by the view after them.
    found = [f"{TABLES}/{name}" for name in metastore.objects.list_directory(TABLES).directories]
    view = DeltaCatView(metastore.view())
    free = [location for location in found if view.owner_of(location) is None]
    return [location for location in free if _last_change(metastore, location) < now_ms - patience]


def garbage_of(objects: Objects, planned: Vacuumed) -> tuple[Garbage, ...]:
    """Say of everything that a vacuum removes what it is, and how large."""
    found = [(path, "no state that is kept has it") for path in planned.revisions]
    found += [(path, "no delta that is kept has it") for path in planned.data]
    found += [(path, "nobody needs it any more") for path in planned.other]
    return tuple(Garbage(path, _size(objects, path), why) for path, why in found)


def _size(objects: Objects, path: str) -> int:
    info = objects.head(path)
    return info.size if info is not None else sum(one.size for one in objects.list(path))


def _last_change(metastore: Metastore, location: str) -> int:
    return max((info.modified_ms for info in metastore.objects.list(location)), default=0)
