"""The command that puts a catalog on the network."""

import click

from lakeroot.cli.config import chosen


@click.command()
@click.argument("root", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=4099, show_default=True, help="The port; 0 takes a free one.")
@click.option("--workers", default=1, show_default=True, help="How many processes.")
@click.pass_context
def serve(ctx: click.Context, root: str | None, host: str, port: int, workers: int) -> None:
    """Serve the catalog as Lance REST, as Iceberg REST, and to people in a console."""
    from lakeroot.server.run import serve as run
    from lakeroot.server.settings import Settings

    place, properties = chosen({**(ctx.find_root().obj or {}), **({"root": root} if root else {})})
    settings = Settings(
        impl="lakeroot.DirectoryNamespace",
        properties={"root": place, "vend_input_storage_options": "false", **properties},
        host=host,
        port=port,
        workers=workers,
    )
    where = f"http://{host}:{port}"
    click.echo(f"Serving {place} at {where} (Iceberg REST under /iceberg)", err=True)
    click.echo(f"Look at it: {where}/console", err=True)
    run(settings)
