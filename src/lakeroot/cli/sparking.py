"""Commands that run on Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakeroot.cli.catalogs import TABLE, opened_now, table_of
from lakeroot.cli.config import chosen, options_of
from lakeroot.cli.failing import EXIT_FAILED, report
from lakeroot.cli.naming import DRY_RUN, YES, agreed, pairs
from lakeroot.cli.output import form, many, print_done, print_rows
from lakeroot.cli.progress import shown_for
from lakeroot.lake.opening import implementation
from lakeroot.model.errors import InvalidInputError

if TYPE_CHECKING:
    from lakeroot.lake import LakeTable

JOB_ID = click.option("--job-id", help="Run again under the same id, the job does nothing.")
READER = click.option(
    "-R", "--reader", multiple=True, metavar="KEY=VALUE", help="Option of the reader."
)

# What a dry run checks, it checks without Spark, if it can.
NO_SPARK: Any = None
DONE_BEFORE = "It was done before."
_DELETES = "Delete {rows} of {table}? Older versions keep them."


@contextmanager
def spark_session(name: str, *, shows: bool = True, computes: bool = False) -> Iterator[Any]:
    """Open a quiet session, and stop it; one that runs already is used, and left.

    With --debug it says all that Spark says. `computes` is for code of the user in it.
    """
    from pyspark.sql import SparkSession

    from lakeroot import spark as pipeline
    from lakeroot.spark.quiet import errors_unlogged, quietly

    says_all = options_of(click.get_current_context()).get("debug")
    with nullcontext() if says_all else errors_unlogged():
        running = SparkSession.getActiveSession()
        if running is not None:
            yield pipeline.register(running)
            return
        click.echo("Starting Spark …", err=True)
        loud: AbstractContextManager[Mapping[str, str]] = nullcontext({})
        with loud if says_all else quietly(computes=computes) as config:
            session = pipeline.session(f"lakeroot {name}", config=config)
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


def catalog_options(ctx: click.Context, *, begins: bool = False) -> dict[str, Any]:
    """Say which catalog a job means, as the jobs take it; one that `begins` it may be the first."""
    opened_now(ctx, "Leave --as-of out: a job changes the present", begins=begins)
    impl, properties = implementation(*chosen(options_of(ctx)))
    return {"impl": impl, **{f"property.{key}": value for key, value in properties.items()}}


def job_on(ctx: click.Context, table: str) -> tuple["LakeTable", dict[str, Any]]:
    """Find the table of a job, and say which catalog it is in, as the jobs take it.

    A wrong name is said before Spark takes its time to start.
    """
    where = catalog_options(ctx)
    return table_of(ctx, table), where


def changed_before(table: str, job_id: str | None, verb: str, where: Mapping[str, Any]) -> Any:
    """Find that rows were changed before by a job of this id: no Spark is needed to see it."""
    from lakeroot.spark import options, row_changes
    from lakeroot.spark.catalogs import exists

    ref = options.table_of({**where, "table": table})
    exists(ref)  # a table may be missing, for a merge, but not its namespace
    return row_changes.done_before(ref, job_id, verb)


@click.command()
@click.argument("statement")
@click.option("-n", "--rows", default=100, show_default=True, help="How many rows to show.")
@click.option("--name", default="lake", show_default=True, help="What SQL calls the catalog.")
@click.pass_context
def sql(ctx: click.Context, statement: str, rows: int, name: str) -> None:
    """Run a SQL statement over the catalog with Spark: SELECT … FROM lake.air.flights."""
    from lakeroot import spark as pipeline
    from lakeroot.spark.failures import translated_statement

    # A wrong address is said before Spark takes its time to start.
    fix = "Write the version into the statement: lake.air.flights VERSION AS OF 3"
    opened_now(ctx, fix, begins=True)
    impl, properties = implementation(*chosen(options_of(ctx)))
    with spark_session("sql") as session:
        pipeline.use_catalog(session, name, impl=impl, properties=properties)
        with translated_statement("The statement cannot be run"):
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
    pipelines.require_possible(definition, run_id)
    done = pipelines.finished(definition, run_id)
    if done is None:
        computes = any(step.python for step in definition.steps)
        with spark_session(definition.name, computes=computes) as session:
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
    from lakeroot.spark.moving import check_source, foretold_ingest, look_first

    given: dict[str, Any] = {"format": kind, "reader": pairs(reader), "schema": schema}
    named = {"job_id": job_id} if job_id else {}
    writing = {**pairs(writer), **named, "mode": mode, **catalog_options(ctx, begins=True)}
    columns: list[tuple[str, str]] = []
    done = look_first(table, **writing)
    if done is None:
        check_source(source, kind, schema)
        with spark_session("ingest") as session:
            if dry_run:
                done, columns = foretold_ingest(session, source, table, **given, **writing)
            else:
                done = pipeline.ingest(session, source, table, **given, **writing)
    if dry_run:
        _print_ingest(ctx, done, columns)
        return
    came = f"{many(done.rows, 'row')} came in, in {many(done.files, 'file')}"
    print_changed(ctx, table, done, came)


def _print_ingest(ctx: click.Context, would: Any, columns: Sequence[tuple[str, str]]) -> None:
    """Say what an ingest would do: the columns as a table, and the rows beside it."""
    text = DONE_BEFORE if would.already_done else f"Would write {many(would.rows, 'row')}."
    if form(ctx) == "json":
        named = [{"column": name, "type": kind} for name, kind in columns]
        print_done(ctx, text, **facts(would), columns=named)
        return
    if columns or form(ctx) == "csv":
        print_rows(ctx, ["column", "type"], columns)
    click.echo(text, err=True)


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
    from lakeroot.spark.moving import check_source, source_frame

    where = catalog_options(ctx, begins=True)
    given: dict[str, Any] = {**choices, **where, "on": list(keys)}
    asks = not (yes or dry_run) and "delete" in choices.values()
    done = changed_before(table, choices["job_id"], "merge", where)
    if done is None:
        check_source(source, kind)
        options = pairs(reader)
        with spark_session("merge", shows=False) as session:
            frame = source_frame(session, source, format=kind, reader=options)
            if asks:
                with shown_for(session, "Spark: counting"):
                    doomed = pipeline.merge(frame, table, dry_run=True, **given).deleted
                agreed(_DELETES.format(rows=many(doomed, "row"), table=table), yes=yes)
            with shown_for(session, "Spark: merge"):
                done = pipeline.merge(frame, table, dry_run=dry_run, **given)
    if dry_run:
        inserts = many(done.inserted, "row")
        text = f"Would insert {inserts}, update {done.updated}, delete {done.deleted}."
        rows = done.inserted + done.updated + done.deleted
        would = DONE_BEFORE if done.already_done else text
        print_done(ctx, would, **{"would merge": rows}, **facts(done))
        return
    did = f"{many(done.inserted, 'row')} inserted, {done.updated} updated, {done.deleted} deleted"
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

    if not predicate.strip():
        raise InvalidInputError(
            "A delete needs a predicate", "this one is empty", "Write true to delete all rows"
        )
    found, where = job_on(ctx, table)
    done = changed_before(table, job_id, "delete", where)
    doomed = 0 if done else found.count(predicate)
    if dry_run:
        print_would(ctx, "would delete", doomed, is_done=done is not None)
        return
    if done is None:
        agreed(_DELETES.format(rows=many(doomed, "row"), table=table), yes=yes)
        with spark_session("delete") as session:
            done = pipeline.delete(session, table, where=predicate, job_id=job_id, **where)
    print_changed(ctx, table, done, f"{many(done.deleted, 'row')} deleted")


@job_group.command("compact")
@click.argument("table", type=TABLE)
@DRY_RUN
@click.pass_context
def compact(ctx: click.Context, table: str, dry_run: bool) -> None:
    """Fold small fragments of a table into large ones."""
    from lakeroot import spark as pipeline

    _, where = job_on(ctx, table)
    if dry_run:
        done = pipeline.compact(NO_SPARK, table, dry_run=True, **where)
        fewer = f"{many(done.fragments_before, 'fragment')} into {done.fragments_after}"
        text = f"Would fold {fewer}, with {many(done.tasks, 'task')}."
        nothing = f"There is nothing to fold in {many(done.fragments_before, 'fragment')}."
        print_done(ctx, text if done.tasks else nothing, **facts(done))
        return
    with spark_session("compact") as session:
        done = pipeline.compact(session, table, **where)
    folded = f"{many(done.fragments_before, 'fragment')} before, {done.fragments_after} now"
    print_changed(ctx, table, done, folded)


def print_would(ctx: click.Context, name: str, rows: int, *, is_done: bool) -> None:
    """Say how many rows a job would change, and if that is none because it was done before."""
    if form(ctx) == "table":
        click.echo(DONE_BEFORE if is_done else rows)
        return
    print_done(ctx, "", **{name: rows, "already_done": is_done})


def print_changed(ctx: click.Context, table: str, done: Any, did: str) -> None:
    """Say what a job has done to a table, or that it was done before."""
    was = "the job was done before" if getattr(done, "already_done", False) else did
    print_done(ctx, f"{table} is at version {done.version}: {was}.", **facts(done))


def facts(result: Any) -> dict[str, Any]:
    """Give what a job says it has done."""
    # Not the table: its catalog's properties may hold credentials.
    return {key: value for key, value in asdict(result).items() if key != "table"}
