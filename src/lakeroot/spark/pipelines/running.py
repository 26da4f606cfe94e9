"""Run a pipeline: read, transform, check, write aside, publish all tables together, do the jobs."""

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lance
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lakeroot.spark.catalogs import TableRef, exists, locate
from lakeroot.spark.commits import JOB, MESSAGE
from lakeroot.spark.distribute import until_uncontested
from lakeroot.spark.failures import translated
from lakeroot.spark.fitting import rows_of
from lakeroot.spark.merge_clauses import (
    DELETE,
    INSERT,
    UPDATE,
    Clause,
    Merge,
    merge_changes,
    same_keys,
)
from lakeroot.spark.merging import check_keys, refuse_cut_keys
from lakeroot.spark.moving import source_frame
from lakeroot.spark.opening import open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, parse
from lakeroot.spark.pipelines.afterwards import JobResult, do_jobs
from lakeroot.spark.pipelines.blaming import rows_blamed
from lakeroot.spark.pipelines.checking import check
from lakeroot.spark.pipelines.definition import KEYED, Pipeline, Source, Step, Target
from lakeroot.spark.pipelines.files import load
from lakeroot.spark.pipelines.metastore_jobs import Rows
from lakeroot.spark.pipelines.places import pointed
from lakeroot.spark.pipelines.plans import (
    CHANGES,
    kind_of_source,
    nothing_to_change,
    require_catalog,
    require_possible,
    require_run_id,
)
from lakeroot.spark.pipelines.publications import (
    is_over,
    job_of,
    note_publication,
    published,
    ref_of,
    rows_noted,
)
from lakeroot.spark.pipelines.python_steps import frame_of
from lakeroot.spark.pipelines.views import lent
from lakeroot.spark.publishing import (
    NotPublished,
    Pending,
    discard,
    publish_one_by_one,
    publish_together,
)
from lakeroot.spark.reading import planned
from lakeroot.spark.row_changes import operation_of, run_changes
from lakeroot.spark.sessions import session
from lakeroot.spark.write_tasks import WritePlan
from lakeroot.spark.write_tasks import run as write_all
from lakeroot.spark.writing import prepare

PIPELINE, RUN, LINEAGE = "lakeroot.pipeline", "lakeroot.run", "lakeroot.sources"
METRICS = "lakeroot.metrics"
# What becomes of rows whose keys the table has, and of those whose keys it has not.
_CLAUSES: Mapping[str, tuple[list[Clause], list[Clause]]] = {
    "merge": ([UPDATE], [INSERT]),
    "update": ([UPDATE], []),
    "delete": ([DELETE], []),
}


@dataclass(frozen=True, slots=True)
class TableResult:
    """What a run has done to one table."""

    table: str
    version: int
    rows: int


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """What a run has done."""

    pipeline: str
    run_id: str
    tables: tuple[TableResult, ...]
    sources: Mapping[str, int]
    jobs: tuple[JobResult, ...] = ()
    already_done: bool = False


def run_file(
    path: str | Path, *, run_id: str | None = None, spark: SparkSession | None = None
) -> PipelineResult:
    """Run the pipeline of a file, in a session of its own unless one is given."""
    pipeline = load(path)
    if spark is None:
        require_possible(pipeline, run_id)
        if done := finished(pipeline, run_id):
            return done
        spark = session(f"lakeroot {pipeline.name}")
    return run(spark, pipeline, run_id=run_id)


def finished(pipeline: Pipeline, run_id: str | None) -> PipelineResult | None:
    """Give a run of which nothing is left to do, before Spark takes its time to start."""
    if run_id is None or pipeline.jobs or not pipeline.tables:
        return None
    require_catalog(pipeline)
    before = published(pipeline, run_id)
    return _over(pipeline, run_id, before) if is_over(pipeline, before) else None


def run(spark: SparkSession, pipeline: Pipeline, *, run_id: str | None = None) -> PipelineResult:
    """Run a pipeline; a run id that was published before makes it do nothing.

    Nothing is visible before every check of every table has passed. If another writer changes a
    table that the run merges into, the run starts again on top of it. Jobs come after the
    publication; a run whose job failed goes on with it when it is run again under its id.
    """
    require_run_id(run_id)
    identity = run_id or uuid.uuid4().hex
    done = _publish(spark, pipeline, identity)
    with _rows(spark, pipeline, identity) as rows:
        jobs = do_jobs(spark, pipeline, identity, rows)
    over = [done.already_done] if pipeline.tables else []
    over += [each.already_done for each in jobs if each.table is not None]
    return replace(done, jobs=jobs, already_done=bool(over) and all(over))


