"""The options of a read or a write: strings from Spark or values from Python, checked once."""

import datetime as dt
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from lakeroot.model.errors import InvalidInputError
from lakeroot.spark.catalogs import Catalog, TableRef, parse_name
from lakeroot.spark.failures import nearest

METRICS = ("l2", "euclidean", "cosine", "dot", "hamming")
STORAGE_VERSIONS = ("legacy", "stable", "next", "0.1", "2.0", "2.1", "2.2", "2.3")
_NEAREST = 10


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        text = value.strip()
        return tuple(json.loads(text)) if text.startswith("[") else tuple(_split(text))
    return tuple(value)


def _some_words(value: Any) -> tuple[str, ...]:
    words = _words(value)
    if not words:
        raise ValueError("there are none")
    return words


def _split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
    return known[str(value).strip().lower()]


def _numbers(value: Any) -> tuple[float, ...]:
    given = json.loads(value) if isinstance(value, str) else value
    numbers = tuple(float(number) for number in given)
    if not all(map(math.isfinite, numbers)):
        raise ValueError("nothing is near to what is no number")
    return numbers


def _sizes(value: Any) -> dict[str, int]:
    if isinstance(value, Mapping):
        return {str(name): int(size) for name, size in value.items()}
    pairs = [word.rpartition(":") for word in _split(value)]
    return {name: int(size) for name, _, size in pairs}


