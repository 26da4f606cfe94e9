"""A pipeline as a YAML file, whose mistakes are reported with their line."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.catalogs import Catalog
from lakeroot.spark.failures import nearest
from lakeroot.spark.moving import FORMATS
from lakeroot.spark.pipelines.definition import (
    CHECKS,
    Check,
    Pipeline,
    Source,
    Step,
    Target,
    made_from,
    once,
    rows_of,
)
from lakeroot.spark.pipelines.job_kinds import Job, kind_of
from lakeroot.spark.pipelines.places import Place

Made = TypeVar("Made")
_REQUIRED = ("name", "catalog", "sources", "tables")
_KEYS = ("name", "catalog", "sources", "steps", "tables", "jobs", "message", "atomic")

_NONE: Any = yaml.compose("{}", Loader=yaml.SafeLoader)


def load(path: str | Path) -> Pipeline:
    """Read a pipeline file; a mistake in it is an error that names the line."""
    file = Path(path)
    if not file.exists():
        raise InvalidInputError(f"There is no pipeline file {file}")
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise InvalidInputError(
            f"{file}{line} is not YAML", str(getattr(error, "problem", error))
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file} cannot be read as a text", str(error)) from None
    return _Reader(file).pipeline(node)


class _Reader:
    """Turn the nodes of a YAML file into a pipeline, keeping track of lines for errors."""

    def __init__(self, file: Path) -> None:
        self.file = file

    # What a node holds

    def wrong(self, node: Any, what: str, why: str = "", fix: str = "") -> InvalidInputError:
        line = node.start_mark.line + 1 if node is not None else 1
        return InvalidInputError(f"{self.file}, line {line}: {what}", why, fix)

    def place_of(self, node: Any) -> Place:
        """Keep the lines of a part for errors that are only seen when it is run."""
        pairs = [(str(key.value), key, value) for key, value in node.value]
        keys = {name: key.start_mark.line + 1 for name, key, _ in pairs}
        # Of other texts YAML folds lines, so that those of the value are not those of the file.
        texts = {name: _lines(value) for name, _, value in pairs if _keeps_lines(value)}
        return Place(str(self.file), node.start_mark.line + 1, keys, texts)

    def made(self, node: Any, make: Callable[[], Made]) -> Made:
        """Make a value; what is wrong with it is wrong at this node, or at one inside of it."""
        try:
            return make()
        except InvalidInputError as error:
            if error.what.startswith(f"{self.file}, line "):
                raise
            raise self.wrong(node, error.what, error.why, error.fix) from None

    def mapping(
        self, node: Any, known: Sequence[str] | None, required: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return the nodes of a mapping by key; unknown, repeated and missing keys are errors."""
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, "a mapping should be here")
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong(key, "a key should be a word")
            name = str(key.value)
            if known is not None and name not in known:
                raise self.wrong(key, f"there is no key {name!r}", fix=nearest(name, known))
            if name in found:
                raise self.wrong(key, f"the key {name!r} is here twice")
            found[name] = value
        for name in required:
            if name not in found:
                raise self.wrong(node, f"the key {name!r} is missing")
        return found

    def keys(self, node: Any) -> list[str]:
        """Return the words that a mapping has values for, whatever they are."""
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        return [str(key.value) for key, _ in pairs]

    def items(self, node: Any) -> list[Any]:
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(node, "a list should be here")
        return list(node.value)

    def plain(self, node: Any) -> Any:
        """Return a node as plain Python values."""
        try:
            return yaml.SafeLoader("").construct_object(node, deep=True)
        except yaml.YAMLError as error:
            raise self.wrong(node, str(getattr(error, "problem", error))) from None

    def text(self, node: Any) -> str:
        """Read a text; a number or a date is taken as it is written."""
        if not isinstance(node, yaml.ScalarNode) or self.plain(node) in (None, ""):
            raise self.wrong(node, "a text should be here")
        return str(node.value)

    def flag(self, node: Any) -> bool:
        value = self.plain(node)
        if not isinstance(value, bool):
            raise self.wrong(node, "true or false should be here")
        return value

    def number(self, node: Any) -> int:
        value = self.plain(node)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(node, "a number should be here")
        return value

    def names(self, node: Any) -> tuple[str, ...]:
        """Read one name, or a list of them."""
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.text(each) for each in node.value)
        return (self.text(node),)

    def settings(self, node: Any) -> dict[str, str]:
        """Read options and properties: texts by name."""
        return {name: self.setting(value) for name, value in self.mapping(node, None).items()}

    def setting(self, node: Any) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, "a text should be here")
        value = self.plain(node)
        return str(value).lower() if isinstance(value, bool) else str(node.value)

    # What the parts of a pipeline are

    def pipeline(self, node: Any) -> Pipeline:
        required = ("name", "catalog") if "jobs" in self.keys(node) else _REQUIRED
        found = self.mapping(node, _KEYS, required)
        if not isinstance(found.get("sources", _NONE), yaml.MappingNode):
            what = "sources are a mapping of names to where their rows come from"
            raise self.wrong(found["sources"], what)
        sources = self.mapping(found.get("sources", _NONE), None)
        steps, tables, jobs = (
            self.items(found[key]) if key in found else [] for key in ("steps", "tables", "jobs")
        )
        read = [self.source(name, each) for name, each in sources.items()]
        known = [each.name for each in read]
        made = [self.step(each) for each in steps]
        self.differ("name", [*known, *(each.name for each in made)], [*sources.values(), *steps])
        known += [each.name for each in made]
        targets = [self.target(each, known) for each in tables]
        self.differ("table", [each.table for each in targets], tables)
        return self.made(
            found.get("tables", node),
            lambda: Pipeline(
                name=self.text(found["name"]),
                catalog=self.catalog(found["catalog"]),
                sources=tuple(read),
                steps=tuple(made),
                tables=tuple(targets),
                jobs=tuple(self.job(each, known) for each in jobs),
                message=self.text(found["message"]) if "message" in found else "",
                atomic=self.flag(found["atomic"]) if "atomic" in found else True,
                place=self.place_of(node),
            ),
        )

    def differ(self, what: str, names: Sequence[str], nodes: Sequence[Any]) -> None:
        """Refuse a name that is given twice, at the second place."""
        for number, node in enumerate(nodes, 1):
            self.made(node, partial(once, what, names[:number]))

    def catalog(self, node: Any) -> Catalog:
        found = self.mapping(node, ("root", "impl", "profile", "properties"))
        properties = self.settings(found["properties"]) if "properties" in found else {}
        ways = [key for key in ("root", "impl", "profile") if key in found]
        if len(ways) != 1:
            raise self.wrong(node, "a catalog is given by `root`, by `impl` or by `profile`")
        value = self.text(found[ways[0]])
        if ways == ["root"]:
            return Catalog.at(self.path(value), properties)
        if ways == ["profile"]:
            return self.made(node, lambda: Catalog.named(value, properties))
        return Catalog.of(value, properties)

    def path(self, path: str) -> str:
        """Take a path as seen from the file; an address stays as it is."""
        return path if "://" in path else str((self.file.parent / path).absolute())

    def source(self, name: str, node: Any) -> Source:
        known = ("format", "path", "table", "version", "tag", "sql", "schema", "options")
        found = self.mapping(node, known)
        values: dict[str, Any] = {
            key: self.text(found[key])
            for key in ("format", "path", "table", "tag", "sql", "schema")
            if key in found
        }
        if "version" in found:
            values["version"] = self.number(found["version"])
        if "options" in found:
            values["options"] = self.settings(found["options"])
        if "path" in values:
            values |= self.files(found, values)
        return self.made(node, lambda: Source(name=name, place=self.place_of(node), **values))

    def files(self, found: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
        kind = values.get("format", "parquet")
        if kind.lower() not in [each.lower() for each in FORMATS]:
            fix = nearest(kind, FORMATS)
            raise self.wrong(found["format"], f"there is no format {kind!r}", fix=fix)
        path = values["path"]
        return {"format": kind, "path": path if kind == "iceberg" else self.path(path)}

    def step(self, node: Any) -> Step:
        found = self.mapping(node, ("name", "sql", "python"), ("name",))
        values = {key: self.text(value) for key, value in found.items()}
        return self.made(node, lambda: Step(place=self.place_of(node), **values))

    def target(self, node: Any, known: Sequence[str]) -> Target:
        keys = ("table", "from", "mode", "keys", "checks", "options")
        found = self.mapping(node, keys, ("table", "from"))
        checks = self.items(found["checks"]) if "checks" in found else []
        values = {key: self.text(found[key]) for key in ("table", "mode") if key in found}
        target = self.made(
            node,
            lambda: Target(
                source=self.text(found["from"]),
                keys=self.names(found["keys"]) if "keys" in found else (),
                checks=tuple(self.check(each) for each in checks),
                options=self.options(found["options"]) if "options" in found else {},
                place=self.place_of(node),
                **values,
            ),
        )
        self.made(node, lambda: made_from(f"Table {target.table}", target.source, known))
        return target

    def options(self, node: Any) -> dict[str, Any]:
        """Read the options of a write, which may be lists and mappings of names."""
        return {name: self.plain(value) for name, value in self.mapping(node, None).items()}

    def check(self, node: Any) -> Check:
        found = self.mapping(node, CHECKS)
        values: dict[str, Any] = {
            key: self.names(found[key]) for key in ("not_null", "unique") if key in found
        }
        values |= {key: self.text(found[key]) for key in ("rows", "expression") if key in found}
        return self.made(node, lambda: Check(place=self.place_of(node), **values))

    def job(self, node: Any, known_rows: Sequence[str]) -> Job:
        told = self.mapping(node, None, ("job",))
        word, table = self.text(told.pop("job")), told.pop("table", None)
        known = self.made(node, lambda: kind_of(word)).known
        options = {name: self.told(value, known.get(name, str)) for name, value in told.items()}
        if word == "export" and "target" in options and options.get("format") != "iceberg":
            options["target"] = self.path(options["target"])
        named = None if table is None else self.text(table)
        place = self.place_of(node)
        job = self.made(node, lambda: Job(job=word, table=named, options=options, place=place))
        self.made(node, lambda: rows_of(job, known_rows))
        return job

    def told(self, node: Any, kind: type) -> Any:
        """Read what a job is told, as what it should be."""
        ways = {
            str: self.text,
            int: self.number,
            bool: self.flag,
            tuple: self.names,
            dict: self.settings,
            Catalog: self.catalog,
        }
        return ways[kind](node)


def _keeps_lines(node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style == "|"


def _lines(node: Any) -> tuple[int, int]:
    """Give the first and the last line of a text, which begins below its `|`."""
    return node.start_mark.line + 2, node.end_mark.line
