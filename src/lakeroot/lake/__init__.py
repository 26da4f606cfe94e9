"""The Python face: a catalog as an object that is pleasant to hold."""

from lakeroot.lake.lake import Lake
from lakeroot.lake.opening import open_lake
from lakeroot.lake.table import LakeTable

__all__ = ["Lake", "LakeTable", "open_lake"]