@contextmanager
def _rows(spark: SparkSession, pipeline: Pipeline, identity: str) -> Iterator[Rows]:
    """Make the rows of sources and steps for jobs, if one asks for them."""
    run = _Run(spark, pipeline, identity, {})
    with ExitStack() as stack:

        def named(name: str) -> DataFrame:
            if not run.frames:
                stack.enter_context(run.lent())
                run.read()
            return run.frames[name]

        yield named


def _publish(spark: SparkSession, pipeline: Pipeline, identity: str) -> PipelineResult:
    if not pipeline.tables:
        return PipelineResult(pipeline.name, identity, (), {})
    require_catalog(pipeline)

    def attempt() -> PipelineResult:
        before = published(pipeline, identity)
        if is_over(pipeline, before):
            return _over(pipeline, identity, before)
        done = _Run(spark, pipeline, identity, before).execute()
        told = [(one.table, one.version, one.rows) for one in done.tables]
        note_publication(pipeline, identity, told)
        return done

    return until_uncontested(attempt)


def _over(pipeline: Pipeline, identity: str, before: Mapping[str, int]) -> PipelineResult:
    found = tuple(
        TableResult(name, version, rows_noted(pipeline, identity, name))
        for name, version in before.items()
    )
    return PipelineResult(pipeline.name, identity, found, {}, already_done=True)


