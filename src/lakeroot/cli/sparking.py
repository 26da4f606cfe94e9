"""Commands that run on Spark."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from lakeroot.cli.catalogs import TABLE, opened_now, table_of
from lakeroot.cli.config import chosen, options_of
from lakeroot.cli.failing import EXIT_FAILED, report
from lakeroot.cli.naming import DRY_RUN, YES, agreed, pairs
from lakeroot.cli.output import form, print_done, print_rows, print_value
from lakeroot.cli.progress import shown_for
from lakeroot.lake.opening import implementation
from lakeroot.model.errors import InvalidInputError

JOB_ID = click.option("--job-id", help="Run again under the same id, the job does nothing.")
READER = click.option(
    "-R", "--reader", multiple=True, metavar="KEY=VALUE", help="Option of the reader."
)

# What a dry run checks, it checks without Spark, if it can.
NO_SPARK: Any = None


@contextmanager
def spark_session(name: str, *, shows: bool = True) -> Iterator[Any]:
    """Open a quiet local session, and stop it; one that runs already is used, and left."""
    from pyspark.sql import SparkSession

    from lakeroot import spark as pipeline

    running = SparkSession.getActiveSession()
    if running is not None:
        yield pipeline.register(running)
        return
    click.echo("Starting Spark …", err=True)
    session = pipeline.session(f"lakeroot {name}", config={"spark.log.level": "ERROR"})
    try:
        with shown_for(session, f"Spark: {name}") if shows else nullcontext():
            yield session
    finally:
        session.stop()


@dataclass(frozen=True)
class OnSpark:
    """A catalog that is looked after by the tasks of a session."""

    session: Any
    impl: str
    properties: Mapping[str, str]

    def check(self, grace: timedelta) -> Any:
        """Find everything that is wrong."""
        from lakeroot.spark import fsck

        return fsck(self.session, impl=self.impl, properties=self.properties, grace=grace)

    def gc(self, older_than: timedelta, **options: Any) -> Any:
        """Delete what nothing can reach, or say what it is."""
        from lakeroot.spark import gc

        where: dict[str, Any] = {"impl": self.impl, "properties": self.properties}
        return gc(self.session, **where, older_than=older_than, **options)


def catalog_options(ctx: click.Context) -> dict[str, Any]:
    """Say which catalog a job means, as the jobs take it."""
    opened_now(ctx, "Leave --as-of out: a job changes the present")
    impl, properties = implementation(*chosen(options_of(ctx)))
    return {"impl": impl, **{f"property.{key}": value for key, value in properties.items()}}


@click.command()
@click.argument("statement")
@click.option("-n", "--rows", default=100, show_default=True, help="How many rows to show.")
@click.option("--name", default="lake", show_default=True, help="What SQL calls the catalog.")
@click.pass_context
def sql(ctx: click.Context, statement: str, rows: int, name: str) -> None:
    """Run a SQL statement over the catalog with Spark: SELECT … FROM lake.air.flights."""
    from lakeroot import spark as pipeline
    from lakeroot.spark.failures import translated

    # A wrong address is said before Spark takes its time to start.
    opened_now(ctx, "Write the version into the statement: lake.air.flights VERSION AS OF 3")
    impl, properties = implementation(*chosen(options_of(ctx)))
    with spark_session("sql") as session:
        pipeline.use_catalog(session, name, impl=impl, properties=properties)
        with translated("The statement cannot be run"):
            frame = pipeline.sql(session, statement)
            found = [tuple(row) for row in frame.limit(rows).collect()]
            columns = frame.columns
    print_rows(ctx, columns, found)


@click.command()
@click.argument("pipeline", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--run-id", help="Names the run; one that was published before does nothing.")
@click.option("--plan", "plan_only", is_flag=True, help="Say what would happen, and do nothing.")
@click.pass_context
def run(ctx: click.Context, pipeline: Path, run_id: str | None, plan_only: bool) -> None:
    """Run the pipeline of a YAML file: all its tables are published in one commit, or none.

    Its jobs come after that. A run that failed goes on under the same --run-id.
    """
    from lakeroot.spark import pipelines

    _refuse_another_catalog(options_of(ctx))
    definition = pipelines.load(pipeline)
    if plan_only:
        planned = pipelines.plan(definition)
        if form(ctx) != "table":
            print_rows(ctx, ["step"], [(line,) for line in planned])
            return
        for line in planned:
            click.echo(line)
        return
    with spark_session(definition.name) as session:
        try:
            done = pipelines.run(session, definition, run_id=run_id)
        except pipelines.CheckFailedError as error:
            # Not the exit code of a conflict: to run it again would change nothing.
            report(error, debug=bool(options_of(ctx).get("debug")))
            ctx.exit(EXIT_FAILED)
    if done.already_done:
        click.echo(f"The run {done.run_id} was published before.", err=True)
    elif run_id is None:
        click.echo(f"The run is called {done.run_id}.", err=True)
    rows = [(one.table, one.version, one.rows) for one in done.tables]
    if not done.jobs:
        print_rows(ctx, ["table", "version", "rows"], rows)
        return
    told = [
        (one.table, one.did.get("version"), one.did.get("rows"), one.job, _did(ctx, one.did))
        for one in done.jobs
    ]
    columns = ["table", "version", "rows", "job", "did"]
    print_rows(ctx, columns, [*((*row, "publish", _did(ctx, {})) for row in rows), *told])


def _did(ctx: click.Context, facts: Mapping[str, Any]) -> Any:
    """Say what a job has done: to people in words, to scripts as it is."""
    if form(ctx) != "table":
        return dict(facts)
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _refuse_another_catalog(options: Mapping[str, Any]) -> None:
    """Refuse what would be passed over: a pipeline says itself where it writes, and writes now."""
    words = {"root": "--root", "profile": "--profile", "properties": "-P", "as_of": "--as-of"}
    given = [word for name, word in words.items() if options.get(name)]
    if given:
        raise InvalidInputError(
            f"{given[0]} is not for pipelines",
            "the file says which catalog is written, and it is written now",
            f"Leave {given[0]} out, or change `catalog` in the file",
        )


@click.group("job")
def job_group() -> None:
    """Run a job on Spark over a table: change its rows, put it in shape, take it elsewhere."""


@job_group.command("ingest")
@click.argument("table")
@click.argument("source")
@click.option("-f", "--format", "kind", default="parquet", show_default=True, help="Spark's word.")
@click.option("--mode", default="append", show_default=True, help="append, overwrite or create.")
@click.option(
    "--schema", help="The columns of the files, in Spark's words: 'id long, name string'."
)
@JOB_ID
@READER
@click.option(
    "-W",
    "--writer",
    multiple=True,
    metavar="KEY=VALUE",
    help="Option of the write: blobs, vectors, mergeSchema …",
)
@DRY_RUN
@click.pass_context
def ingest(
    ctx: click.Context,
    table: str,
    source: str,
    kind: str,
    mode: str,
    schema: str | None,
    job_id: str | None,
    reader: tuple[str, ...],
    writer: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Load files, or an Iceberg table, into a table."""
    from lakeroot import spark as pipeline
    from lakeroot.spark.moving import source_frame

    given: dict[str, Any] = {"format": kind, "reader": pairs(reader), "schema": schema}
    named = {"job_id": job_id} if job_id else {}
    writing = {**pairs(writer), **named, "mode": mode, **catalog_options(ctx)}
    with spark_session("ingest") as session:
        if dry_run:
            done = pipeline.ingest(session, source, table, dry_run=True, **given, **writing)
            frame = source_frame(session, source, **given)
            print_rows(ctx, ["column", "type"], frame.dtypes)
            before = (
                "It was done before." if done.already_done else f"Would write {done.rows} rows."
            )
            click.echo(before, err=True)
            return
        done = pipeline.ingest(session, source, table, **given, **writing)
    print_changed(ctx, table, done, f"{done.rows} rows came in, in {done.files} files")


