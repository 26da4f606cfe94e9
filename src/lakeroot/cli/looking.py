"""Commands that look and change nothing."""

import json
from typing import Any

import click

from lakeroot.cli.catalogs import NAMESPACE, TABLE, opened, opened_to_list, table_of
from lakeroot.cli.config import options_of
from lakeroot.cli.output import print_found, print_rows, print_value
from lakeroot.lake.lake import what
from lakeroot.lake.moments import show_time
from lakeroot.model.errors import InvalidInputError


@click.command()
@click.argument("namespace", type=NAMESPACE, required=False)
@click.option("-a", "--all", "everything", is_flag=True, help="All tables of all namespaces.")
@click.pass_context
def ls(ctx: click.Context, namespace: str | None, everything: bool) -> None:
    """List the namespaces and tables of a namespace, or of the root."""
    lake = opened_to_list(ctx) if namespace is None else opened(ctx)
    if everything:
        print_rows(ctx, ["kind", "name"], [("table", name) for name in lake.tables()])
        return
    within = namespace or ""
    rows = [("namespace", name) for name in lake.namespaces(within)]
    rows += [("table", name) for name in lake.tables(within)]
    print_rows(ctx, ["kind", "name"], rows)


@click.command("show")
@click.argument("table", type=TABLE)
@click.pass_context
def show_table(ctx: click.Context, table: str) -> None:
    """Show what is known of a table."""
    found = table_of(ctx, table)
    described = opened(ctx).namespace.describe_table(
        {"id": found.id, "load_detailed_metadata": True}
    )
    facts: list[tuple[str, Any]] = [
        ("table", found.name),
        ("location", described.location),
        ("version", described.version),
        ("declared only", described.is_only_declared),
        ("managed versions", bool(described.managed_versioning)),
        *((f"property {key}", value) for key, value in (described.properties or {}).items()),
    ]
    if not described.is_only_declared:
        facts += [("rows", found.count()), ("fragments", described.stats.num_fragments)]
        facts += [("tags", ", ".join(f"{k}={v}" for k, v in found.tags().items()))]
    print_rows(ctx, ["what", "value"], facts)


@click.command()
@click.argument("table", type=TABLE)
@click.option("-n", "--rows", default=10, show_default=True, help="How many rows.")
@click.option("-c", "--column", "columns", multiple=True, help="Only these columns.")
@click.option("-w", "--where", help="Only rows for which this SQL predicate holds.")
@click.option("--version", type=int, help="At this version of the table.")
@click.pass_context
def head(
    ctx: click.Context,
    table: str,
    rows: int,
    columns: tuple[str, ...],
    where: str | None,
    version: int | None,
) -> None:
    """Show the first rows of a table."""
    found = table_of(ctx, table).to_arrow(
        columns=columns or None, where=where, limit=rows, version=version
    )
    print_rows(ctx, found.column_names, [tuple(row.values()) for row in found.to_pylist()])


@click.command()
@click.argument("table", type=TABLE)
@click.option("-w", "--where", help="Only rows for which this SQL predicate holds.")
@click.pass_context
def count(ctx: click.Context, table: str, where: str | None) -> None:
    """Count the rows of a table."""
    print_value(ctx, "rows", table_of(ctx, table).count(where))


@click.command()
@click.argument("table", type=TABLE)
@click.pass_context
def schema(ctx: click.Context, table: str) -> None:
    """Show the columns of a table."""
    fields = table_of(ctx, table).schema
    rows = [(field.name, str(field.type), "yes" if field.nullable else "no") for field in fields]
    print_rows(ctx, ["column", "type", "nulls"], rows)


@click.command()
@click.argument("table", type=TABLE)
@click.argument("query")
@click.option("-k", default=10, show_default=True, help="How many rows.")
@click.option("-c", "--column", help="The column to search in.")
@click.pass_context
def search(ctx: click.Context, table: str, query: str, k: int, column: str | None) -> None:
    """Find rows by text, or by a vector written as JSON: '[0.1, 0.2]'."""
    wanted: str | list[float] = query
    if query.lstrip().startswith("["):
        try:
            wanted = [float(value) for value in json.loads(query)]
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"{query!r} is not a vector", str(error)) from error
    found = table_of(ctx, table).search(wanted, k, column)
    print_rows(ctx, found.column_names, [tuple(row.values()) for row in found.to_pylist()])


@click.command()
@click.option("-n", "--limit", default=20, show_default=True, help="How many commits.")
@click.pass_context
def history(ctx: click.Context, limit: int) -> None:
    """Tell what each commit of the catalog changed, the newest first."""
    rows = [
        (entry.version, show_time(entry.timestamp_ms), entry.author, entry.message, what(entry))
        for entry in opened(ctx).history(limit)
    ]
    print_rows(ctx, ["version", "time (UTC)", "author", "message", "what"], rows)


@click.command()
@click.argument("before")
@click.argument("after", required=False)
@click.pass_context
def diff(ctx: click.Context, before: str, after: str | None) -> None:
    """Tell what differs between two moments, or between one and now."""
    found = opened(ctx).diff(before, after)
    rows: list[tuple[str, str, Any, Any]] = [("added", name, None, None) for name in found.added]
    rows += [("removed", name, None, None) for name in found.removed]
    rows += [("changed", name, old, new) for name, old, new in found.changed]
    print_found(ctx, ["what", "name", "before", "after"], rows, "Nothing differs.")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("moment")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def at(ctx: click.Context, moment: str, command: tuple[str, ...]) -> None:
    """Run a command on the catalog as it was at a moment.

    MOMENT is a version of the catalog or a time; COMMAND is `ls --all` if it is left out.
    The same as --as-of, for those who think of the moment first.
    """
    root = ctx.find_root()
    root.obj = {**options_of(ctx), "as_of": moment}
    group = root.command
    if not isinstance(group, click.Group):
        raise TypeError(group)
    name, found, arguments = group.resolve_command(root, list(command) or ["ls", "--all"])
    if found is None or name == "at":
        raise click.UsageError(f"`at` cannot run {name!r}", ctx)
    with found.make_context(name, arguments, parent=root) as inner:
        inner.command.invoke(inner)
