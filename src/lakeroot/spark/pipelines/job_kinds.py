"""What a pipeline does after its publication: it looks after tables, and takes them elsewhere."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.spans import span_of
from lakeroot.spark.catalogs import Catalog, parse_name
from lakeroot.spark.failures import nearest
from lakeroot.spark.maintenance import job_kind
from lakeroot.spark.metastore.reading import table_name
from lakeroot.spark.moving import EXPORTS, MODES
from lakeroot.spark.pipelines.places import Place
from lakeroot.spark.resuming import ANYWAY, NEVER, SAME

Kinds = Mapping[str, type]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a job of one kind must be told, and what it may be told, by name and type."""

    needs: Kinds = field(default_factory=dict)
    takes: Kinds = field(default_factory=dict)
    # Such a job is about the whole catalog, and names no table.
    of_catalog: bool = False
    # Such a job changes a table of deltas, which only a metastore has.
    of_metastore: bool = False

    @property
    def known(self) -> Kinds:
        """Give everything it can be told."""
        return {**self.needs, **self.takes}


_OF_ROWS: Final = Kind(needs={"from": str}, takes={"metastore": Catalog}, of_metastore=True)
KINDS: Final[Mapping[str, Kind]] = {
    "compact": Kind(takes={"target_rows_per_fragment": int}),
    "index": Kind(
        needs={"column": str, "kind": str},
        takes={
            "name": str,
            "replace": bool,
            "metric": str,
            "partitions": int,
            "sub_vectors": int,
        },
    ),
    "backfill": Kind(
        takes={"set": dict, "function": str, "reads": tuple, "batch_size": int, "resume": str}
    ),
    "update": Kind(needs={"set": dict}, takes={"where": str, "truncate_nanos": bool}),
    "delete": Kind(needs={"where": str}),
    "export": Kind(
        needs={"target": str},
        takes={
            "format": str,
            "mode": str,
            "writer": dict,
            "where": str,
            "columns": tuple,
            "version": int,
        },
    ),
    "convert": Kind(needs={"to": Catalog}, takes={"name": str, "mode": str, "version": int}),
    "migrate": Kind(of_catalog=True),
    "fsck": Kind(takes={"grace": str}, of_catalog=True),
    "gc": Kind(takes={"older_than": str, "old_versions": bool, "keep": int}, of_catalog=True),
    "metastore append": _OF_ROWS,
    "metastore add": _OF_ROWS,
    "metastore upsert": _OF_ROWS,
    "metastore delete": replace(_OF_ROWS, takes={**_OF_ROWS.takes, "on": tuple}),
    "metastore replace": _OF_ROWS,
    "metastore compact": replace(_OF_ROWS, needs={}),
}
# Options that are one of some words, and those that are spans of time.
_WORDS: Final = {
    ("backfill", "resume"): (SAME, ANYWAY, NEVER),
    ("convert", "mode"): ("create", "append", "overwrite"),
    ("export", "format"): EXPORTS,
    ("export", "mode"): MODES,
}
_SPANS: Final = ("grace", "older_than")
# What may hold keys of a storage or of a catalog stays out of plans.
_PRIVATE: Final = (Catalog, dict)
# By these a catalog is another one.
_ADDRESS: Final = ("root", "uri", "endpoint", "warehouse", "prefix")
_PASSWORD: Final = re.compile(r"//[^/@:]*:[^/@]*@")
_NO_KEEP: Final = ("keep", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: of which kind, on which table, and what it is told."""

    job: str
    table: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    # Where the file says it, if there is one.
    place: Place | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = kind_of(self.job)
        if kind.of_catalog != (self.table is None):
            why = "it is about the whole catalog" if kind.of_catalog else "it needs one"
            raise InvalidInputError(f"A job {self.job!r} names {self.table or 'no table'}", why)
        if self.table is not None:
            (table_name if kind.of_metastore else parse_name)(self.table)
        for name, value in self.options.items():
            self._check(name, value, kind.known)
        for name in kind.needs:
            if name not in self.options:
                raise InvalidInputError(f"A job {self.job!r} needs `{name}`")
        if "keep" in self.options and not self.options.get("old_versions"):
            raise InvalidInputError("`keep` is about `old_versions`, which are not to be collected")
        if self.job == "backfill" and ("set" in self.options) == ("function" in self.options):
            raise InvalidInputError("A job 'backfill' needs either `set` or `function`")

    def _check(self, name: str, value: Any, known: Kinds) -> None:
        if name not in known:
            raise InvalidInputError(
                f"A job {self.job!r} has no `{name}`", fix=nearest(name, sorted(known))
            )
        wanted = known[name]
        fits = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
        if not fits:
            shown = type(value).__name__ if wanted in _PRIVATE else repr(value)
            raise InvalidInputError(f"`{name}` of a job {self.job!r} cannot be {shown}")
        inside = value.values() if isinstance(value, dict) else [value]
        if any(one in ("", (), {}, None) for one in (value, *inside)) or (name, value) == _NO_KEEP:
            raise InvalidInputError(f"`{name}` of a job {self.job!r} says nothing")
        words, text = _WORDS.get((self.job, name)), str(value)
        if words and text not in words:
            raise InvalidInputError(f"There is no {name} {value!r}", fix=nearest(text, words))
        if name == "kind":
            job_kind(text)
        if name in _SPANS:
            span_of(text)

    @property
    def is_of_metastore(self) -> bool:
        """Tell whether it changes a table of deltas."""
        return kind_of(self.job).of_metastore

    @property
    def digest(self) -> str:
        """Tell jobs apart by what they do: where that is belongs to it, the keys to it do not.

        Where a metastore is does not either: what was done there is found there.
        """
        options = {name: value for name, value in self.options.items() if name != "metastore"}
        if options.get("format") == "iceberg" and "writer" in options:
            options["writer"] = _address(options["writer"])
        told = json.dumps([self.job, self.table, options], default=_spelled, sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def __str__(self) -> str:
        told = ", ".join(
            f"{name} {_shown(value)}"
            for name, value in self.options.items()
            if name == "set" or not isinstance(value, _PRIVATE)
        )
        about = f"{self.job} {self.table}" if self.table else self.job
        return f"{about} ({told})" if told else about


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {expression}" for name, expression in value.items())
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _spelled(value: Any) -> Any:
    """Write what JSON has no form for: a catalog."""
    if isinstance(value, Catalog):
        return [value.impl, _address(dict(value.properties))]
    return str(value)


def _address(properties: Mapping[str, str]) -> dict[str, str]:
    """Say where a catalog is: keys to it expire, and the next attempt has others."""
    return {name: _PASSWORD.sub("//", properties[name]) for name in _ADDRESS if name in properties}


def kind_of(job: str) -> Kind:
    """Find what a job of a kind may be told."""
    if job not in KINDS:
        raise InvalidInputError(f"There is no job {job!r}", fix=nearest(job, sorted(KINDS)))
    return KINDS[job]
