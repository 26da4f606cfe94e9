"""Start a server with every setting at hand: ``python -m lakeroot.server --root /lake``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lakeroot.model.errors import LakerootError
from lakeroot.server.iceberg.settings import IcebergSettings
from lakeroot.server.limits import Limits
from lakeroot.server.settings import Settings


def main(arguments: Sequence[str]) -> int:
    """Read the arguments and serve until asked to stop."""
    from lakeroot.server.run import serve  # only here: `--help` need not wait for the libraries

    try:
        serve(settings_from(arguments))
    except LakerootError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


def settings_from(arguments: Sequence[str]) -> Settings:
    """Turn a command line into settings."""
    given = _parser().parse_args(arguments)
    properties = dict(pair.split("=", 1) for pair in given.property)
    if given.root is not None:
        properties["root"] = given.root
    return Settings(
        given.impl,
        properties,
        host=given.host,
        port=given.port,
        workers=given.workers,
        access_file=given.access_file,
        allow_anyone=given.allow_anyone,
        audit_log=given.audit_log,
        access_log=given.access_log,
        traces=given.traces,
        tls_certificate=given.tls_certificate,
        tls_key=given.tls_key,
        trusted_proxies=tuple(given.trusted_proxy),
        vend_storage_options=given.vend_storage_options,
        limits=Limits(
            arrow_bytes=given.max_body_mb << 20,
            request_seconds=given.max_seconds,
            concurrency=given.max_requests,
            requests_per_second=given.max_rate,
        ),
        iceberg=IcebergSettings(given.iceberg_mirror, given.iceberg_scan_planning),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lakeroot.server", description=__doc__)
    add = parser.add_argument
    add("--root", help="where the catalog is")
    add("--impl", default="lakeroot.DirectoryNamespace", help="the namespace to serve")
    add("--property", action="append", default=[], metavar="KEY=VALUE", type=_pair)
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8181)
    add("--workers", type=int, default=1)
    add("--access-file", type=Path, help="tokens, issuers and grants")
    add("--allow-anyone", action="store_true", help="listen on a network without access file")
    add("--audit-log", type=Path)
    add("--access-log", type=Path, help="a file instead of standard error")
    add("--traces", action="store_true", help="OpenTelemetry spans, sent as it is configured")
    add("--tls-certificate", type=Path)
    add("--tls-key", type=Path)
    add("--trusted-proxy", action="append", default=[], metavar="ADDRESS")
    add("--vend-storage-options", action="store_true", help="hand out the keys of the storage")
    add("--iceberg-mirror", action="store_true", help="mirror Lance tables for Iceberg tools")
    add("--iceberg-scan-planning", action="store_true", help="plan scans of Lance tables")
    limits = Limits()
    add("--max-body-mb", type=int, default=limits.arrow_bytes >> 20)
    add("--max-seconds", type=float, default=limits.request_seconds)
    add("--max-requests", type=int, default=limits.concurrency, help="at once, for each worker")
    add("--max-rate", type=float, default=limits.requests_per_second, help="per second and caller")
    return parser


def _pair(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
