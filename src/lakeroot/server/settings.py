"""How a server is set up: one frozen value, passed to `serve`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from lakeroot.model.errors import InvalidInputError
from lakeroot.server.iceberg.settings import IcebergSettings
from lakeroot.server.limits import Limits
from lakeroot.server.vending import Vendor


@dataclass(frozen=True)
class Settings:
    """The catalog to serve, where, and under which rules.

    `impl` and `properties` are what `lance_namespace.connect` takes, so every worker process can
    open the catalog for itself.
    """

    impl: str
    properties: Mapping[str, str]
    host: str = "127.0.0.1"
    port: int = 8181
    workers: int = 1
    access_file: Path | None = None
    allow_anyone: bool = False
    audit_log: Path | None = None
    access_log: Path | None = None
    log_requests: bool = True
    traces: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    trusted_proxies: tuple[str, ...] = ()
    vend_storage_options: bool = False
    credential_vendor: Vendor | None = None
    limits: Limits = field(default_factory=Limits)
    iceberg: IcebergSettings = field(default_factory=IcebergSettings)

    def check(self) -> None:
        """Refuse settings that would put an open catalog on the network, or cannot work."""
        if self.access_file is None and not self.allow_anyone and not _is_loopback(self.host):
            raise InvalidInputError(
                f"Binding to {self.host} would let everyone on the network change the catalog",
                "no access file is set",
                "Give an access file, bind to 127.0.0.1, or allow anyone explicitly",
            )
        if self.workers < 1:
            raise InvalidInputError("A server needs at least one worker")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise InvalidInputError("TLS needs both a certificate file and a key file")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
