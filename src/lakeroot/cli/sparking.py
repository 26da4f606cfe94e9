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
from lakeroot.cli.naming import DRY_RUN, YES, agreed, pairs
from lakeroot.cli.output import print_done, print_rows, print_value
from lakeroot.cli.progress import shown_for
from lakeroot.lake.opening import implementation


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

    # A wrong address is said before Spark takes its time to start.
    opened_now(ctx, "Write the version into the statement: lake.air.flights VERSION AS OF 3")
    impl, properties = implementation(*chosen(options_of(ctx)))
    with spark_session("sql") as session:
        pipeline.use_catalog(session, name, impl=impl, properties=properties)
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
    """Run the pipeline of a YAML file: all its tables are published in one commit, or none."""
    from lakeroot.spark import pipelines

    definition = pipelines.load(pipeline)
    if plan_only:
        for line in pipelines.plan(definition):
            click.echo(line)
        return
    with spark_session(definition.name) as session:
        done = pipelines.run(session, definition, run_id=run_id)
    if done.already_done:
        print_done(ctx, f"The run {done.run_id} was published before.", **facts(done))
        return
    rows = [(one.table, one.version, one.rows) for one in done.tables]
    print_rows(ctx, ["table", "version", "rows"], rows)


@click.group("job")
def job_group() -> None:
    """Run a job on Spark: ingest, merge, update, delete, compact, index, backfill, export."""


@job_group.command("ingest")
@click.argument("table")
@click.argument("source")
@click.option("-f", "--format", "kind", default="parquet", show_default=True, help="Spark's word.")
@click.option("--mode", default="append", show_default=True, help="append, overwrite or create.")
@click.option("--job-id", help="Run again under the same id, the job does nothing.")
@click.option("-R", "--reader", multiple=True, metavar="KEY=VALUE", help="Option of the reader.")
@DRY_RUN
@click.pass_context
def ingest(
    ctx: click.Context,
    table: str,
    source: str,
    kind: str,
    mode: str,
    job_id: str | None,
    reader: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Load files into a table."""
    from lakeroot import spark as pipeline
    from lakeroot.spark.moving import source_frame

    more = {"job_id": job_id} if job_id else {}
    with spark_session("ingest") as session:
        if dry_run:
            frame = source_frame(session, source, format=kind, reader=pairs(reader))
            print_rows(ctx, ["column", "type"], frame.dtypes)
            return
        done = pipeline.ingest(
            session,
            source,
            table,
            format=kind,
            reader=pairs(reader),
            mode=mode,
            **more,
            **catalog_options(ctx),
        )
    print_done(ctx, f"{table} is at version {done.version}.", **facts(done))


@job_group.command("merge")
@click.argument("table", type=TABLE)
@click.argument("source")
@click.option("--on", "keys", multiple=True, required=True, help="A key column; may repeat.")
@click.option("-f", "--format", "kind", default="parquet", show_default=True, help="Spark's word.")
@DRY_RUN
@click.pass_context
def merge(
    ctx: click.Context, table: str, source: str, keys: tuple[str, ...], kind: str, dry_run: bool
) -> None:
    """Update the rows whose keys match, insert the others."""
    from lakeroot import spark as pipeline
    from lakeroot.spark.moving import source_frame

    with spark_session("merge") as session:
        frame = source_frame(session, source, format=kind)
        if dry_run:
            print_value(ctx, "would merge", frame.count())
            return
        done = pipeline.merge(frame, table, on=list(keys), **catalog_options(ctx))
    print_done(ctx, f"{table} is at version {done.version}.", **facts(done))


@job_group.command("delete")
@click.argument("table", type=TABLE)
@click.argument("predicate")
@DRY_RUN
@YES
@click.pass_context
def delete(ctx: click.Context, table: str, predicate: str, dry_run: bool, yes: bool) -> None:
    """Delete the rows a predicate keeps."""
    from lakeroot import spark as pipeline

    doomed = table_of(ctx, table).count(predicate)
    if dry_run:
        print_value(ctx, "would delete", doomed)
        return
    agreed(f"Delete {doomed} rows of {table}? Older versions keep them.", yes=yes)
    with spark_session("delete") as session:
        done = pipeline.delete(session, table, where=predicate, **catalog_options(ctx))
    print_done(ctx, f"{table} is at version {done.version}.", **facts(done))


@job_group.command("compact")
@click.argument("table", type=TABLE)
@DRY_RUN
@click.pass_context
def compact(ctx: click.Context, table: str, dry_run: bool) -> None:
    """Fold small fragments of a table into large ones."""
    from lakeroot import spark as pipeline

    where = catalog_options(ctx)
    with spark_session("compact") as session:
        done = pipeline.compact(session, table, dry_run=dry_run, **where)
    print_done(ctx, f"{table} is at version {done.version}.", **facts(done))


def facts(result: Any) -> dict[str, Any]:
    """Give what a job says it has done."""
    # Not the table: its catalog's properties may hold credentials.
    return {key: value for key, value in asdict(result).items() if key != "table"}
