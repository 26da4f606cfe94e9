"""A pipeline as a value, and as a YAML file whose mistakes are reported with their line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.catalogs import Catalog, parse_name
from lakeroot.spark.failures import nearest
from lakeroot.spark.moving import FORMATS

MODES = ("append", "overwrite", "create", "merge")
CHECKS = ("rows", "not_null", "unique", "expression")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How rows become other rows: an SQL query, or a Python function ``module:function``."""

    name: str
    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What must hold before anything is published."""

    rows: str | None = None
    not_null: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    expression: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table that the pipeline writes."""

    table: str
    source: str
    mode: str = "append"
    keys: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Everything a run does."""

    name: str
    catalog: Catalog
    sources: tuple[Source, ...]
    tables: tuple[Target, ...]
    steps: tuple[Step, ...] = ()
    message: str = ""
    atomic: bool = True

    def __post_init__(self) -> None:
        if not self.tables:
            raise InvalidInputError(f"Pipeline {self.name!r} writes no table")
        known = [s.name for s in self.sources] + [s.name for s in self.steps]
        for twice in {name for name in known if known.count(name) > 1}:
            raise InvalidInputError(f"The name {twice!r} is used twice in pipeline {self.name!r}")
        for target in self.tables:
            _check_target(target, known)


def _check_target(target: Target, known: Sequence[str]) -> None:
    parse_name(target.table)
    if target.source not in known:
        raise InvalidInputError(
            f"Table {target.table} comes from {target.source!r}, which is no source and no step",
            fix=nearest(target.source, known),
        )
    if target.mode not in MODES:
        raise InvalidInputError(
            f"There is no mode {target.mode!r}", fix=nearest(target.mode, MODES)
        )
    if (target.mode == "merge") != bool(target.keys):
        raise InvalidInputError(
            f"Table {target.table} is written with mode {target.mode!r}",
            "`keys` are for merges, and merges need them",
        )


def load(path: str | Path) -> Pipeline:
    """Read a pipeline file; a mistake in it is an error that names the line."""
    file = Path(path)
    if not file.exists():
        raise InvalidInputError(f"There is no pipeline file {file}")
    try:
        node = yaml.compose(file.read_text(), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise InvalidInputError(
            f"{file}{line} is not YAML", str(getattr(error, "problem", error))
        ) from None
    return _Reader(file).pipeline(node)


class _Reader:
    """Turn the nodes of a YAML file into a pipeline, keeping track of lines for errors."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def wrong(self, node: Any, what: str, fix: str = "") -> InvalidInputError:
        line = node.start_mark.line + 1 if node is not None else 1
        return InvalidInputError(f"{self.file}, line {line}: {what}", fix=fix)

    def mapping(self, node: Any, known: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
        """Return the nodes of a mapping by key; unknown and missing keys are errors."""
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, "a mapping should be here")
        found = {}
        for key, value in node.value:
            if key.value not in known:
                raise self.wrong(key, f"there is no key {key.value!r}", nearest(key.value, known))
            found[key.value] = value
        for name in required:
            if name not in found:
                raise self.wrong(node, f"the key {name!r} is missing")
        return found

    def plain(self, node: Any) -> Any:
        """Return a node as plain Python values."""
        return yaml.SafeLoader("").construct_object(node, deep=True)

    def items(self, node: Any) -> list[Any]:
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(node, "a list should be here")
        return list(node.value)

    def pipeline(self, node: Any) -> Pipeline:
        known = ("name", "catalog", "sources", "steps", "tables", "message", "atomic")
        found = self.mapping(node, known, ("name", "catalog", "sources", "tables"))
        sources = found["sources"]
        if not isinstance(sources, yaml.MappingNode):
            raise self.wrong(
                sources, "sources are a mapping of names to where their rows come from"
            )
        steps = self.items(found["steps"]) if "steps" in found else []
        try:
            return Pipeline(
                name=str(self.plain(found["name"])),
                catalog=self.catalog(found["catalog"]),
                sources=tuple(self.source(key.value, value) for key, value in sources.value),
                steps=tuple(self.step(each) for each in steps),
                tables=tuple(self.target(each) for each in self.items(found["tables"])),
                message=str(self.plain(found["message"])) if "message" in found else "",
                atomic=bool(self.plain(found["atomic"])) if "atomic" in found else True,
            )
        except InvalidInputError as error:
            if error.what.startswith(str(self.file)):
                raise
            raise self.wrong(found["tables"], str(error)) from None

    def catalog(self, node: Any) -> Catalog:
        found = self.mapping(node, ("root", "impl", "properties"), ())
        values = {key: self.plain(value) for key, value in found.items()}
        properties = {str(k): _text(v) for k, v in (values.get("properties") or {}).items()}
        if ("root" in values) == ("impl" in values):
            raise self.wrong(node, "a catalog is given by `root` or by `impl`")
        if "root" in values:
            root = str(values["root"])
            if "://" not in root:
                root = str((self.file.parent / root).absolute())
            return Catalog.at(root, properties)
        return Catalog.of(str(values["impl"]), properties)

    def source(self, name: str, node: Any) -> Source:
        known = [each.name for each in fields(Source) if each.name != "name"]
        found = self.mapping(node, known, ())
        values = {key: self.plain(value) for key, value in found.items()}
        if sum(key in values for key in ("path", "table", "sql")) != 1:
            raise self.wrong(node, f"source {name!r} needs one of `path`, `table` and `sql`")
        if "path" in values:
            kind = str(values.get("format", "parquet"))
            if kind.lower() not in [each.lower() for each in FORMATS]:
                raise self.wrong(
                    found["format"], f"there is no format {kind!r}", nearest(kind, FORMATS)
                )
            path = str(values["path"])
            if kind != "iceberg" and "://" not in path:
                path = str((self.file.parent / path).absolute())
            values |= {"path": path, "format": kind}
        values["options"] = {str(k): _text(v) for k, v in (values.get("options") or {}).items()}
        return Source(name=name, **values)

    def step(self, node: Any) -> Step:
        found = self.mapping(node, ("name", "sql", "python"), ("name",))
        if ("sql" in found) == ("python" in found):
            raise self.wrong(node, "a step has either `sql` or `python`")
        return Step(**{key: str(self.plain(value)) for key, value in found.items()})

    def target(self, node: Any) -> Target:
        known = ("table", "from", "mode", "keys", "checks", "options")
        found = self.mapping(node, known, ("table", "from"))
        values = {key: self.plain(value) for key, value in found.items() if key != "checks"}
        checks = self.items(found["checks"]) if "checks" in found else []
        return Target(
            table=str(values["table"]),
            source=str(values["from"]),
            mode=str(values.get("mode", "append")),
            keys=_names(values.get("keys")),
            checks=tuple(self.check(each) for each in checks),
            options=values.get("options") or {},
        )

    def check(self, node: Any) -> Check:
        found = self.mapping(node, CHECKS, ())
        values = {key: self.plain(value) for key, value in found.items()}
        return Check(
            rows=None if "rows" not in values else str(values["rows"]),
            not_null=_names(values.get("not_null")),
            unique=_names(values.get("unique")),
            expression=values.get("expression"),
        )


def _names(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(str(each) for each in value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
