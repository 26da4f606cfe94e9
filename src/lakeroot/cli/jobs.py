"""More jobs on Spark: update, index, backfill, export and convert."""

from typing import Any

import click

from lakeroot.cli.catalogs import TABLE
from lakeroot.cli.copying import TARGET_PROFILE, TARGET_PROPERTY, target_of
from lakeroot.cli.naming import DRY_RUN, YES, agreed, pairs
from lakeroot.cli.output import many, print_done, print_value
from lakeroot.cli.progress import shown_for
from lakeroot.cli.sparking import (
    DONE_BEFORE,
    JOB_ID,
    NO_SPARK,
    changed_before,
    facts,
    job_group,
    job_on,
    print_changed,
    print_would,
    spark_session,
)
from lakeroot.lake.opening import implementation
from lakeroot.model.errors import InvalidInputError

_COMPUTED = ("a column and what it is set to", "COLUMN=EXPRESSION")
SET = click.option(
    "--set", "settings", multiple=True, metavar=_COMPUTED[1], help="A column; may repeat."
)


@job_group.command("update")
@click.argument("table", type=TABLE)
@SET
@click.option("--where", "predicate", help="Which rows; all of them if it is left out.")
@click.option(
    "--truncate-nanos", is_flag=True, help="Compute without nanoseconds, which Spark cannot hold."
)
@JOB_ID
@DRY_RUN
@YES
@click.pass_context
def update(
    ctx: click.Context,
    table: str,
    settings: tuple[str, ...],
    predicate: str | None,
    truncate_nanos: bool,
    job_id: str | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Set columns of the rows a predicate chooses, by expressions of Spark SQL."""
    from lakeroot import spark as pipeline

    _, where = job_on(ctx, table)
    given: dict[str, Any] = {
        "set": pairs(settings, *_COMPUTED),
        "where": predicate,
        "truncate_nanos": truncate_nanos,
        "job_id": job_id,
        **where,
    }
    done, chosen = changed_before(table, job_id, "update", where), 0
    if done is None:
        # Spark counts the rows: its SQL is not that of Lance, and may choose others.
        with spark_session("update", shows=False) as session:
            if dry_run or not yes:
                with shown_for(session, "Spark: counting"):
                    chosen = pipeline.update(session, table, dry_run=True, **given).updated
            if not dry_run:
                text = f"Update {many(chosen, 'row')} of {table}? Older versions keep them."
                agreed(text, yes=yes)
                with shown_for(session, "Spark: update"):
                    done = pipeline.update(session, table, **given)
    if dry_run:
        print_would(ctx, "would update", chosen, is_done=done is not None)
        return
    print_changed(ctx, table, done, f"{many(done.updated, 'row')} updated")


@job_group.command("index")
@click.argument("table", type=TABLE)
@click.argument("column")
@click.option("-k", "--kind", default="BTREE", show_default=True, help="BTREE, INVERTED, IVF_PQ …")
@click.option("--name", help="What the index is called; else after its column.")
@click.option("--replace", is_flag=True, help="Build it anew if there is one of that name.")
@click.option("--metric", default="l2", show_default=True, help="For vectors: l2, cosine or dot.")
@click.option("--partitions", type=int, help="For vectors: how many partitions.")
@click.option("--sub-vectors", type=int, help="For vectors: how many parts of one are coded.")
@DRY_RUN
@click.pass_context
def index(ctx: click.Context, /, table: str, column: str, dry_run: bool, **choices: Any) -> None:
    """Build an index over a column, in parallel over the fragments, in one commit."""
    from lakeroot import spark as pipeline

    _, where = job_on(ctx, table)
    given = {**choices, **where}
    if dry_run:
        planned = pipeline.index(NO_SPARK, table, column=column, dry_run=True, **given)
        print_done(ctx, f"Would build {planned.name} over {table}.", **facts(planned))
        return
    with spark_session("index") as session:
        done = pipeline.index(session, table, column=column, **given)
    print_done(ctx, f"{table} has the index {done.name}.", **facts(done))


@job_group.command("backfill")
@click.argument("table", type=TABLE)
@SET
@click.option("--function", metavar="MODULE:NAME", help="A function from batch to batch instead.")
@click.option("--reads", multiple=True, help="A column that the function sees; may repeat.")
@click.option("--job-id", required=True, help="Run again under the same id, the job goes on.")
@click.option(
    "--resume",
    type=click.Choice(["same", "anyway", "never"]),
    default="same",
    show_default=True,
    help="Go on only if the same is computed, or although it looks different, or begin anew.",
)
@DRY_RUN
@click.pass_context
def backfill(
    ctx: click.Context,
    table: str,
    settings: tuple[str, ...],
    function: str | None,
    reads: tuple[str, ...],
    job_id: str,
    resume: str,
    dry_run: bool,
) -> None:
    """Add computed columns; a killed job goes on where it stopped."""
    from lakeroot import spark as pipeline
    from lakeroot.spark.functions import function_named

    if function and settings:
        raise InvalidInputError("--set and --function exclude each other")
    _, where = job_on(ctx, table)
    given: dict[str, Any] = {
        "values": function_named(function) if function else pairs(settings, *_COMPUTED),
        "reads": list(reads) or None,
        "job_id": job_id,
        "resume": resume,
        **where,
    }
    # That there is nothing to do, or that it cannot be done, is seen without Spark.
    done = planned = pipeline.backfill(NO_SPARK, table, dry_run=True, **given)
    if dry_run:
        text = (
            f"Would compute {planned.computed} of {many(planned.fragments, 'fragment')} of {table}."
        )
        print_done(ctx, DONE_BEFORE if planned.already_done else text, **facts(planned))
        return
    if not planned.already_done:
        with spark_session("backfill") as session:
            done = pipeline.backfill(session, table, **given)
    text = f"{done.computed} of {many(done.fragments, 'fragment')} computed"
    print_changed(ctx, table, done, text)


@job_group.command("export")
@click.argument("table", type=TABLE)
@click.argument("target")
@click.option("-f", "--format", "kind", default="parquet", show_default=True, help="Or iceberg.")
@click.option("--mode", default="error", show_default=True, help="error, append or overwrite.")
@click.option("--where", "predicate", help="Which rows.")
@click.option("--column", "columns", multiple=True, help="Which columns; may repeat.")
@click.option("--version", type=int, help="Which version of the table.")
@click.option("-W", "--writer", multiple=True, metavar="KEY=VALUE", help="Option of the writer.")
@DRY_RUN
@click.pass_context
def export(
    ctx: click.Context,
    table: str,
    target: str,
    kind: str,
    mode: str,
    predicate: str | None,
    columns: tuple[str, ...],
    version: int | None,
    writer: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Write a table as files of another format, or into an Iceberg catalog."""
    from lakeroot import spark as pipeline
    from lakeroot.spark.moving import check_export
    from lakeroot.spark.planning import missing_column

    found, where = job_on(ctx, table)
    reading: dict[str, Any] = {
        "filter": predicate,
        "columns": list(columns) or None,
        "version": version,
    }
    options = pairs(writer)
    check_export(kind, mode, target, options)
    if dry_run:
        known = found.dataset(version).schema.names
        for column in columns:
            if column not in known:
                raise missing_column(column, table, known)
        print_value(ctx, "would export", found.count(predicate, version))
        return
    with spark_session("export") as session:
        rows = pipeline.export(
            session,
            table,
            target,
            format=kind,
            mode=mode,
            writer=options,
            **{key: value for key, value in reading.items() if value is not None},
            **where,
        )
    print_done(ctx, f"{target} has {many(rows, 'row')} of {table}.", rows=rows, target=target)


@job_group.command("convert")
@click.argument("table", type=TABLE)
@click.argument("target")
@click.option("--to", "name", help="What the table is called there; else as it is here.")
@click.option("--mode", default="create", show_default=True, help="append, overwrite or create.")
@click.option("--version", type=int, help="Which version of the table.")
@TARGET_PROPERTY
@TARGET_PROFILE
@JOB_ID
@DRY_RUN
@click.pass_context
def convert(
    ctx: click.Context,
    table: str,
    target: str,
    name: str | None,
    mode: str,
    version: int | None,
    given: tuple[str, ...],
    profile: str | None,
    job_id: str | None,
    dry_run: bool,
) -> None:
    """Write the rows of a table into the catalog TARGET, of any kind, as one version.

    `lakeroot copy` copies files instead, with all versions.
    """
    from lakeroot import spark as pipeline
    from lakeroot.spark.moving import look_first

    _, where = job_on(ctx, table)
    impl, properties = implementation(*target_of(target, profile, given))
    there: dict[str, Any] = {
        "impl": impl,
        **{f"property.{key}": value for key, value in properties.items()},
        "job_id": job_id,
    }
    here, called = {**where, "version": version}, name or table
    done = look_first(called, mode=mode, **there)
    if done is None:
        with spark_session("convert") as session:
            done = pipeline.convert(
                session, table, called, source=here, target=there, mode=mode, dry_run=dry_run
            )
    if dry_run:
        text = DONE_BEFORE if done.already_done else f"Would write {many(done.rows, 'row')}."
        print_done(ctx, text, **facts(done))
        return
    print_changed(ctx, f"{called} in {target}", done, f"{many(done.rows, 'row')} written")
