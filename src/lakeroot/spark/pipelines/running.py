"""Run a pipeline: read, transform, check, write aside, and publish all tables together."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
from pyspark.sql import DataFrame, SparkSession

from lakeroot.model.errors import LakerootError
from lakeroot.spark.catalogs import TableRef, exists, locate, parse_name
from lakeroot.spark.commits import JOB, MESSAGE, find_job
from lakeroot.spark.distribute import until_uncontested
from lakeroot.spark.failures import translated
from lakeroot.spark.functions import function_named
from lakeroot.spark.merge_clauses import INSERT, UPDATE, Merge, merge_changes, same_keys
from lakeroot.spark.merging import check_keys
from lakeroot.spark.moving import source_frame
from lakeroot.spark.opening import open_for, open_table
from lakeroot.spark.options import ReadOptions, WriteOptions, parse
from lakeroot.spark.pipelines.checking import check
from lakeroot.spark.pipelines.definition import Pipeline, Source, Step, Target, load
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
from lakeroot.spark.session import session
from lakeroot.spark.write_tasks import WritePlan
from lakeroot.spark.write_tasks import run as write_all
from lakeroot.spark.writing import prepare

PIPELINE, RUN, LINEAGE = "lakeroot.pipeline", "lakeroot.run", "lakeroot.sources"


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
    table that the run merges into, the run starts again on top of it.
    """
    identity = run_id or uuid.uuid4().hex
    if pipeline.atomic:
        require_atomic(pipeline.catalog)

    def attempt() -> PipelineResult:
        done = _done(pipeline, identity)
        if done is not None:
            return done
        return _Run(spark, pipeline, identity).execute()

    return until_uncontested(attempt)


def _job(pipeline: Pipeline, run_id: str) -> str:
    return f"{pipeline.name}/{run_id}"


def _ref(pipeline: Pipeline, name: str) -> TableRef:
    return TableRef(pipeline.catalog, parse_name(name))


def _done(pipeline: Pipeline, run_id: str) -> PipelineResult | None:
    """Find the publication of a run among the newest versions of its tables."""
    found = []
    for target in pipeline.tables:
        table = exists(_ref(pipeline, target.table))
        version = find_job(open_table(table), JOB, _job(pipeline, run_id)) if table else None
        if version is not None:
            found.append(TableResult(target.table, version, 0))
    if len(found) < (1 if pipeline.atomic else len(pipeline.tables)):
        return None
    return PipelineResult(pipeline.name, run_id, tuple(found), {}, already_done=True)


class _Run:
    """One attempt at a run."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, run_id: str) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.run_id = run_id
        self.frames: dict[str, DataFrame] = {}
        self.versions: dict[str, int] = {}
        self.plans: list[WritePlan] = []
        self.kept: list[DataFrame] = []

    def execute(self) -> PipelineResult:
        """Do everything up to the publication; remove everything if anything fails."""
        pipeline = self.pipeline
        try:
            for source in pipeline.sources:
                self._name(source.name, self._source(source))
            for step in pipeline.steps:
                self._name(step.name, self._step(step))
            rows = {each.table: self._checked(each) for each in pipeline.tables}
            pending = [self._written(each) for each in pipeline.tables]
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
            version = versions.get(str(ref)) or int(open_table(locate(ref)).version)
            results.append(TableResult(target.table, version, rows[target.table]))
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
            return rows
        if source.sql is not None:
            with translated(f"Source {source.name!r} cannot be read"):
                return self.spark.sql(source.sql)
        return source_frame(
            self.spark,
            str(source.path),
            format=source.format or "parquet",
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
        if target.mode == "merge":
            check_keys(rows, _ref(self.pipeline, target.table), target.keys)
        return check(rows, target.checks, target.table)

    def _written(self, target: Target) -> Pending:
        """Write the rows of a table aside."""
        ref, rows = _ref(self.pipeline, target.table), self.frames[target.source]
        merging = target.mode == "merge" and exists(ref) is not None
        mode = "append" if target.mode == "merge" else target.mode
        options = parse(WriteOptions, {**target.options, "mode": mode})
        plan = prepare(ref, rows.schema, options)
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
            operation = lance.LanceOperation.Append(fragments) if fragments else None
        return Pending(plan, operation, files, self._properties())

    def _merged(self, target: Target, plan: WritePlan, rows: DataFrame) -> Pending:
        merge = Merge(same_keys(target.keys), [UPDATE], [INSERT], [])
        changes, tasks = merge_changes(rows, plan, merge)
        parts = run_changes(changes, plan, tasks)
        files = tuple(name for part in parts for name in part.written.files)
        return Pending(plan, operation_of(parts), files, self._properties(), strict=True)

    def _properties(self) -> dict[str, str]:
        message = {MESSAGE: self.pipeline.message} if self.pipeline.message else {}
        return {
            JOB: _job(self.pipeline, self.run_id),
            PIPELINE: self.pipeline.name,
            RUN: self.run_id,
            LINEAGE: json.dumps(self.versions),
            **message,
        }


def plan(pipeline: Pipeline) -> list[str]:
    """Say, line by line, what a run would do; nothing is read but metadata."""
    reads = (f"read {each.name}: {_source_text(pipeline, each)}" for each in pipeline.sources)
    lines = [f"pipeline {pipeline.name}", *reads]
    for step in pipeline.steps:
        how = step.python or " ".join(str(step.sql).split())
        lines.append(f"step {step.name}: {how}")
    for target in pipeline.tables:
        found = exists(_ref(pipeline, target.table))
        state = "new" if found is None else f"now version {open_table(found).version}"
        keys = f" on {', '.join(target.keys)}" if target.keys else ""
        lines.append(
            f"{target.mode} {target.table} ({state}) from {target.source}{keys},"
            f" {len(target.checks)} checks"
        )
    together = "in one commit" if pipeline.atomic else "one by one"
    return [*lines, f"publish {len(pipeline.tables)} tables {together}"]


def _source_text(pipeline: Pipeline, source: Source) -> str:
    if source.table is None:
        return source.sql or f"{source.format} {source.path}"
    ref = _ref(pipeline, source.table)
    try:
        options = parse(ReadOptions, {"version": source.version, "tag": source.tag})
        return f"table {source.table} version {open_for(locate(ref), options).version}"
    except LakerootError as error:
        return f"table {source.table}: {error}"
