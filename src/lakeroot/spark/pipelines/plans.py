"""What a run would do, and whether it can: what can be seen without a session and without rows."""

from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import takewhile

from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
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
from lakeroot.spark.pipelines.notes import ids_of_jobs
from lakeroot.spark.pipelines.parsing import require_parsed
from lakeroot.spark.pipelines.places import pointed
from lakeroot.spark.pipelines.publications import is_over, published, ref_of
from lakeroot.spark.publishing import require_atomic
from lakeroot.spark.source_files import require_files

CHANGES = ("update", "delete")


def plan(pipeline: Pipeline) -> list[str]:
    """Say, line by line, what a run would do; nothing is read but metadata.

    What can be seen to fail without reading rows is an error, as it would be of the run. Java is
    started only if there is SQL to parse, and no session runs that could do it.
    """
    if pipeline.tables:
        require_catalog(pipeline)
    made = _Made() if pipeline.tables else _made_before_rows(pipeline)
    reads = (f"read {each.name}: {_source_text(pipeline, each, made)}" for each in pipeline.sources)
    lines = [f"pipeline {pipeline.name}", *reads]
    for step in pipeline.steps:
        if step.python is not None:
            with pointed(step.place, "python"):
                function_named(step.python)
        how = step.python or " ".join(str(step.sql).split())
        lines.append(f"step {step.name}: {how}")
    for target in pipeline.tables:
        found = _possible(pipeline, target)
        with pointed(target.place, "table"):
            state = "new" if found is None else f"now version {open_table(found).version}"
        keys = f" on {', '.join(target.keys)}" if target.keys else ""
        lines.append(
            f"{target.mode} {target.table} ({state}) from {target.source}{keys},"
            f" {len(target.checks)} {'check' if len(target.checks) == 1 else 'checks'}"
        )
    if pipeline.tables:
        together = "in one commit" if pipeline.atomic else "one by one"
        lines.append(f"publish {len(pipeline.tables)} tables {together}")
    _require_possible_jobs(pipeline, None, reads=False)
    for job in pipeline.jobs:
        if "function" in job.options:
            with pointed(job.place, "function"):
                function_named(job.options["function"])
    require_parsed(pipeline)
    return [*lines, *(f"then {job}" for job in pipeline.jobs)]


def require_catalog(pipeline: Pipeline) -> None:
    """Refuse a catalog that cannot do what the pipeline asks of it."""
    if pipeline.atomic:
        with pointed(pipeline.place, "catalog"):
            require_atomic(pipeline.catalog)


def require_run_id(run_id: str | None) -> None:
    """Refuse an empty id, as a script gives it whose variable is not set: no run would be known."""
    if run_id == "":
        raise InvalidInputError(
            "The id of a run cannot be empty", fix="Leave it out, or name the run"
        )


def require_possible(pipeline: Pipeline, run_id: str | None = None) -> None:
    """Refuse a run that can be seen to fail, before Spark takes its time to start.

    Of a run that was published before, only what its jobs need is looked at: the sources too, if
    one of them is still to be given rows. Functions are left to the run: their modules may want a
    session when they are imported. So is SQL: the run starts what parses it anyway.
    """
    require_run_id(run_id)
    publishes = False
    if pipeline.tables:
        require_catalog(pipeline)
        found = {} if run_id is None else published(pipeline, run_id)
        publishes = not is_over(pipeline, found)
        if publishes:
            _require_sources(pipeline, _Made())
            for target in pipeline.tables:
                if target.table in found:
                    continue
                if _computes(pipeline):
                    with pointed(target.place, "table"):  # Says that its namespace is missing.
                        exists(ref_of(pipeline, target.table))
                else:
                    _possible(pipeline, target)
    _require_possible_jobs(pipeline, run_id, reads=not publishes)


def nothing_to_change(ref: TableRef, mode: str) -> TableNotFoundError:
    """Say that there is no table whose rows could be updated or deleted."""
    return TableNotFoundError(f"There is no table {ref} with rows to {mode}")