@job_group.command("merge")
@click.argument("table", type=TABLE)
@click.argument("source")
@click.option("--on", "keys", multiple=True, required=True, help="A key column; may repeat.")
@click.option("-f", "--format", "kind", default="parquet", show_default=True, help="Spark's word.")
@click.option("--when-matched", default="update", show_default=True, help="Or delete, nothing.")
@click.option("--when-not-matched", default="insert", show_default=True, help="Or nothing.")
@click.option(
    "--when-not-matched-by-source", default="nothing", show_default=True, help="Or delete."
)
@JOB_ID
@READER
@DRY_RUN
@YES
@click.pass_context
def merge(
    ctx: click.Context,
    /,
    table: str,
    source: str,
    keys: tuple[str, ...],
    kind: str,
    reader: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    **choices: Any,
) -> None:
    """Update the rows whose keys match, insert the others.

    A merge that deletes rows asks first.
    """
    from lakeroot import spark as pipeline
    from lakeroot.spark.moving import source_frame

    given: dict[str, Any] = {
        **choices,
        **catalog_options(ctx),
        "on": list(keys),
    }
    asks = not (yes or dry_run) and "delete" in choices.values()
    with spark_session("merge", shows=False) as session:
        frame = source_frame(session, source, format=kind, reader=pairs(reader))
        if asks:
            with shown_for(session, "Spark: counting"):
                doomed = pipeline.merge(frame, table, dry_run=True, **given).deleted
            agreed(f"Delete {doomed} rows of {table}? Older versions keep them.", yes=yes)
        with shown_for(session, "Spark: merge"):
            done = pipeline.merge(frame, table, dry_run=dry_run, **given)
    if dry_run:
        text = f"insert {done.inserted}, update {done.updated}, delete {done.deleted}"
        rows = done.inserted + done.updated + done.deleted
        print_done(ctx, f"Would {text} rows.", **{"would merge": rows}, **facts(done))
        return
    did = f"{done.inserted} rows inserted, {done.updated} updated, {done.deleted} deleted"
    print_changed(ctx, table, done, did)


