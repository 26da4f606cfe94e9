"""A pipeline as a value; what cannot be run is refused when the value is made."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.catalogs import Catalog, parse_name
from lakeroot.spark.failures import nearest
from lakeroot.spark.options import ReadOptions, WriteOptions, camel, parse
from lakeroot.spark.pipelines.job_kinds import Job
from lakeroot.spark.pipelines.places import Place

KEYED = ("merge", "update", "delete")
MODES = ("append", "overwrite", "create", *KEYED)
CHECKS = ("rows", "not_null", "unique", "expression")
ROWS = re.compile(r"\s*(>=|<=|=|==|>|<)\s*(\d+)\s*")
# Which keys of a source go with what it reads.
_OF_SOURCE = {
    "path": ("format", "schema", "options"),
    "table": ("version", "tag", "options"),
    "sql": (),
}
# What a pipeline says for all its tables, or cannot do: it publishes main branches together.
_NOT_OPTIONS = {
    "mode": "`mode` is a key of the table itself",
    "branch": "a pipeline publishes main branches",
    "job_id": "the run id names the job of every table",
    "message": "`message` is a key of the pipeline",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where rows come from: files of a format, a table of the catalog, or a query."""

    name: str
    format: str | None = None
    path: str | None = None
    table: str | None = None
    version: int | None = None
    tag: str | None = None
    sql: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Where the file says it, if there is one.
    place: Place | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = [key for key in _OF_SOURCE if getattr(self, key) is not None]
        if len(given) != 1:
            raise InvalidInputError(
                f"source {self.name!r} needs one of `path`, `table` and `sql`", _both(given)
            )
        for key in ("format", "schema", "version", "tag", "options"):
            if getattr(self, key) and key not in _OF_SOURCE[given[0]]:
                raise InvalidInputError(
                    f"source {self.name!r} has a `{given[0]}`, for which there is no `{key}`"
                )
        if self.table is not None:
            parse_name(self.table)
            if self.version is not None and self.tag is not None:
                raise InvalidInputError("`version` and `tag` exclude each other")
            parse(ReadOptions, self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How rows become other rows: an SQL query, or a Python function ``module:function``."""

    name: str
    sql: str | None = None
    python: str | None = None
    place: Place | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.sql is None) == (self.python is None):
            raise InvalidInputError("a step has either `sql` or `python`")
        if self.python is not None and not all(self.python.partition(":")):
            raise InvalidInputError(
                f"{self.python!r} is not the name of a function", fix="Write it as module:function"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What must hold before anything is published."""

    rows: str | None = None
    not_null: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    expression: str | None = None
    place: Place | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not any(getattr(self, kind) for kind in CHECKS):
            raise InvalidInputError(
                "a check that says nothing always holds", fix=f"Give one of {', '.join(CHECKS)}"
            )
        if self.rows is not None and not ROWS.fullmatch(self.rows):
            raise InvalidInputError(
                f"{self.rows!r} is not a number of rows", fix='Write ">= 1", for example'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table that the pipeline writes."""

    table: str
    source: str
    mode: str = "append"
    keys: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        parse_name(self.table)
        if self.mode not in MODES:
            raise InvalidInputError(
                f"There is no mode {self.mode!r}", fix=nearest(self.mode, MODES)
            )
        if (self.mode in KEYED) != bool(self.keys):
            raise InvalidInputError(
                f"Table {self.table} is written with mode {self.mode!r}",
                f"`keys` are for the modes {', '.join(KEYED)}, and these need them",
            )
        given = parse(WriteOptions, self.options)
        for name, why in _NOT_OPTIONS.items():
            if getattr(given, name):
                raise InvalidInputError(
                    f"{camel(name)!r} is no option of a table in a pipeline", why
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything a run does: tables that are published together, and jobs after that."""

    name: str
    catalog: Catalog
    sources: tuple[Source, ...] = ()
    tables: tuple[Target, ...] = ()
    jobs: tuple[Job, ...] = ()
    steps: tuple[Step, ...] = ()
    message: str = ""
    atomic: bool = True
    place: Place | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.tables and not self.jobs:
            raise InvalidInputError(f"Pipeline {self.name!r} writes no table and has no job")
        known = [s.name for s in self.sources] + [s.name for s in self.steps]
        once("name", known)
        once("table", [".".join(parse_name(target.table)) for target in self.tables])
        for target in self.tables:
            made_from(f"Table {target.table}", target.source, known)
        for job in self.jobs:
            rows_of(job, known)


def once(what: str, names: Sequence[str]) -> None:
    """Refuse a name that is given twice."""
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f"The {what} {name!r} is used twice in the pipeline")


def made_from(what: str, source: str, known: Sequence[str]) -> None:
    """Refuse rows that come from nowhere."""
    if source not in known:
        raise InvalidInputError(
            f"{what} comes from {source!r}, which is no source and no step",
            fix=nearest(source, known),
        )


def rows_of(job: Job, known: Sequence[str]) -> None:
    """Refuse a job that is to be given rows which come from nowhere."""
    if "from" in job.options:
        made_from(f"What the job {job.job!r} is given", job.options["from"], known)


def _both(given: Sequence[str]) -> str:
    return f"it has {' and '.join(f'`{key}`' for key in given)}" if given else "it has none of them"
