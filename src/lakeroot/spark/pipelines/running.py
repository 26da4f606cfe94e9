"""Run a pipeline: read, transform, check, write aside, publish all tables together, do the jobs."""

import contextlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lance
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lakeroot.model.errors import LakerootError, TableAlreadyExistsError, TableNotFoundError
from lakeroot.spark.catalogs import TableRef, exists, locate, parse_name
from lakeroot.spark.commits import JOB, MESSAGE, find_job
from lakeroot.spark.distribute import until_uncontested
from lakeroot.spark.failures import translated
from lakeroot.spark.functions import function_named
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
from lakeroot.spark.moving import files_blamed, source_frame
from lakeroot.spark.opening import open_for, open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, parse
from lakeroot.spark.pipelines import notes
from lakeroot.spark.pipelines.afterwards import JobResult, do_jobs
from lakeroot.spark.pipelines.checking import check
from lakeroot.spark.pipelines.definition import KEYED, Pipeline, Source, Step, Target
from lakeroot.spark.pipelines.files import load
from lakeroot.spark.pipelines.job_kinds import Job
from lakeroot.spark.pipelines.views import lent
from lakeroot.spark.publishing import (
    NotPublished,
    Pending,
    discard,
    publish_one_by_one,
    publish_together,
    require_atomic,
)
from lakeroot.spark.reading import planned
from lakeroot.spark.row_changes import operation_of, run_changes
from lakeroot.spark.sessions import session
from lakeroot.spark.types import spark_schema
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
_CHANGES = ("update", "delete")


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
    return run(spark or session(f"lakeroot {pipeline.name}"), pipeline, run_id=run_id)


def run(spark: SparkSession, pipeline: Pipeline, *, run_id: str | None = None) -> PipelineResult:
    """Run a pipeline; a run id that was published before makes it do nothing.

    Nothing is visible before every check of every table has passed. If another writer changes a
    table that the run merges into, the run starts again on top of it. Jobs come after the
    publication; a run whose job failed goes on with it when it is run again under its id.
    """
    identity = run_id or uuid.uuid4().hex
    published = _publish(spark, pipeline, identity)
    jobs = do_jobs(spark, pipeline, identity)
    done = [published.already_done] if pipeline.tables else []
    done += [each.already_done for each in jobs if each.table is not None]
    return replace(published, jobs=jobs, already_done=bool(done) and all(done))


def _publish(spark: SparkSession, pipeline: Pipeline, identity: str) -> PipelineResult:
    if not pipeline.tables:
        return PipelineResult(pipeline.name, identity, (), {})
    if pipeline.atomic:
        require_atomic(pipeline.catalog)

    def attempt() -> PipelineResult:
        published = _published(pipeline, identity)
        if _is_done(pipeline, published):
            found = tuple(
                TableResult(name, version, _rows_noted(pipeline, identity, name))
                for name, version in published.items()
            )
            return PipelineResult(pipeline.name, identity, found, {}, already_done=True)
        done = _Run(spark, pipeline, identity, published).execute()
        _note_publication(pipeline, done)
        return done

    return until_uncontested(attempt)


def _job(pipeline: Pipeline, run_id: str) -> str:
    return f"{pipeline.name}/{run_id}"


def _ref(pipeline: Pipeline, name: str) -> TableRef:
    return TableRef(pipeline.catalog, parse_name(name))


def _published(pipeline: Pipeline, run_id: str) -> dict[str, int]:
    """Find what a run has published: its tables' newest versions tell, or a note beside them."""
    found = {}
    for target in pipeline.tables:
        ref = _ref(pipeline, target.table)
        table = exists(ref)
        if table is None:
            continue
        version = find_job(open_table(table), JOB, _job(pipeline, run_id))
        if version is None:
            note = notes.noted(ref, notes.id_of(pipeline.name, run_id, notes.PUBLISH))
            version = notes.what_was_done(note).get("version") if note is not None else None
        if version is not None:
            found[target.table] = version
    return found


def _rows_noted(pipeline: Pipeline, run_id: str, name: str) -> int:
    """Find how many rows a run has published; none, where nobody lived to note it."""
    note = notes.noted(_ref(pipeline, name), notes.id_of(pipeline.name, run_id, notes.PUBLISH))
    return int(notes.what_was_done(note).get("rows", 0)) if note is not None else 0


def _note_publication(pipeline: Pipeline, done: PipelineResult) -> None:
    """Note what was published: jobs may clean up the versions that tell of it."""
    identity = notes.id_of(pipeline.name, done.run_id, notes.PUBLISH)
    for table in done.tables:
        with contextlib.suppress(LakerootError):  # It is published, and the history says so too.
            told = {"version": table.version, "rows": table.rows}
            notes.note_done(_ref(pipeline, table.table), identity, told)


