"""The command that puts a catalog on the network."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakeroot.cli.config import chosen
from lakeroot.model.errors import InvalidInputError

if TYPE_CHECKING:
    from lakeroot.server.settings import Settings

_FILE = click.Path(path_type=Path, dir_okay=False)
_COUNT = click.IntRange(min=1)


@click.command()
@click.argument("root", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8181,
    show_default=True,
    help="The port; 0 takes a free one.",
)
@click.option("--workers", type=_COUNT, default=1, show_default=True, help="How many processes.")
@click.option("--access-file", type=_FILE, help="Tokens, OIDC issuer and grants (see `token`).")
@click.option("--allow-anyone", is_flag=True, help="Listen on a network without an access file.")
@click.option("--audit-log", type=_FILE, help="Keep every change and every denial in this file.")
@click.option("--access-log", type=_FILE, help="Log requests to a file, not to standard error.")
@click.option(
    "--log-format",
    type=click.Choice(["json", "text", "none"]),
    default="json",
    show_default=True,
    help="How each request is logged.",
)
@click.option("--traces", is_flag=True, help="Send OpenTelemetry spans, as OTEL_* say.")
@click.option("--tls-certificate", type=_FILE, help="Speak TLS with this certificate chain (PEM).")
@click.option("--tls-key", type=_FILE, help="The key of the certificate (PEM).")
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Believe the X-Forwarded-* headers of this proxy; can be repeated.",
)
@click.option("--vend-storage-options", is_flag=True, help="Hand out the keys of the storage.")
@click.option("--vend-role", metavar="ARN", help="Lend short-lived AWS keys of this role instead.")
@click.option("--vend-region", metavar="REGION", help="The AWS region of those keys.")
@click.option("--vend-external-id", metavar="ID", help="The external id that the role asks for.")
@click.option("--vend-endpoint", metavar="URL", help="Another address of the token service.")
@click.option(
    "--vend-seconds",
    type=click.IntRange(900, 43200),
    default=3600,
    show_default=True,
    help="How long those keys are good.",
)
@click.option("--iceberg-mirror", is_flag=True, help="Mirror Lance tables for Iceberg tools.")
@click.option("--iceberg-scan-planning", is_flag=True, help="Plan scans for Iceberg tools.")
@click.option("--max-json-mb", type=_COUNT, default=8, show_default=True, help="JSON bodies.")
@click.option("--max-body-mb", type=_COUNT, default=512, show_default=True, help="Arrow bodies.")
@click.option(
    "--max-rows", type=_COUNT, default=50_000_000, show_default=True, help="Rows in one body."
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="The longest that a request is worked on.",
)
@click.option(
    "--max-requests", type=_COUNT, default=256, show_default=True, help="At once, per worker."
)
@click.option(
    "--max-rate",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Requests per second of a caller, per worker; 0 is no limit.",
)
@click.option(
    "--max-burst", type=_COUNT, default=100, show_default=True, help="At once, within that rate."
)
@click.pass_context
def serve(ctx: click.Context, /, root: str | None, **options: Any) -> None:
    """Serve a catalog as Lance REST, as Iceberg REST, and to people in a console.

    ROOT is any catalog: a directory or a bucket, a metastore, iceberg+https:// for an Iceberg REST
    catalog, https:// for Lance REST. Left out, it is the catalog of the other commands.

    On a loopback address nobody is asked who they are. Anywhere else an access file is needed:
    `lakeroot token create` and `lakeroot grant add` make one.
    """
    given = ctx.find_root().obj or {}
    if given.get("as_of"):
        raise InvalidInputError(
            "The past cannot be served", fix="Leave --as-of out; clients can ask for versions"
        )
    place, properties = chosen({**given, **({"root": root} if root else {})})
    try:
        from lakeroot.server.run import serve as run
    except ImportError as error:
        raise InvalidInputError(
            "The server is not installed", str(error), "pip install 'lakeroot[server,cli]'"
        ) from error

    def listens(address: str) -> None:
        click.echo(f"Serving {place} at {address} (Iceberg REST under /iceberg)", err=True)
        click.echo(f"Look at it: {address}/console", err=True)

    run(settings_of(place, properties, options), listens)


def settings_of(place: str, properties: dict[str, str], options: dict[str, Any]) -> "Settings":
    """Turn what was asked for into the settings of a server."""
    from lakeroot.lake.opening import implementation
    from lakeroot.server.iceberg.settings import IcebergSettings
    from lakeroot.server.limits import Limits
    from lakeroot.server.settings import Settings

    impl, known = implementation(place, properties)
    return Settings(
        impl,
        known,
        host=options["host"],
        port=options["port"],
        workers=options["workers"],
        access_file=options["access_file"],
        allow_anyone=options["allow_anyone"],
        audit_log=options["audit_log"],
        access_log=options["access_log"],
        log_requests=options["log_format"] != "none",
        log_format="text" if options["log_format"] == "text" else "json",
        traces=options["traces"],
        tls_certificate=options["tls_certificate"],
        tls_key=options["tls_key"],
        trusted_proxies=options["trusted_proxies"],
        vend_storage_options=options["vend_storage_options"],
        credential_vendor=_vendor(options),
        limits=Limits(
            json_bytes=options["max_json_mb"] << 20,
            arrow_bytes=options["max_body_mb"] << 20,
            rows=options["max_rows"],
            request_seconds=options["max_seconds"],
            concurrency=options["max_requests"],
            requests_per_second=options["max_rate"],
            burst=options["max_burst"],
        ),
        iceberg=IcebergSettings(options["iceberg_mirror"], options["iceberg_scan_planning"]),
    )


def _vendor(options: dict[str, Any]) -> Any:
    if options["vend_role"] is None:
        for name in ("vend_region", "vend_external_id", "vend_endpoint"):
            if options[name] is not None:
                raise InvalidInputError(
                    f"--{name.replace('_', '-')} needs --vend-role", fix="Name the role to assume"
                )
        return None
    import importlib.util

    from lakeroot.server.vending import StsVendor

    if importlib.util.find_spec("boto3") is None:
        raise InvalidInputError("Short-lived AWS keys need boto3", fix="pip install boto3")
    return StsVendor(
        options["vend_role"],
        options["vend_region"],
        options["vend_seconds"],
        options["vend_external_id"],
        options["vend_endpoint"],
    )
