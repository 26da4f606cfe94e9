"""The Python face: a catalog as an object that is pleasant to hold."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lakeroot.lake.lake import Lake
    from lakeroot.lake.opening import open_lake
    from lakeroot.lake.table import LakeTable

__all__ = ["Lake", "LakeTable", "open_lake"]

# Loaded when they are asked for: commands that only read profiles need none of them, and listing
# names does not need Lance, which tables load.
_HOMES: Final = {"Lake": "lake", "LakeTable": "table", "open_lake": "opening"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
