"""Commands on versions, tags and indexes of a table."""

from typing import TYPE_CHECKING

import click

from lakeroot.cli.catalogs import TABLE, opened, table_of
from lakeroot.cli.naming import DRY_RUN, YES, agreed
from lakeroot.cli.output import many, print_done, print_rows
from lakeroot.lake.calls import Calls
from lakeroot.lake.moments import show_time
from lakeroot.model.errors import (
    LakerootError,
    TableIndexNotFoundError,
    TableTagNotFoundError,
)

if TYPE_CHECKING:
    from lakeroot.lake import LakeTable


@click.group("version")
def version_group() -> None:
    """List, show, restore and delete versions of a table."""


@version_group.command("list")
@click.argument("table", type=TABLE)
@click.pass_context
def list_versions(ctx: click.Context, table: str) -> None:
    """List versions, the newest first."""
    rows = [
        (one["version"], show_time(one.get("timestamp_millis")), one.get("manifest_size"))
        for one in table_of(ctx, table).versions()
    ]
    print_rows(ctx, ["version", "time (UTC)", "bytes"], rows)


@version_group.command("show")
@click.argument("table", type=TABLE)
@click.argument("version", type=int)
@click.pass_context
def show_version(ctx: click.Context, table: str, version: int) -> None:
    """Show what a version holds, which tags it has, and what its writer has said of it.

    A pipeline says there which run it was, what it has read, and how many rows it has written.
    """
    found = table_of(ctx, table)
    described = Calls(opened(ctx).namespace).describe_table_version(
        {"id": found.id, "version": version}
    )
    one = described if isinstance(described, dict) else described.model_dump()
    kept = dict(one.get("version") or {})
    dataset = found.dataset(version)
    tags = sorted(name for name, number in found.tags().items() if number == version)
    facts = [
        ("table", found.name),
        ("version", version),
        ("time (UTC)", show_time(kept.get("timestamp_millis"))),
        ("rows", dataset.count_rows()),
        ("columns", ", ".join(dataset.schema.names)),
        ("fragments", len(dataset.get_fragments())),
        ("manifest", kept.get("manifest_path")),
        ("manifest bytes", kept.get("manifest_size")),
        ("tags", ", ".join(tags)),
        *_origin(found, version),
    ]
    print_rows(ctx, ["what", "value"], facts)


def _origin(table: "LakeTable", version: int) -> list[tuple[str, str]]:
    try:
        return list(table.origin(version).items())
    except LakerootError:  # What is known of the version is worth showing all the same.
        return []


@version_group.command("restore")
@click.argument("table", type=TABLE)
@click.argument("version", type=int)
@click.pass_context
def restore_version(ctx: click.Context, table: str, version: int) -> None:
    """Make an older version the newest, as a new version."""
    found = table_of(ctx, table)
    found.restore(version)
    print_done(ctx, f"{table} is as it was at version {version}.", version=found.version)


@version_group.command("delete")
@click.argument("table", type=TABLE)
@click.argument("start", type=int)
@click.argument("end", type=int)
@DRY_RUN
@YES
@click.pass_context
def delete_versions(
    ctx: click.Context,
    table: str,
    start: int,
    end: int,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete versions from START up to, but not including, END."""
    found = table_of(ctx, table)
    numbers = [n for n in (one["version"] for one in found.versions()) if start <= n < end]
    if dry_run:
        print_rows(ctx, ["would delete"], [(number,) for number in numbers])
        return
    agreed(f"Delete {many(len(numbers), 'version')} of {table}?", yes=yes)
    done = opened(ctx).namespace.batch_delete_table_versions(
        {"id": found.id, "ranges": [{"start_version": start, "end_version": end}]}
    )
    deleted = done["deleted_count"]
    print_done(ctx, f"Deleted {many(deleted, 'version')} of {table}.", deleted=deleted)


@click.group("tag")
def tag_group() -> None:
    """Name versions of a table."""


@tag_group.command("list")
@click.argument("table", type=TABLE)
@click.pass_context
def list_tags(ctx: click.Context, table: str) -> None:
    """List the tags of a table."""
    print_rows(ctx, ["tag", "version"], sorted(table_of(ctx, table).tags().items()))


@tag_group.command("create")
@click.argument("table", type=TABLE)
@click.argument("tag")
@click.option("--version", type=int, help="The version to name; the newest if not given.")
@click.pass_context
def create_tag(ctx: click.Context, table: str, tag: str, version: int | None) -> None:
    """Give a version a name."""
    table_of(ctx, table).tag(tag, version)
    print_done(ctx, f"Tagged {table} as {tag}.", tag=tag)


@tag_group.command("delete")
@click.argument("table", type=TABLE)
@click.argument("tag")
@DRY_RUN
@YES
@click.pass_context
def delete_tag(ctx: click.Context, table: str, tag: str, dry_run: bool, yes: bool) -> None:
    """Forget a tag; the version stays."""
    found = table_of(ctx, table)
    if dry_run:
        named = [(name, number) for name, number in found.tags().items() if name == tag]
        if not named:
            raise TableTagNotFoundError(f"{found.name} has no tag {tag!r}")
        print_rows(ctx, ["would delete", "version"], named)
        return
    agreed(f"Delete the tag {tag} of {table}? The version stays.", yes=yes)
    opened(ctx).namespace.delete_table_tag({"id": found.id, "tag": tag})
    print_done(ctx, f"Deleted the tag {tag}.", tag=tag)


@click.group("index")
def index_group() -> None:
    """Build, list and drop indexes of a table."""


@index_group.command("list")
@click.argument("table", type=TABLE)
@click.pass_context
def list_indexes(ctx: click.Context, table: str) -> None:
    """List the indexes of a table and how much of it they cover."""
    found = table_of(ctx, table)
    listed = opened(ctx).namespace.list_table_indices({"id": found.id}).indexes
    rows = [
        (one.index_name, one.index_type, ", ".join(one.columns), one.num_unindexed_rows)
        for one in listed
    ]
    print_rows(ctx, ["index", "type", "columns", "rows not covered"], rows)


@index_group.command("create")
@click.argument("table", type=TABLE)
@click.argument("column")
@click.argument("kind")
@click.option("--name", help="The name of the index.")
@click.pass_context
def create_index(ctx: click.Context, table: str, column: str, kind: str, name: str | None) -> None:
    """Build an index of a KIND such as BTREE, BITMAP, FTS or IVF_PQ on a column."""
    found = table_of(ctx, table)
    opened(ctx).namespace.create_table_index(
        {"id": found.id, "column": column, "index_type": kind, "name": name}
    )
    print_done(ctx, f"Built the index on {column}.", column=column, kind=kind)


@index_group.command("drop")
@click.argument("table", type=TABLE)
@click.argument("name")
@DRY_RUN
@YES
@click.pass_context
def drop_index(ctx: click.Context, table: str, name: str, dry_run: bool, yes: bool) -> None:
    """Drop an index; the rows stay."""
    found = table_of(ctx, table)
    if dry_run:
        listed = opened(ctx).namespace.list_table_indices({"id": found.id}).indexes
        named = [one.index_name for one in listed if one.index_name == name]
        if not named:
            raise TableIndexNotFoundError(f"{found.name} has no index {name!r}")
        print_rows(ctx, ["would drop"], [(one,) for one in named])
        return
    agreed(f"Drop the index {name} of {table}?", yes=yes)
    opened(ctx).namespace.drop_table_index({"id": found.id, "index_name": name})
    print_done(ctx, f"Dropped the index {name}.", index=name)
