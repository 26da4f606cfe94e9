"""The server: one process that puts any Lance catalog on the network.

Lance REST is spoken at the root of the address, Iceberg REST under `/iceberg`.
"""

from lakeroot.server.iceberg.settings import IcebergSettings
from lakeroot.server.identity.tokens import hash_of, new_token
from lakeroot.server.limits import Limits
from lakeroot.server.run import build, serve, serving
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
