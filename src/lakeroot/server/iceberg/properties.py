"""Properties that Iceberg clients give, as the catalog can keep them.

A Lakeroot catalog keeps `lakeroot.*` for itself. Lakeroot's own Iceberg client marks what it makes
with such names, so over the wire they are ordinary properties, kept under another name.
"""

from collections.abc import Mapping
from typing import Final

_RESERVED: Final = "lakeroot."
_KEPT_AS: Final = "iceberg.lakeroot."


def kept(properties: Mapping[str, str]) -> dict[str, str]:
    """The names under which properties are kept."""
    return {kept_name(name): value for name, value in properties.items()}


def kept_name(name: str) -> str:
    """The name under which one property is kept."""
    return _KEPT_AS + name.removeprefix(_RESERVED) if name.startswith(_RESERVED) else name


def shown(properties: Mapping[str, str]) -> dict[str, str]:
    """The names under which clients know the properties."""
    return {
        _RESERVED + name.removeprefix(_KEPT_AS) if name.startswith(_KEPT_AS) else name: value
        for name, value in properties.items()
    }