def _possible(pipeline: Pipeline, target: Target) -> Located | None:
    """Find a table that is to be written; say so if its mode does not go with what is there."""
    ref = ref_of(pipeline, target.table)
    with pointed(target.place, "table"):
        found = exists(ref)
        if found is not None and target.mode == "create":
            raise TableAlreadyExistsError(
                f"Table {target.table} already exists", fix="Use another mode than create"
            )
        if found is None and target.mode in CHANGES:
            raise nothing_to_change(ref, target.mode)
    return found


@dataclass(slots=True)
class _Made:
    """What a run makes before something is looked for: it need not be there yet."""

    tables: set[Identifier] = field(default_factory=set)
    paths: list[str] = field(default_factory=list)
    # Nobody knows before which tables there will be.
    is_open: bool = False

    def take(self, job: Job) -> None:
        """Take in what a job makes, if only perhaps in this very catalog."""
        if job.job == "convert":
            self.tables.add(parse_name(job.options.get("name") or str(job.table)))
        elif job.job == "export":
            self.paths.append(job.options["target"].rstrip("/"))
        elif job.job == "migrate":
            self.is_open = True

    def may_have(self, table: str) -> bool:
        """Tell whether a table may be made by then."""
        return self.is_open or parse_name(table) in self.tables

    def may_hold(self, path: str) -> bool:
        """Tell whether files may be made by then."""
        return any(path == made or path.startswith(f"{made}/") for made in self.paths)


def _require_possible_jobs(pipeline: Pipeline, run_id: str | None, *, reads: bool) -> None:
    """Refuse jobs whose tables are missing; so are sources, if a job is still to be given rows."""
    ids = [None] * len(pipeline.jobs) if run_id is None else ids_of_jobs(pipeline, run_id)
    targets = {parse_name(target.table) for target in pipeline.tables}
    made = _Made(targets, is_open=_computes(pipeline))
    for job, identity in zip(pipeline.jobs, ids, strict=True):
        done = None
        with pointed(job.place, "table"):
            if job.is_of_metastore:
                with suppress(LakerootError) if made.is_open else nullcontext():
                    # Says that its table is missing.
                    done = MetastoreJob(pipeline.catalog, job).done_before(identity)
            elif job.table is not None and not made.may_have(job.table):
                locate(ref_of(pipeline, job.table))
        if reads and "from" in job.options and done is None:
            _require_sources(pipeline, made)
            reads = False
        made.take(job)


def _made_before_rows(pipeline: Pipeline) -> _Made:
    """Say what jobs make before the first of them is given rows: then all sources are read."""
    made = _Made()
    if any("from" in job.options for job in pipeline.jobs):
        for job in takewhile(lambda job: "from" not in job.options, pipeline.jobs):
            made.take(job)
    return made


def _require_sources(pipeline: Pipeline, made: _Made) -> None:
    for source in pipeline.sources:
        _source_text(pipeline, source, made)


def _computes(pipeline: Pipeline) -> bool:
    """Tell whether there are functions: what they do to the catalog, nobody knows before."""
    return any(step.python for step in pipeline.steps)


def kind_of_source(source: Source) -> str:
    """Give the key by which a source says what it reads."""
    if source.table is not None:
        return "table"
    return "sql" if source.path is None else "path"


def _source_text(pipeline: Pipeline, source: Source, made: _Made) -> str:
    with pointed(source.place, kind_of_source(source)):
        return _read_from(pipeline, source, made)


def _read_from(pipeline: Pipeline, source: Source, made: _Made) -> str:
    if source.table is not None:
        if made.may_have(source.table):
            return f"table {source.table}"
        ref = ref_of(pipeline, source.table)
        given = {"version": source.version, "tag": source.tag, **source.options}
        options = parse(ReadOptions, given)
        return f"table {source.table} version {open_for(locate(ref), options).version}"
    if source.path is not None:
        kind = source.format or "parquet"
        if not made.may_hold(source.path):
            require_files(source.path, kind)
        return f"{kind} {source.path}"
    return str(source.sql)
