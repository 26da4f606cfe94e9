"""Commands on namespaces and on the names of tables."""

from pathlib import Path
from typing import Any

import click

from lakeroot.cli.catalogs import NAMESPACE, TABLE, opened
from lakeroot.cli.output import many, print_done, print_rows
from lakeroot.cli.progress import shown
from lakeroot.lake.lake import Lake, own
from lakeroot.model.errors import (
    InvalidInputError,
    NamespaceNotEmptyError,
    TableAlreadyExistsError,
)
from lakeroot.model.identifiers import parse_dotted

PROPERTY = click.option(
    "-s", "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a property."
)
NOW = click.option("--now", is_flag=True, help="Delete the data at once; nothing brings it back.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Say what would happen, and do nothing.")
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def agreed(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed."""
    if not yes:
        click.confirm(question, abort=True)


def has_trash(lake: Lake) -> bool:
    """Tell whether what is dropped can be brought back."""
    return bool(getattr(lake.namespace, "has_trash", False))


def _way_back(lake: Lake, *, now: bool) -> str:
    if now or not has_trash(lake):
        return " All data is deleted, and nothing brings it back."
    return " The data stays until gc collects it."


def pairs(
    settings: tuple[str, ...], what: str = "a property", form: str = "KEY=VALUE"
) -> dict[str, str]:
    """Read KEY=VALUE settings."""
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"{setting!r} is not {what}", fix=f"Write {form}")
        found[key] = value
    return found


@click.group("ns")
def namespace_group() -> None:
    """Create, show and drop namespaces."""


@namespace_group.command("create")
@click.argument("namespace")
@PROPERTY
@click.option("--exist-ok", is_flag=True, help="It may exist already.")
@click.pass_context
def create_namespace(
    ctx: click.Context,
    namespace: str,
    settings: tuple[str, ...],
    exist_ok: bool,
) -> None:
    """Create a namespace."""
    opened(ctx, begins=True).create_namespace(namespace, pairs(settings), exist_ok=exist_ok)
    print_done(ctx, f"Created {namespace}.", created=namespace)


@namespace_group.command("show")
@click.argument("namespace", type=NAMESPACE, required=False)
@click.pass_context
def show_namespace(ctx: click.Context, namespace: str | None) -> None:
    """Show the properties of a namespace."""
    found = opened(ctx).properties(namespace or "")
    print_rows(ctx, ["property", "value"], sorted(found.items()))


@namespace_group.command("drop")
@click.argument("namespace", type=NAMESPACE)
@click.option("--cascade", is_flag=True, help="With every table and namespace in it.")
@NOW
@DRY_RUN
@YES
@click.pass_context
def drop_namespace(
    ctx: click.Context,
    namespace: str,
    cascade: bool,
    now: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Drop a namespace.

    What a directory catalog loses by it can be brought back with `undo` until `gc` collects it.
    """
    lake = opened(ctx)
    inside = [name for name in lake.tables() if name.startswith(f"{namespace}.")]
    if dry_run:
        _refuse_if_not_empty(lake, namespace, inside, cascade=cascade)
        print_rows(ctx, ["would drop"], [(name,) for name in [*inside, namespace]])
        return
    if cascade and inside:
        agreed(
            f"Drop {namespace} with {many(len(inside), 'table')}?{_way_back(lake, now=now)}",
            yes=yes,
        )
    identifier = list(parse_dotted(namespace))
    if cascade and not now and has_trash(lake):
        own(lake, "discard_namespace")(identifier)
    else:
        behavior = "Cascade" if cascade else "Restrict"
        lake.namespace.drop_namespace({"id": identifier, "behavior": behavior})
    print_done(ctx, f"Dropped {namespace}.", dropped=[*inside, namespace] if cascade else namespace)


def _refuse_if_not_empty(lake: Lake, namespace: str, inside: list[str], *, cascade: bool) -> None:
    """Refuse in a dry run what the drop would be refused for."""
    if not cascade and (inside or lake.namespaces(namespace)):
        raise NamespaceNotEmptyError(
            f"The namespace {namespace} is not empty", fix="Drop what is in it, or use --cascade"
        )


@click.group("table")
def table_group() -> None:
    """Create, name, rename, copy and drop tables."""


@table_group.command("create")
@click.argument("table")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--mode", type=click.Choice(["create", "exist_ok", "overwrite"]), default="create")
@click.pass_context
def create_table(ctx: click.Context, table: str, file: Path, mode: str) -> None:
    """Create a table from a Parquet, CSV, JSON lines or Arrow file."""
    created = opened(ctx, begins=True).create_table(table, read_rows(file), mode=mode)
    rows = created.count()
    text = f"Created {created.name} with {many(rows, 'row')}."
    print_done(ctx, text, table=created.name, rows=rows)


@table_group.command("declare")
@click.argument("table")
@PROPERTY
@click.pass_context
def declare_table(ctx: click.Context, table: str, settings: tuple[str, ...]) -> None:
    """Reserve a name and a location for a table."""
    declared = opened(ctx, begins=True).namespace.declare_table(
        {"id": list(parse_dotted(table)), "properties": pairs(settings)}
    )
    print_done(ctx, f"Declared {table} at {declared.location}.", location=declared.location)


@table_group.command("register")
@click.argument("table")
@click.argument("location")
@PROPERTY
@click.pass_context
def register_table(
    ctx: click.Context, table: str, location: str, settings: tuple[str, ...]
) -> None:
    """Give a name to a Lance table that is already there."""
    done = opened(ctx, begins=True).namespace.register_table(
        {"id": list(parse_dotted(table)), "location": location, "properties": pairs(settings)}
    )
    print_done(ctx, f"Registered {table}.", location=done.location)


@table_group.command("deregister")
@click.argument("table", type=TABLE)
@DRY_RUN
@YES
@click.pass_context
def deregister_table(ctx: click.Context, table: str, dry_run: bool, yes: bool) -> None:
    """Take a table's name away and leave its data."""
    if dry_run:
        print_rows(ctx, ["would deregister"], [(opened(ctx)[table].name,)])
        return
    agreed(f"Deregister {table}? Its data stays.", yes=yes)
    done = opened(ctx).namespace.deregister_table({"id": list(parse_dotted(table))})
    print_done(
        ctx, f"Deregistered {table}; its data is at {done.location}.", location=done.location
    )


@table_group.command("drop")
@click.argument("tables", type=TABLE, nargs=-1, required=True)
@NOW
@DRY_RUN
@YES
@click.pass_context
def drop_table(
    ctx: click.Context,
    tables: tuple[str, ...],
    now: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Drop tables.

    A directory catalog keeps their data until `gc` collects it; `undrop` brings them back.
    """
    lake = opened(ctx)
    found = [lake[name] for name in tables]
    if dry_run:
        print_rows(ctx, ["would drop"], [(one.name,) for one in found])
        return
    agreed(f"Drop {', '.join(tables)}?{_way_back(lake, now=now)}", yes=yes)
    kept = [one.name for one in found if lake.drop_table(one.name, now=now)]
    hint = f" `lakeroot undrop {kept[0]}` brings it back." if kept else ""
    print_done(ctx, f"Dropped {', '.join(tables)}.{hint}", dropped=list(tables), kept=kept)


@table_group.command("rename")
@click.argument("table", type=TABLE)
@click.argument("new_name")
@click.pass_context
def rename_table(ctx: click.Context, table: str, new_name: str) -> None:
    """Give a table another name, in any namespace; its data does not move."""
    opened(ctx).rename_table(table, new_name)
    print_done(ctx, f"Renamed {table} to {new_name}.", table=new_name)


@table_group.command("copy")
@click.argument("table", type=TABLE)
@click.argument("new_name")
@click.pass_context
def copy_table(ctx: click.Context, table: str, new_name: str) -> None:
    """Copy a table, with all versions and files, under another name of this catalog."""
    from lakeroot.namespace import sync

    lake = opened(ctx)
    here, there = lake[table].identifier, parse_dotted(new_name)
    if here == there:
        raise InvalidInputError(f"{table} cannot be copied onto itself", fix="Give a new name")
    with shown("Comparing"):
        done = sync.copy_table(lake.namespace, here, there)
    if not done.is_complete:
        raise TableAlreadyExistsError(
            f"There is a table {new_name} already", done.failed[0][1], "Give a new name"
        )
    print_done(ctx, f"Copied {table} to {new_name}.", table=new_name)


def read_rows(file: Path) -> Any:
    """Read a file of rows by its ending."""
    match file.suffix.lower():
        case ".parquet" | ".pq":
            import pyarrow.parquet as pq

            return pq.read_table(file)
        case ".csv":
            from pyarrow import csv

            return csv.read_csv(file)
        case ".json" | ".jsonl" | ".ndjson":
            from pyarrow import json

            return json.read_json(file)
        case ".arrow" | ".feather" | ".ipc":
            from pyarrow import feather

            return feather.read_table(file)
        case _:
            raise InvalidInputError(
                f"{file.name} is of no kind that can be read",
                fix="Give a .parquet, .csv, .jsonl or .arrow file",
            )
