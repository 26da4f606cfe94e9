"""Do the jobs of a pipeline, one after the other, each once for a run.

That a job was done is noted beside its table, where `DescribeTransaction` tells of it too. A run
that is repeated under its id goes on with the first job that is not. Jobs of the whole catalog find
nothing more to do the second time, and are noted nowhere; nor are those on tables of a metastore,
whose transactions tell of them.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from lakeroot.model.errors import (
    InvalidTableStateError,
    LakerootError,
    UnsupportedOperationError,
)
from lakeroot.model.spans import span_of
from lakeroot.spark.backfilling import backfill
from lakeroot.spark.caring import fsck, gc
from lakeroot.spark.catalogs import Catalog, TableRef, locate, parse_name
from lakeroot.spark.changing import delete, update
from lakeroot.spark.failures import translated
from lakeroot.spark.functions import function_named
from lakeroot.spark.maintenance import compact, index
from lakeroot.spark.moving import convert, export
from lakeroot.spark.opening import open_table
from lakeroot.spark.pipelines import notes
from lakeroot.spark.pipelines.definition import Pipeline
from lakeroot.spark.pipelines.job_kinds import Job
from lakeroot.spark.pipelines.metastore_jobs import MetastoreJob, Rows
from lakeroot.spark.pipelines.places import pointed
from lakeroot.spark.refilling import refill
from lakeroot.tables.indexes import index_kind


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job of a run has done, and the id under which it is noted beside its table."""

    job: str
    table: str | None
    did: Mapping[str, Any]
    id: str | None = None
    already_done: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """A job of a run, with all it needs."""

    spark: SparkSession
    catalog: Catalog
    job: Job
    # The same in every attempt at the run, and different for every job of it.
    id: str
    # An attempt before this one has begun it, and may have left something.
    is_repeated: bool = False

    @property
    def ref(self) -> TableRef:
        return TableRef(self.catalog, parse_name(str(self.job.table)))

    @property
    def where(self) -> dict[str, Any]:
        return _options(self.catalog)

    def chosen(self, *names: str) -> dict[str, Any]:
        """Give what the job is told under some names."""
        return {name: self.job.options[name] for name in names if name in self.job.options}


def do_jobs(
    spark: SparkSession, pipeline: Pipeline, run_id: str, rows: Rows
) -> tuple[JobResult, ...]:
    """Do the jobs of a run that are not done yet; `rows` makes those of a source or a step."""
    results = []
    ids = notes.ids_of_jobs(pipeline, run_id)
    for number, (job, identity) in enumerate(zip(pipeline.jobs, ids, strict=True), 1):
        try:
            if job.is_of_metastore:
                results.append(_on_metastore(spark, pipeline, job, identity, rows))
            else:
                results.append(_once(spark, pipeline, job, identity))
        except LakerootError as error:
            again = f"Run the pipeline again under the run id {run_id!r}: it goes on with this job"
            with pointed(job.place):
                raise type(error)(
                    f"Job {number} of pipeline {pipeline.name!r}, {job}, failed: {error.what}",
                    error.why,
                    " ".join([_sentence(error.fix), again]) if error.fix else again,
                ) from error
    return tuple(results)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _once(spark: SparkSession, pipeline: Pipeline, job: Job, identity: str) -> JobResult:
    work = _Work(spark, pipeline.catalog, job, identity)
    if job.table is None:
        return JobResult(job.job, None, _done(work))
    note = notes.noted(work.ref, identity)
    if note is not None and notes.is_done(note):
        did = notes.what_was_done(note)
        return JobResult(job.job, job.table, did, identity, already_done=True)
    work = _Work(spark, pipeline.catalog, job, identity, is_repeated=note is not None)
    notes.note_begun(work.ref, identity, {"kind": job.job, "pipeline": pipeline.name})
    try:
        did = _done(work)
    except LakerootError as error:
        notes.note_failed(work.ref, identity, str(error), error.code)
        raise
    notes.note_done(work.ref, identity, did)
    return JobResult(job.job, job.table, did, identity)


def _on_metastore(
    spark: SparkSession, pipeline: Pipeline, job: Job, identity: str, rows: Rows
) -> JobResult:
    with translated("It cannot be done"):
        done = MetastoreJob(pipeline.catalog, job).do(spark, rows, identity, pipeline.message)
    return JobResult(job.job, job.table, _facts(done), identity, already_done=done.already_done)


def _done(work: _Work) -> dict[str, Any]:
    with translated("It cannot be done"):
        return _WAYS[work.job.job](work)


def _options(catalog: Catalog) -> dict[str, Any]:
    return {"impl": catalog.impl, **{f"property.{key}": v for key, v in catalog.properties}}


def _facts(result: Any) -> dict[str, Any]:
    # Not the table: its catalog's properties may hold keys.
    ours = ("table", "already_done")
    return {name: value for name, value in asdict(result).items() if name not in ours}


def _compact(work: _Work) -> dict[str, Any]:
    return _facts(compact(work.spark, work.job.table, **work.job.options, **work.where))


