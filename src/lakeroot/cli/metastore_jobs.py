"""Jobs on Spark over the tables of deltas that a metastore has."""

from collections.abc import Callable
from typing import Any, Final

import click

from lakeroot.cli import jobs as _others  # noqa: F401  # its commands join the group
from lakeroot.cli.catalogs import TABLE
from lakeroot.cli.naming import DRY_RUN, YES, agreed, pairs
from lakeroot.cli.output import many, print_done
from lakeroot.cli.progress import shown_for
from lakeroot.cli.sparking import (
    DONE_BEFORE,
    JOB_ID,
    NO_SPARK,
    READER,
    catalog_options,
    facts,
    job_group,
    spark_session,
)

__all__ = ["job_group"]

_PROPERTY: Final = "property."
_OPTIONS: Final = (
    click.argument("table", type=TABLE),
    click.argument("source"),
    click.option(
        "-f", "--format", "kind", default="parquet", show_default=True, help="Spark's word."
    ),
    click.option(
        "--schema", help="The columns of the files, in Spark's words: 'id long, name string'."
    ),
    JOB_ID,
    READER,
    DRY_RUN,
    click.pass_context,
)


def _of_rows(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments and options of a change by rows of files."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@job_group.group("metastore")
def metastore_group() -> None:
    """Change tables of deltas, which a metastore has: rows by files, put in shape."""


@metastore_group.command("append")
@_of_rows
def append(ctx: click.Context, /, **given: Any) -> None:
    """Add the rows of files at the end of a table."""
    _change(ctx, "append", ("append {rows}", "{rows} appended"), **given)


@metastore_group.command("add")
@_of_rows
def add(ctx: click.Context, /, **given: Any) -> None:
    """Add the rows of files without a place in the order; such writes never wait."""
    _change(ctx, "add", ("add {rows}", "{rows} added"), **given)


@metastore_group.command("upsert")
@_of_rows
def upsert(ctx: click.Context, /, **given: Any) -> None:
    """Insert the rows of files, or change those with the same merge keys."""
    _change(ctx, "upsert", ("upsert {rows}", "{rows} upserted"), **given)


@metastore_group.command("delete")
@click.option("--on", "keys", multiple=True, help="A column to match; else the merge keys.")
@YES
@_of_rows
def delete(ctx: click.Context, /, keys: tuple[str, ...], yes: bool, **given: Any) -> None:
    """Delete the rows that are equal to those of files in some columns."""
    question = "Delete the rows of {table} that match {given}? The history keeps them."
    told: dict[str, Any] = {"on": list(keys)} if keys else {}
    asked = None if yes else question
    match = "the rows that match {given}"  # How many these are, nobody has counted.
    _change(ctx, "delete", (f"delete {match}", f"{match} deleted"), asked, told, **given)


@metastore_group.command("replace")
@YES
@_of_rows
def replace(ctx: click.Context, /, yes: bool, **given: Any) -> None:
    """Put the rows of files in the place of all rows of a table."""
    question = "Replace all rows of {table} by {rows}? The history keeps them."
    asked = None if yes else question
    others = "{rows} in the place of all others"
    _change(ctx, "replace", (f"put {others}", others), asked, **given)


@metastore_group.command("compact")
@click.argument("table", type=TABLE)
@JOB_ID
@DRY_RUN
@click.pass_context
def compact(ctx: click.Context, table: str, job_id: str | None, dry_run: bool) -> None:
    """Write partitions anew that readers would have to merge, or that have too many files."""
    from lakeroot.spark import metastore

    where = {**_place(ctx), "job_id": job_id}
    done: Any = metastore.find_done("compact", table, **where)
    if done is None:
        done = metastore.compact(NO_SPARK, table, dry_run=True, **where)
        if not dry_run and done.partitions:
            with spark_session("compact") as session:
                done = metastore.compact(session, table, **where)
    files = f"{many(done.files_before, 'file')} before"
    text = f"{_partitions(done)} written anew, {files}, {done.files} now"
    if dry_run:
        text = f"Would write {_partitions(done)} anew: {files}, {done.files} then."
        nothing = f"There is nothing to compact in {many(done.files_before, 'file')}."
        text = text if done.partitions else nothing
    _say(ctx, table, done, text, dry_run=dry_run)


def _change(
    ctx: click.Context,
    verb: str,
    words: tuple[str, str],
    question: str | None = None,
    told: dict[str, Any] | None = None,
    *,
    table: str,
    source: str,
    kind: str,
    schema: str | None,
    job_id: str | None,
    reader: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change a table by the rows of files; what was done before needs neither Spark nor files.

    The words are for what would be done, and for what was done.
    """
    from lakeroot.spark import metastore
    from lakeroot.spark.moving import check_source, files_blamed, source_frame

    where = {**_place(ctx), "job_id": job_id}
    done: Any = metastore.find_done(verb, table, **where)
    if done is None:
        check_source(source, kind, schema)
        options = pairs(reader)
        change = getattr(metastore, verb)
        given: dict[str, Any] = {**(told or {}), **where}
        with spark_session(verb, shows=False) as session, files_blamed():
            frame = source_frame(session, source, format=kind, reader=options, schema=schema)
            if dry_run or question is not None:
                with shown_for(session, "Spark: counting"):
                    done = change(frame, table, dry_run=True, **given)
            if not dry_run:
                if question is not None:
                    agreed(question.format(table=table, **_counts(done)), yes=False)
                with shown_for(session, f"Spark: {verb}"):
                    done = change(frame, table, **given)
    how = "with a delta each" if done.deltas else "written anew"
    touched = f"{_partitions(done)} {how}"
    would, did = (each.format(**_counts(done)) for each in words)
    text = f"Would {would}: {touched}." if dry_run else f"{did}, {touched}"
    _say(ctx, table, done, text, dry_run=dry_run)


def _counts(done: Any) -> dict[str, str]:
    """Count the rows that a change was given, as those that come and as those to match."""
    return {"rows": many(done.rows, "row"), "given": many(done.rows, "given one")}


def _partitions(done: Any) -> str:
    return many(done.partitions, "partition")


def _place(ctx: click.Context) -> dict[str, Any]:
    """Say where the metastore of the command is."""
    from lakeroot.spark.metastore.places import metastore_at

    # Where nothing is there is no metastore either, and that is said of both alike.
    found = catalog_options(ctx, begins=True)
    impl = found.pop("impl")
    return metastore_at(impl, {key.removeprefix(_PROPERTY): found[key] for key in found})


def _say(ctx: click.Context, table: str, done: Any, text: str, *, dry_run: bool) -> None:
    if done.already_done:
        was = f"{table} was changed by transaction {done.transaction}: the job was done before."
        text = DONE_BEFORE if dry_run else was
    elif not dry_run:
        at = f"{table} was changed by transaction {done.transaction}: {text}."
        text = at if done.transaction else f"{table} stays as it is: there is nothing to change."
    print_done(ctx, text, **facts(done))
