"""The commands that make one catalog say what another says."""

from collections.abc import Callable
from typing import Any

import click

from lakeroot.cli.catalogs import opened
from lakeroot.cli.config import chosen
from lakeroot.cli.naming import DRY_RUN
from lakeroot.cli.output import print_rows
from lakeroot.cli.progress import shown
from lakeroot.lake import open_lake
from lakeroot.model.identifiers import ROOT, parse_dotted, show

TARGET_PROPERTY = click.option(
    "-T",
    "--target-property",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the target.",
)
TARGET_PROFILE = click.option("--target-profile", "profile", help="A profile with its properties.")


def _of_both(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands take."""
    for option in reversed(
        (
            click.argument("target"),
            click.option("--under", help="Only this namespace or table of the source."),
            click.option("--into", help="Below this namespace of the target."),
            TARGET_PROPERTY,
            TARGET_PROFILE,
            DRY_RUN,
            click.pass_context,
        )
    ):
        command = option(command)
    return command


@click.command()
@_of_both
@click.option("--copy-data", is_flag=True, help="Copy tables whose data the target cannot own.")
def sync(ctx: click.Context, copy_data: bool, **options: Any) -> None:
    """Make the catalog TARGET say what this one says.

    Tables are entered where they are, so no data moves unless asked. Nothing in TARGET is removed.
    Run it again to go on after an interruption, or to follow what changed.
    """
    _run(ctx, options, copy_data=copy_data)


@click.command()
@_of_both
def copy(ctx: click.Context, **options: Any) -> None:
    """Copy namespaces and tables, with all versions and files, into the catalog TARGET.

    What is there already is not copied again. Nothing in TARGET is removed.
    """
    _run(ctx, options, copy_data=True)


def target_of(
    target: str, profile: str | None, given: tuple[str, ...]
) -> tuple[str, dict[str, str]]:
    """Work out the address of the second catalog of a command, and its properties."""
    return chosen({"root": target, "profile": profile, "properties": given}, ambient=False)


def _run(ctx: click.Context, options: dict[str, Any], *, copy_data: bool) -> None:
    from lakeroot.namespace import sync as syncing

    place, properties = target_of(options["target"], options["profile"], options["given"])
    source = opened(ctx).namespace
    destination = open_lake(place, **properties).namespace
    within = parse_dotted(options["under"]) if options["under"] else ROOT
    below = parse_dotted(options["into"]) if options["into"] else ROOT
    how: dict[str, Any] = {"under": within, "into": below, "copy_data": copy_data}
    if options["dry_run"]:
        steps = syncing.differences(source, destination, **how)
        planned = [(str(step.kind), show(step.identifier), step.why) for step in steps]
        print_rows(ctx, ["would", "object", "why"], planned)
        return
    with shown("Comparing"):
        outcome = syncing.sync(source, destination, **how)
    rows = [(str(step.kind), show(step.identifier), "done") for step in outcome.done]
    rows += [(str(step.kind), show(step.identifier), why) for step, why in outcome.failed]
    print_rows(ctx, ["what", "object", "outcome"], rows)
    if outcome.failed:
        ctx.exit(1)
