"""What a run would do, and whether it can: all that can be seen without Spark and without rows."""

from collections.abc import Iterator

from lakeroot.model.errors import (
    TableAlreadyExistsError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import Identifier
from lakeroot.spark.catalogs import Located, TableRef, exists, locate, parse_name
from lakeroot.spark.functions import function_named
from lakeroot.spark.opening import open_for, open_table
from lakeroot.spark.options import ReadOptions, parse
from lakeroot.spark.pipelines.definition import Pipeline, Source, Target
from lakeroot.spark.pipelines.job_kinds import Job
from lakeroot.spark.pipelines.metastore_jobs import MetastoreJob
from lakeroot.spark.pipelines.publications import is_over, published, ref_of
from lakeroot.spark.publishing import require_atomic
from lakeroot.spark.source_files import require_files

CHANGES = ("update", "delete")


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
        found = _possible(pipeline, target)
        state = "new" if found is None else f"now version {open_table(found).version}"
        keys = f" on {', '.join(target.keys)}" if target.keys else ""
        lines.append(
            f"{target.mode} {target.table} ({state}) from {target.source}{keys},"
            f" {len(target.checks)} {'check' if len(target.checks) == 1 else 'checks'}"
        )
    if pipeline.tables:
        together = "in one commit" if pipeline.atomic else "one by one"
        lines.append(f"publish {len(pipeline.tables)} tables {together}")
    _require_tables_of_jobs(pipeline)
    for job in pipeline.jobs:
        if "function" in job.options:
            function_named(job.options["function"])
    return [*lines, *(f"then {job}" for job in pipeline.jobs)]


def require_possible(pipeline: Pipeline, run_id: str | None = None) -> None:
    """Refuse a run that can be seen to fail, before Spark takes its time to start.

    Of a run that was published before, only what its jobs need is looked at. Functions are left to
    the run: their modules may want a session when they are imported.
    """
    if pipeline.tables:
        if pipeline.atomic:
            require_atomic(pipeline.catalog)
        found = {} if run_id is None else published(pipeline, run_id)
        if not is_over(pipeline, found):
            for source in pipeline.sources:
                _source_text(pipeline, source)
            for target in pipeline.tables:
                if target.table in found:
                    continue
                if _computes(pipeline):
                    exists(ref_of(pipeline, target.table))  # Says that its namespace is missing.
                else:
                    _possible(pipeline, target)
    _require_tables_of_jobs(pipeline)


def nothing_to_change(ref: TableRef, mode: str) -> TableNotFoundError:
    """Say that there is no table whose rows could be updated or deleted."""
    return TableNotFoundError(f"There is no table {ref} with rows to {mode}")


def _possible(pipeline: Pipeline, target: Target) -> Located | None:
    """Find a table that is to be written; say so if its mode does not go with what is there."""
    ref = ref_of(pipeline, target.table)
    found = exists(ref)
    if found is not None and target.mode == "create":
        raise TableAlreadyExistsError(
            f"Table {target.table} already exists", fix="Use another mode than create"
        )
    if found is None and target.mode in CHANGES:
        raise nothing_to_change(ref, target.mode)
    return found


def _require_tables_of_jobs(pipeline: Pipeline) -> None:
    made = {parse_name(target.table) for target in pipeline.tables}
    if _computes(pipeline):
        return
    for job in pipeline.jobs:
        if job.job == "migrate":
            return
        if job.is_of_metastore:
            MetastoreJob(pipeline.catalog, job).done_before()  # Says that its table is missing.
        elif job.table is not None and parse_name(job.table) not in made:
            locate(ref_of(pipeline, job.table))
        made.update(_made_by(job))


def _computes(pipeline: Pipeline) -> bool:
    """Tell whether there are functions: what they do to the catalog, nobody knows before."""
    return any(step.python for step in pipeline.steps)


def _made_by(job: Job) -> Iterator[Identifier]:
    """Name the table that a job makes: perhaps in this very catalog."""
    if job.job == "convert":
        yield parse_name(job.options.get("name") or str(job.table))


def _source_text(pipeline: Pipeline, source: Source) -> str:
    if source.table is not None:
        ref = ref_of(pipeline, source.table)
        given = {"version": source.version, "tag": source.tag, **source.options}
        options = parse(ReadOptions, given)
        return f"table {source.table} version {open_for(locate(ref), options).version}"
    if source.path is not None:
        kind = source.format or "parquet"
        require_files(source.path, kind)
        return f"{kind} {source.path}"
    return str(source.sql)
