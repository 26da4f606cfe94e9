"""How a server is set up: one frozen value, passed to `serve`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from lakeroot.model.errors import InvalidInputError
from lakeroot.server.iceberg.settings import IcebergSettings
from lakeroot.server.limits import Limits
from lakeroot.server.logs import LogFormat
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
    log_format: LogFormat = "json"
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
        if self.tls_certificate is not None and self.tls_key is not None:
            _check_tls(self.tls_certificate, self.tls_key)
        if self.vend_storage_options and self.credential_vendor is not None:
            raise InvalidInputError(
                "Short-lived keys are of no use beside the server's own",
                "both are to be handed out",
                "Choose one of them",
            )


def _check_tls(certificate: Path, key: Path) -> None:
    import ssl  # only where TLS is spoken

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except OSError as problem:  # an error of TLS is one of the system, too
        raise InvalidInputError(
            f"TLS cannot be spoken with {certificate} and {key}",
            problem.strerror or str(problem),
            "Give a certificate and its own key, both in PEM form",
        ) from problem


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