def _is_done(pipeline: Pipeline, published: Mapping[str, int]) -> bool:
    """Tell whether a run is over: of tables that are published together, one tells of all."""
    return bool(published) and (pipeline.atomic or len(published) == len(pipeline.tables))


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

    def execute(self) -> PipelineResult:
        """Do everything up to the publication; remove everything if anything fails."""
        pipeline = self.pipeline
        names = [each.name for each in pipeline.sources] + [each.name for each in pipeline.steps]
        try:
            with files_blamed(), lent(self.spark, names):
                for source in pipeline.sources:
                    self._name(source.name, self._source(source))
                for step in pipeline.steps:
                    self._name(step.name, self._step(step))
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
        message = self.pipeline.message or _job(self.pipeline, self.run_id)
        try:
            return publish_together(self.pipeline.catalog, pending, message)
        except NotPublished as error:
            discard(self.plans)
            raise error.__cause__ or error from None

    def _results(self, versions: dict[str, int], rows: dict[str, int]) -> tuple[TableResult, ...]:
        results = []
        for target in self.pipeline.tables:
            ref = _ref(self.pipeline, target.table)
            version = self.published.get(target.table) or versions.get(str(ref))
            version = version or int(open_table(locate(ref)).version)
            results.append(TableResult(target.table, version, rows.get(target.table, 0)))
        return tuple(results)

    def _name(self, name: str, rows: DataFrame) -> None:
        self.frames[name] = rows
        rows.createOrReplaceTempView(name)

    def _source(self, source: Source) -> DataFrame:
        if source.table is not None:
            ref = _ref(self.pipeline, source.table)
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
        with translated(f"Step {step.name!r} of pipeline {self.pipeline.name!r} failed"):
            if step.sql is not None:
                return self.spark.sql(step.sql)
            made: DataFrame = function_named(str(step.python))(self.spark, dict(self.frames))
            return made

    def _checked(self, target: Target) -> int:
        """Compute the rows of a table once, and check them."""
        rows = self.frames[target.source].persist()
        self.kept.append(rows)
        self.frames[target.source] = rows
        if target.mode in KEYED:
            check_keys(rows, _ref(self.pipeline, target.table), target.keys)
        return check(rows, target.checks, target.table)

    def _written(self, target: Target) -> Pending:
        """Write the rows of a table aside."""
        ref, rows = _ref(self.pipeline, target.table), self.frames[target.source]
        merging = target.mode in KEYED and exists(ref) is not None
        mode = "append" if target.mode in KEYED else target.mode
        if target.mode in _CHANGES:
            rows = rows.select(*target.keys) if target.mode == "delete" else rows
            schema = _with_the_rest(rows, ref, target.mode)
        else:
            schema = rows.schema
        options = parse(WriteOptions, {**target.options, "mode": mode})
        plan = prepare(ref, schema, options, aside=self.pipeline.atomic)
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
            JOB: _job(self.pipeline, self.run_id),
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
        raise _nothing_to_change(ref, mode)
    known = spark_schema(open_table(found).schema, truncate_nanos=True)
    rest = [field for field in known.fields if field.name not in rows.columns]
    return st.StructType([*rows.schema.fields, *rest])


def _nothing_to_change(ref: TableRef, mode: str) -> TableNotFoundError:
    return TableNotFoundError(f"There is no table {ref} with rows to {mode}")


def plan(pipeline: Pipeline) -> list[str]:
    """Say, line by line, what a run would do; nothing is read but metadata.

    What can be seen to fail without reading rows is an error, as it would be of the run.
    """
    if pipeline.atomic and pipeline.tables:
        require_atomic(pipeline.catalog)
    reads = (f"read {each.name}: {_source_text(pipeline, each)}" for each in pipeline.sources)
    lines = [f"pipeline {pipeline.name}", *reads]
    for step in pipeline.steps:
        if step.python is not None:
            function_named(step.python)
        how = step.python or " ".join(str(step.sql).split())
        lines.append(f"step {step.name}: {how}")
    for target in pipeline.tables:
        found = exists(_ref(pipeline, target.table))
        if found is not None and target.mode == "create":
            raise TableAlreadyExistsError(
                f"Table {target.table} already exists", fix="Use another mode than create"
            )
        if found is None and target.mode in _CHANGES:
            raise _nothing_to_change(_ref(pipeline, target.table), target.mode)
        state = "new" if found is None else f"now version {open_table(found).version}"
        keys = f" on {', '.join(target.keys)}" if target.keys else ""
        lines.append(
            f"{target.mode} {target.table} ({state}) from {target.source}{keys},"
            f" {len(target.checks)} checks"
        )
    if pipeline.tables:
        together = "in one commit" if pipeline.atomic else "one by one"
        lines.append(f"publish {len(pipeline.tables)} tables {together}")
    return [*lines, *(_job_text(pipeline, each) for each in pipeline.jobs)]


def _job_text(pipeline: Pipeline, job: Job) -> str:
    if job.table is not None:
        made = {parse_name(target.table) for target in pipeline.tables}
        if parse_name(job.table) not in made:
            locate(_ref(pipeline, job.table))
    if "function" in job.options:
        function_named(job.options["function"])
    return f"then {job}"


def _source_text(pipeline: Pipeline, source: Source) -> str:
    if source.table is None:
        return source.sql or f"{source.format} {source.path}"
    ref = _ref(pipeline, source.table)
    given = {"version": source.version, "tag": source.tag, **source.options}
    options = parse(ReadOptions, given)
    return f"table {source.table} version {open_for(locate(ref), options).version}"