class _Run:
    """One attempt at a run."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, run_id: str, published: Mapping[str, int]
    ) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.run_id = run_id
        # What an earlier attempt has published, one by one, is not published again.
        self.published = published
        self.targets = [each for each in pipeline.tables if each.table not in published]
        self.frames: dict[str, DataFrame] = {}
        self.versions: dict[str, int] = {}
        self.lineage: dict[str, dict[str, Any]] = {}
        self.plans: list[WritePlan] = []
        self.kept: list[DataFrame] = []
        self.rows: dict[str, int] = {}

    def lent(self) -> AbstractContextManager[None]:
        """Borrow the names of sources and steps in the session."""
        pipeline = self.pipeline
        names = [each.name for each in pipeline.sources] + [each.name for each in pipeline.steps]
        return lent(self.spark, names)

    def read(self) -> None:
        """Read the sources, and take the steps."""
        for source in self.pipeline.sources:
            self._name(source.name, self._source(source))
        for step in self.pipeline.steps:
            self._name(step.name, self._step(step))

    def execute(self) -> PipelineResult:
        """Do everything up to the publication; remove everything if anything fails."""
        pipeline = self.pipeline
        try:
            with self.lent():
                self.read()
                rows = self.rows = {each.table: self._checked(each) for each in self.targets}
                pending = [self._written(each) for each in self.targets]
        except BaseException:
            discard(self.plans)
            raise
        finally:
            for kept in self.kept:
                kept.unpersist()
        versions = self._published(pending)
        return PipelineResult(
            pipeline.name, self.run_id, self._results(versions, rows), dict(self.versions)
        )

    def _published(self, pending: list[Pending]) -> dict[str, int]:
        """Publish; if it is not known whether that happened, leave every file where it is."""
        if not self.pipeline.atomic:
            return publish_one_by_one(pending)
        message = self.pipeline.message or job_of(self.pipeline, self.run_id)
        try:
            return publish_together(self.pipeline.catalog, pending, message)
        except NotPublished as error:
            discard(self.plans)
            raise error.__cause__ or error from None

    def _results(self, versions: dict[str, int], rows: dict[str, int]) -> tuple[TableResult, ...]:
        results = []
        for target in self.pipeline.tables:
            ref = ref_of(self.pipeline, target.table)
            version = self.published.get(target.table) or versions.get(str(ref))
            version = version or int(open_table(locate(ref)).version)
            results.append(TableResult(target.table, version, rows.get(target.table, 0)))
        return tuple(results)

    def _name(self, name: str, rows: DataFrame) -> None:
        self.frames[name] = rows
        rows.createOrReplaceTempView(name)

    def _source(self, source: Source) -> DataFrame:
        with pointed(source.place, kind_of_source(source), source.sql):
            return self._opened(source)

    def _opened(self, source: Source) -> DataFrame:
        if source.table is not None:
            ref = ref_of(self.pipeline, source.table)
            given = {"version": source.version, "tag": source.tag, **source.options}
            rows, plan = planned(self.spark, ref, parse(ReadOptions, given))
            self.versions[source.table] = plan.version
            self.lineage[source.name] = {"table": source.table, "version": plan.version}
            return rows
        if source.sql is not None:
            self.lineage[source.name] = {"sql": source.sql}
            with translated(f"Source {source.name!r} cannot be read"):
                return self.spark.sql(source.sql)
        kind = source.format or "parquet"
        self.lineage[source.name] = {"path": str(source.path), "format": kind}
        return source_frame(
            self.spark,
            str(source.path),
            format=kind,
            reader=source.options,
            schema=source.schema,
        )

    def _step(self, step: Step) -> DataFrame:
        which = f"Step {step.name!r} of pipeline {self.pipeline.name!r}"
        if step.sql is None:
            with pointed(step.place, "python"):
                return frame_of(self.spark, self.frames, str(step.python), which)
        with pointed(step.place, "sql", step.sql), translated(f"{which} failed"):
            return self.spark.sql(step.sql)

    def _checked(self, target: Target) -> int:
        """Compute the rows of a table once, and check them."""
        # Here Spark plans, and computes what is the same for all rows.
        failing = f"The rows for table {target.table} cannot be computed"
        with rows_blamed(self.pipeline, target, "from"), translated(failing):
            rows = self.frames[target.source].persist()
        self.kept.append(rows)
        self.frames[target.source] = rows
        if target.mode in KEYED:
            with rows_blamed(self.pipeline, target, "keys"):
                check_keys(rows, ref_of(self.pipeline, target.table), target.keys)
        with rows_blamed(self.pipeline, target, "from"):
            return check(rows, target.checks, target.table)

    def _written(self, target: Target) -> Pending:
        """Write the rows of a table aside."""
        with rows_blamed(self.pipeline, target, "table"):
            return self._put_aside(target)

    def _put_aside(self, target: Target) -> Pending:
        ref, rows = ref_of(self.pipeline, target.table), self.frames[target.source]
        merging = target.mode in KEYED and exists(ref) is not None
        mode = "append" if target.mode in KEYED else target.mode
        if target.mode in CHANGES:
            rows = rows.select(*target.keys) if target.mode == "delete" else rows
            schema = _with_the_rest(rows, ref, target.mode)
        else:
            schema = rows.schema
        options = parse(WriteOptions, {**target.options, "mode": mode})
        plan = prepare(ref, schema, options, aside=self.pipeline.atomic, spark=self.spark)
        self.plans.append(plan)
        if merging:
            return self._merged(target, plan, rows)
        with translated(f"Table {ref} cannot be written"):
            written = [each for each in write_all(rows, plan) if each.fragments]
        fragments = [fragment for each in written for fragment in each.fragments]
        files = tuple(name for each in written for name in each.files)
        operation: Any
        if plan.dataset is None:
            schema = next((each.schema for each in written), plan.schema)
            operation = lance.LanceOperation.Overwrite(schema, fragments)
        else:
            comes = fragments or plan.widened is not None
            operation = lance.LanceOperation.Append(fragments) if comes else None
        return Pending(plan, operation, files, self._properties(target))

    def _merged(self, target: Target, plan: WritePlan, rows: DataFrame) -> Pending:
        refuse_cut_keys(plan, target.keys)
        matched, new = _CLAUSES[target.mode]
        merge = Merge(same_keys(target.keys), matched, new, [])
        changes, tasks = merge_changes(rows, plan, merge)
        parts = run_changes(changes, plan, tasks)
        files = tuple(name for part in parts for name in part.written.files)
        return Pending(
            plan, operation_of(parts, plan), files, self._properties(target), strict=True
        )

    def _properties(self, target: Target) -> dict[str, str]:
        metrics = {"rows": self.rows[target.table], "checks": len(target.checks)}
        message = {MESSAGE: self.pipeline.message} if self.pipeline.message else {}
        return {
            JOB: job_of(self.pipeline, self.run_id),
            PIPELINE: self.pipeline.name,
            RUN: self.run_id,
            LINEAGE: json.dumps(self.lineage),
            METRICS: json.dumps(metrics),
            **message,
        }


def _with_the_rest(rows: DataFrame, ref: TableRef, mode: str) -> st.StructType:
    """Describe rows as if they had all columns of the table: those they lack stay as they are."""
    found = exists(ref)
    if found is None:
        raise nothing_to_change(ref, mode)
    known = rows_of(open_table(found).schema)
    rest = [field for field in known.fields if field.name not in rows.columns]
    return st.StructType([*rows.schema.fields, *rest])
