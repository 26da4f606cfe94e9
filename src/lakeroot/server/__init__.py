"""The server: one process that puts any Lance catalog on the network.

Lance REST is spoken at the root of the address, Iceberg REST under `/iceberg`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeroot.server.building import build
    from lakeroot.server.iceberg.settings import IcebergSettings
    from lakeroot.server.identity.tokens import hash_of, new_token
    from lakeroot.server.limits import Limits
    from lakeroot.server.run import serve, serving
    from lakeroot.server.settings import Settings

__all__ = [
    "IcebergSettings",
    "Limits",
    "Settings",
    "build",
    "hash_of",
    "new_token",
    "serve",
    "serving",
]

# A server should answer within a second, so each name is fetched when it is first asked for.
_HOMES = {
    "IcebergSettings": "lakeroot.server.iceberg.settings",
    "Limits": "lakeroot.server.limits",
    "Settings": "lakeroot.server.settings",
    "build": "lakeroot.server.building",
    "hash_of": "lakeroot.server.identity.tokens",
    "new_token": "lakeroot.server.identity.tokens",
    "serve": "lakeroot.server.run",
    "serving": "lakeroot.server.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