def _moment(value: Any) -> dt.datetime:
    moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(str(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _natural(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number


def _positive(value: Any) -> int:
    number = int(value)
    if number < 1:
        raise ValueError(f"{number} is not positive")
    return number


def _metric(value: Any) -> str:
    word = str(value).lower()
    if word not in METRICS:
        raise ValueError(f"{word} is none of {METRICS}")
    return word


def _storage_version(value: Any) -> str:
    word = str(value)
    if word not in STORAGE_VERSIONS:
        raise ValueError(f"{word} is none of {STORAGE_VERSIONS}")
    return word


def _option(read: Callable[[Any], Any], expected: str, default: Any = None) -> Any:
    return field(default=default, metadata={"read": read, "expected": expected})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read of a table."""

    columns: tuple[str, ...] | None = _option(
        _some_words, "column names, separated by commas; all of them are read without it"
    )
    filter: str | None = _option(str, "an SQL predicate")
    version: int | None = _option(_natural, "a version number")
    tag: str | None = _option(str, "the name of a tag")
    branch: str | None = _option(str, "the name of a branch")
    as_of: dt.datetime | None = _option(  # noqa: RUF009
        _moment, "a time such as 2026-01-31T12:00:00Z"
    )
    limit: int | None = _option(_natural, "a number of rows")
    with_row_id: bool = _option(_flag, "true or false", default=False)
    with_row_address: bool = _option(_flag, "true or false", default=False)
    vector: tuple[float, ...] | None = _option(_numbers, "a JSON list of numbers")
    vector_column: str | None = _option(str, "the name of a column")
    k: int | None = _option(_positive, "a number of rows above 0")
    metric: str | None = _option(_metric, "l2, cosine, dot or hamming")
    nprobes: int | None = _option(_natural, "a number")
    refine_factor: int | None = _option(_natural, "a number")
    use_index: bool = _option(_flag, "true or false", default=True)
    prefilter: bool = _option(_flag, "true or false", default=True)
    full_text_query: str | None = _option(str, "words to search for")
    full_text_columns: tuple[str, ...] | None = _option(_words, "column names")
    partitions: int | None = _option(_positive, "a number of tasks above 0")
    batch_size: int | None = _option(_positive, "a number of rows above 0")
    truncate_nanos: bool = _option(_flag, "true or false", default=False)
    starting_version: int | None = _option(_natural, "a version number")
    max_versions_per_trigger: int | None = _option(_positive, "a number of versions above 0")
    skip_changes: bool = _option(_flag, "true or false", default=False)

    def __post_init__(self) -> None:
        """Bound a search by a vector, which every row is an answer to; words match or do not."""
        if self.vector is not None and self.k is None:
            object.__setattr__(self, "k", _NEAREST)

    @property
    def is_search(self) -> bool:
        """Tell whether the rows come from a search, so that they are ranked."""
        return self.vector is not None or self.full_text_query is not None

    @property
    def ranked(self) -> int | None:
        """Tell how many rows a search finds at most; nothing, if it finds all that match."""
        return self.k if self.limit is None else self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How to write a table."""

    mode: str | None = _option(str, "append, overwrite, create, error or ignore")
    vectors: Mapping[str, int] | None = _option(_sizes, "sizes such as embedding:768")
    blobs: tuple[str, ...] = _option(_words, "column names, separated by commas", default=())
    merge_schema: bool = _option(_flag, "true or false", default=False)
    storage_version: str | None = _option(
        _storage_version, f"a version of Lance's files: {', '.join(STORAGE_VERSIONS)}"
    )
    max_rows_per_file: int = _option(_positive, "a number of rows above 0", default=1024 * 1024)
    max_bytes_per_file: int = _option(_positive, "a number of bytes above 0", default=1 << 30)
    stable_row_ids: bool = _option(_flag, "true or false", default=False)
    branch: str | None = _option(str, "the name of a branch")
    job_id: str | None = _option(str, "any text that names this write")
    message: str | None = _option(str, "any text")


Options = TypeVar("Options", ReadOptions, WriteOptions)

_TABLE_OPTIONS = ("path", "table", "root", "impl", "properties", "location", "profile")
_PREFIXES = ("property.", "storage.")
# Spark hands these to every source; they are not meant for us.
_SPARK_OWN = frozenset({"checkpointlocation", "queryname", "checkpointLocation", "queryName"})


def camel(name: str) -> str:
    """Write a Python name the way Spark options are written."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_KNOWN: Mapping[type[Any], Mapping[str, Any]] = {
    kind: {camel(option.name).lower(): option for option in fields(kind)}
    for kind in (ReadOptions, WriteOptions)
}


def parse(kind: type[Options], given: Mapping[str, Any], *own: str) -> Options:
    """Read the options of a kind; unknown ones are refused with the nearest valid name.

    `own` are the arguments of the job that was given them, to suggest.
    """
    known = _KNOWN[kind]
    values: dict[str, Any] = {}
    for key, value in given.items():
        word = key.replace("_", "").lower()
        if value is None or _is_about_the_table(key):
            continue
        if word not in known:
            valid = [*own, *(camel(option.name) for option in fields(kind)), *_TABLE_OPTIONS]
            raise InvalidInputError(f"There is no option {key!r}", fix=nearest(key, valid))
        option = known[word]
        try:
            values[option.name] = option.metadata["read"](value)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(
                f"The option {camel(option.name)!r} cannot be {value!r}",
                f"it takes {option.metadata['expected']}",
            ) from error
    _refuse_idle(values)
    return kind(**values)


# What says how to search is of no use without a search, and whoever gives it means one.
_OF_SEARCHES: Mapping[str, tuple[str, ...]] = {
    "k": ("vector", "full_text_query"),
    "vector_column": ("vector",),
    "metric": ("vector",),
    "nprobes": ("vector",),
    "refine_factor": ("vector",),
    "full_text_columns": ("full_text_query",),
}


def _refuse_idle(values: Mapping[str, Any]) -> None:
    for name, searches in _OF_SEARCHES.items():
        if name in values and not any(search in values for search in searches):
            words = " or ".join(f"`{camel(search)}`" for search in searches)
            raise InvalidInputError(
                f"The option {camel(name)!r} is of a search, and there is none",
                fix=f"Give {words}, or leave it out"
                + ("; `limit` bounds the rows of any read" if name == "k" else ""),
            )


def _is_about_the_table(key: str) -> bool:
    word = key.lower()
    return word in _TABLE_OPTIONS or word in _SPARK_OWN or word.startswith(_PREFIXES)


def table_alone(table: str | None, options: Mapping[str, Any], *own: str) -> TableRef:
    """Read which table a job means, when that is all its options may say.

    An option that was passed over, such as the branch of a delete, would be a promise not kept.
    `own` are the arguments of the job, to suggest.
    """
    for key, value in options.items():
        if value is not None and not _is_about_the_table(key):
            fix = nearest(key, [*own, *_TABLE_OPTIONS])
            raise InvalidInputError(f"There is no option {key!r} here", fix=fix)
    return table_of({**options, "table": table} if table is not None else options)


def job_name(job_id: Any) -> str | None:
    """Read how a job is called: by a text, or by what is written as one, such as a day's number."""
    return None if job_id in (None, "") else str(job_id)


def check_number(name: str, value: Any) -> None:
    """Refuse what is no number above 0; nothing was said, if there is none."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidInputError(
            f"The option {name!r} cannot be {value!r}", "it takes a whole number above 0"
        )


def _refuse_nowhere(place: Any) -> None:
    """Refuse a relative path in a directory that Spark deletes with the session.

    Over Connect, where the source in Python runs, workers do not work where the user does.
    """
    session = os.environ.get("SPARK_JOB_ARTIFACT_UUID")
    if not place or "://" in str(place) or Path(str(place)).is_absolute():
        return
    if session and Path.cwd().name == session:
        raise InvalidInputError(
            f"{str(place)!r} is not a whole path",
            "here it would be in a temporary directory of Spark, which goes with the session",
            "Write the path from the root on, as the machine of the Spark server sees it",
        )


def _properties(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read the properties of a catalog: as a dictionary, or one by one, as Spark's options are."""
    together = given.get("properties", {})
    if not isinstance(together, Mapping):
        raise InvalidInputError(
            f"The option 'properties' cannot be {together!r}",
            "it takes a dictionary",
            "Give each property as an option of its own, such as `property.uri`",
        )
    alone = ((key, value) for key, value in given.items() if key.startswith("property."))
    return {**together, **{key.removeprefix("property."): value for key, value in alone}}


def table_of(given: Mapping[str, Any]) -> TableRef:
    """Read which table the options mean."""
    lower = {key.lower(): value for key, value in given.items() if value is not None}
    storage = {k.removeprefix("storage."): v for k, v in lower.items() if k.startswith("storage.")}
    extra = _properties(lower)
    ways = [way for way in ("root", "impl", "location", "profile") if way in lower]
    if len(ways) > 1:
        raise InvalidInputError(
            f"The options {ways[0]!r} and {ways[1]!r} exclude each other", fix="Give one of them"
        )
    for place in (lower.get("root"), lower.get("location"), extra.get("root")):
        _refuse_nowhere(place)
    options = tuple(sorted(storage.items()))
    if ways == ["location"]:
        return TableRef(None, (), str(lower["location"]), options)
    name = lower.get("table") or lower.get("path")
    if not name:
        raise InvalidInputError(
            "No table was named", fix='Name it in load("ns.table") or save("ns.table")'
        )
    if not ways:
        raise InvalidInputError(
            f"No catalog was given for table {name}",
            fix="Set `root` (a directory), `profile`, `impl` with `property.*`, or `location`",
        )
    if ways == ["root"]:
        # Whoever gives the keys of a bucket gives them for the catalog in it, too.
        keys = {f"storage.{key}": value for key, value in storage.items()}
        catalog = Catalog.at(str(lower["root"]), {**keys, **extra})
    elif ways == ["profile"]:
        catalog = Catalog.named(str(lower["profile"]), extra)
    else:
        catalog = Catalog.of(str(lower["impl"]), extra)
    return TableRef(catalog, parse_name(str(name)), None, options)