@job_group.command("delete")
@click.argument("table", type=TABLE)
@click.argument("predicate")
@JOB_ID
@DRY_RUN
@YES
@click.pass_context
def delete(
    ctx: click.Context, table: str, predicate: str, job_id: str | None, dry_run: bool, yes: bool
) -> None:
    """Delete the rows for which a predicate, in the SQL of Lance, holds."""
    from lakeroot import spark as pipeline

    where = {"job_id": job_id, **catalog_options(ctx)}
    doomed = table_of(ctx, table).count(predicate)
    if dry_run:
        print_value(ctx, "would delete", doomed)
        return
    agreed(f"Delete {doomed} rows of {table}? Older versions keep them.", yes=yes)
    with spark_session("delete") as session:
        done = pipeline.delete(session, table, where=predicate, **where)
    print_changed(ctx, table, done, f"{done.deleted} rows deleted")


@job_group.command("compact")
@click.argument("table", type=TABLE)
@DRY_RUN
@click.pass_context
def compact(ctx: click.Context, table: str, dry_run: bool) -> None:
    """Fold small fragments of a table into large ones."""
    from lakeroot import spark as pipeline

    where = catalog_options(ctx)
    table_of(ctx, table)  # a wrong name is said before Spark takes its time to start
    if dry_run:
        done = pipeline.compact(NO_SPARK, table, dry_run=True, **where)
        text = f"Would fold some of {done.fragments_before} fragments, with {done.tasks} tasks."
        nothing = f"There is nothing to fold in {done.fragments_before} fragments."
        print_done(ctx, text if done.tasks else nothing, **facts(done))
        return
    with spark_session("compact") as session:
        done = pipeline.compact(session, table, **where)
    folded = f"{done.fragments_before} fragments before, {done.fragments_after} now"
    print_changed(ctx, table, done, folded)


def print_changed(ctx: click.Context, table: str, done: Any, did: str) -> None:
    """Say what a job has done to a table, or that it was done before."""
    was = "the job was done before" if getattr(done, "already_done", False) else did
    print_done(ctx, f"{table} is at version {done.version}: {was}.", **facts(done))


def facts(result: Any) -> dict[str, Any]:
    """Give what a job says it has done."""
    # Not the table: its catalog's properties may hold credentials.
    return {key: value for key, value in asdict(result).items() if key != "table"}
