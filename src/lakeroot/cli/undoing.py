"""Commands that take things back."""

import click

from lakeroot.cli.catalogs import TRASHED, opened, opened_to_list
from lakeroot.cli.naming import DRY_RUN, YES, agreed
from lakeroot.cli.output import print_done, print_found, print_rows
from lakeroot.lake.moments import show_time
from lakeroot.model.identifiers import show


@click.command()
@click.argument("commit", type=int)
@DRY_RUN
@YES
@click.pass_context
def undo(ctx: click.Context, commit: int, dry_run: bool, yes: bool) -> None:
    """Take COMMIT, a version of the catalog, back by a commit of its own."""
    lake = opened(ctx)
    planned = lake.undo(commit, dry_run=True)
    if dry_run:
        print_rows(ctx, ["would"], [(line,) for line in planned])
        return
    agreed(f"To undo {commit}: {'; '.join(planned)}. Do it?", yes=yes)
    done = lake.undo(commit)
    print_done(ctx, f"Version {commit} is undone: {'; '.join(done)}.", undone=commit)


@click.command()
@click.argument("table", type=TRASHED, required=False)
@click.pass_context
def undrop(ctx: click.Context, table: str | None) -> None:
    """Give TABLE its name back; without one, list the tables that can have theirs back."""
    if table is not None:
        opened(ctx).undrop(table)
        print_done(ctx, f"{table} is back.", undropped=table)
        return
    lake = opened_to_list(ctx)
    rows = [
        (show(one.table.identifier), one.table.location, one.commit, show_time(one.timestamp_ms))
        for one in lake.trash()
    ]
    header = ["table", "location", "lost in", "time (UTC)"]
    print_found(ctx, header, rows, "No table that lost its name still has its data.")
