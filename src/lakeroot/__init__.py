"""Lakeroot: the catalog for Lance tables that needs no server and no database."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeroot.lake import Lake, LakeTable
    from lakeroot.lake import open_lake as open  # noqa: A004 (as everybody's open)
    from lakeroot.namespace.deltacat import DeltaCatNamespace
    from lakeroot.namespace.directory import DirectoryNamespace
    from lakeroot.namespace.iceberg import IcebergNamespace

__version__ = "0.1.0"

__all__ = [
    "DeltaCatNamespace",
    "DirectoryNamespace",
    "IcebergNamespace",
    "Lake",
    "LakeTable",
    "__version__",
    "open",
]

# Importing Lakeroot must stay light, so each name is fetched when it is first asked for.
_HOMES = {
    "DeltaCatNamespace": "lakeroot.namespace.deltacat:DeltaCatNamespace",
    "DirectoryNamespace": "lakeroot.namespace.directory:DirectoryNamespace",
    "IcebergNamespace": "lakeroot.namespace.iceberg:IcebergNamespace",
    "Lake": "lakeroot.lake:Lake",
    "LakeTable": "lakeroot.lake:LakeTable",
    "open": "lakeroot.lake:open_lake",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
