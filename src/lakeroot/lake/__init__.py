"""The Python face: a catalog as an object that is pleasant to hold."""

from typing import TYPE_CHECKING, Any

from lakeroot.lake.lake import Lake
from lakeroot.lake.opening import open_lake

if TYPE_CHECKING:
    from lakeroot.lake.table import LakeTable

__all__ = ["Lake", "LakeTable", "open_lake"]


def __getattr__(name: str) -> Any:
    if name != "LakeTable":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lakeroot.lake.table import LakeTable  # it loads Lance, which listing names does not need

    return LakeTable