def _index(work: _Work) -> dict[str, Any]:
    """Make sure that there is an index that knows every row; one that does stays."""
    options = dict(work.job.options)
    dataset = open_table(locate(work.ref))
    name = options.get("name") or f"{options['column']}_idx"
    there = next((each for each in dataset.describe_indices() if each.name == name), None)
    # Another column's stays: to take its place somebody has to say so.
    if there is not None and there.field_names == [options["column"]]:
        is_same = _plain(there.index_type) == _plain(index_kind(options["kind"]))
        is_whole = is_same and not dataset.stats.index_stats(name)["num_unindexed_rows"]
        if is_whole and not options.get("replace"):
            return {"version": dataset.version, "name": name, "segments": 0}
        options["replace"] = True
    return _facts(index(work.spark, work.job.table, **options, **work.where))


def _plain(kind: str) -> str:
    return re.sub(r"[^a-z0-9]", "", kind.lower())


def _backfill(work: _Work) -> dict[str, Any]:
    """Add columns; where the table has them since an earlier run, fill what is null in them."""
    function = work.job.options.get("function")
    settings = dict(work.job.options.get("set", {}))
    there = open_table(locate(work.ref)).schema.names
    known = {name: settings.pop(name) for name in list(settings) if name in there}
    did: dict[str, Any] = {}
    for name, expression in known.items():
        did = _facts(
            refill(
                work.spark,
                work.job.table,
                column=name,
                expression=expression,
                where=f"`{name}` IS NULL",
                job_id=f"{work.id} {name}",
                **work.chosen("batch_size"),
                **work.where,
            )
        )
    if settings or function:
        told: dict[str, Any] = work.chosen("batch_size", "resume")
        told["values"] = function_named(function) if function else settings
        told["reads"] = list(work.job.options.get("reads", ())) or None
        did = _facts(backfill(work.spark, work.job.table, job_id=work.id, **told, **work.where))
    return did


def _update(work: _Work) -> dict[str, Any]:
    told = {**work.job.options, "job_id": work.id}
    return _facts(update(work.spark, work.job.table, **told, **work.where))


def _delete(work: _Work) -> dict[str, Any]:
    told = {**work.job.options, "job_id": work.id}
    return _facts(delete(work.spark, work.job.table, **told, **work.where))


def _export(work: _Work) -> dict[str, Any]:
    told = work.chosen("format", "mode", "writer", "version")
    if "where" in work.job.options:
        told["filter"] = work.job.options["where"]
    if "columns" in work.job.options:
        told["columns"] = list(work.job.options["columns"])
    target = work.job.options["target"]
    if work.is_repeated and told.get("mode", "error") in ("error", "errorifexists"):
        told["mode"] = "overwrite"  # What is there is of the attempt before.
    rows = export(work.spark, work.job.table, target, **told, **work.where)
    return {"rows": rows, "target": target}


def _convert(work: _Work) -> dict[str, Any]:
    there = {**_options(work.job.options["to"]), "job_id": work.id}
    name = work.job.options.get("name") or str(work.job.table)
    here = {**work.where, **work.chosen("version")}
    told = work.chosen("mode")
    done = convert(work.spark, str(work.job.table), name, source=here, target=there, **told)
    return _facts(done)


def _migrate(work: _Work) -> dict[str, Any]:
    migrate = getattr(work.catalog.connect(), "migrate", None)
    if migrate is None:
        raise UnsupportedOperationError(
            "This catalog has nothing to migrate", "only directories have tables without a manifest"
        )
    with translated("The catalog cannot be migrated"):
        done = migrate()
    left = len(done.declared) + len(done.unnameable)
    return {"migrated": len(done.migrated), **({"left_alone": left} if left else {})}


def _fsck(work: _Work) -> dict[str, Any]:
    told: dict[str, Any] = {name: span_of(value) for name, value in work.chosen("grace").items()}
    findings = fsck(work.spark, **_care(work.catalog), **told)
    errors = [each for each in findings if each.severity == "error"]
    if errors:
        raise InvalidTableStateError(
            f"fsck found {len(errors)} errors; the first: {errors[0].object}: {errors[0].what}",
            errors[0].why,
            errors[0].fix,
        )
    return {"findings": len(findings)}


def _gc(work: _Work) -> dict[str, Any]:
    told = work.chosen("old_versions", "keep")
    if "older_than" in work.job.options:
        told["older_than"] = span_of(work.job.options["older_than"])
    done = gc(work.spark, **_care(work.catalog), **told)
    return {"deleted": len(done.garbage), "bytes": done.size_bytes}


def _care(catalog: Catalog) -> dict[str, Any]:
    return {"impl": catalog.impl, "properties": dict(catalog.properties)}


_WAYS: Final[Mapping[str, Callable[[_Work], dict[str, Any]]]] = {
    "compact": _compact,
    "index": _index,
    "backfill": _backfill,
    "update": _update,
    "delete": _delete,
    "export": _export,
    "convert": _convert,
    "migrate": _migrate,
    "fsck": _fsck,
    "gc": _gc,
}
