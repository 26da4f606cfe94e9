"""Answer a lookup by key as Spark has understood the same statement before.

For a row by its key Spark takes ten times as long as the index does: it parses, analyses,
optimises and plans the statement, and collects the row through a socket. All of that comes out the
same for the next key. So when Spark has analysed ``SELECT ... FROM lake.ns.t WHERE id = 1``, what
it says of it is kept, and the same text with another value is answered by the index alone, in the
newest version of the table. Whatever is not such a lookup goes to Spark as it is.
"""

import functools
import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from lakeroot.spark.catalogs import Catalog, TableRef
from lakeroot.spark.filters import column, literal
from lakeroot.spark.opening import Opened, opened_for
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.planning import Scan, plan_read
from lakeroot.spark.scanning import few
from lakeroot.spark.spark_sql.few_rows import FewRows
from lakeroot.spark.types import spark_schema

_log = logging.getLogger(__name__)

SWITCH = "spark.lakeroot.lookups"
# Who watches or rewrites every query of a session must get to see them all.
_WATCHERS = ("spark.sql.extensions", "spark.sql.queryExecutionListeners", "spark.extraListeners")
_EVENT_LOG = "spark.eventLog.enabled"
_LOOKUP = re.compile(r"\s*SELECT\s.*?\sFROM\s+(\w+)\.\S.*?\sWHERE\s", re.IGNORECASE | re.DOTALL)
# The whole numbers and strings of a text; one that is a part of something else stays in it.
_VALUE = re.compile(r"(?<![\w.])-?[0-9]{1,19}(?![\w.])|'[^'\\]*'")
# Comments, variables, quoted names and escapes: they may change what stands beside them.
_STRANGE = re.compile(r"--|/\*|[\"`$\\;\0]")
_LONGEST = 4_000
_KEPT = 256
_INT, _LONG = 2**31, 2**63
_OPTIONS = ReadOptions(truncate_nanos=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """A statement without its values: equal shapes differ in nothing else."""

    catalog: str
    shape: str
    values: tuple[int | str, ...]
    # Where in the text each value starts and stops, as Spark counts.
    places: tuple[tuple[int, int], ...]


def cut(text: str) -> Cut | None:
    """Take the values out of a statement that may be a lookup."""
    if len(text) > _LONGEST or _STRANGE.search(text):
        return None
    values: list[int | str] = []
    places: list[tuple[int, int]] = []

    def taken(found: re.Match[str]) -> str:
        places.append((found.start(), found.end() - 1))
        word = found[0]
        if word[0] == "'":
            values.append(word[1:-1])
            return "\0s"
        number = int(word)
        values.append(number)
        # Spark gives them one of three types, and may take a minus for an operator.
        kind = "i" if -_INT <= number < _INT else "l" if -_LONG <= number < _LONG else "d"
        return f"\0{kind}-" if word[0] == "-" else f"\0{kind}"

    shape = _VALUE.sub(taken, text)
    # What is written in a string is no part of the statement.
    head = _LOOKUP.match(shape)
    return None if head is None else Cut(head[1], shape, tuple(values), tuple(places))


@dataclass(frozen=True, slots=True)
class Condition:
    """A column equals one of some values, which are named by their number in the text."""

    column: str
    values: tuple[int, ...]

    def filled(self, values: Sequence[int | str]) -> str | None:
        """Write the condition for Lance."""
        written = [literal(values[number]) for number in self.values]
        if None in written:
            return None
        name = column((self.column,))
        if len(written) == 1:
            return f"{name} = {written[0]}"
        return f"{name} IN ({', '.join(str(each) for each in written)})"


@dataclass(slots=True)
class Lookup:
    """What Spark has made of a statement, whatever the values in it."""

    ref: TableRef
    schema: st.StructType
    conditions: tuple[Condition, ...]
    # The columns of the table that Spark has seen.
    columns: pa.Schema
    # The version that was looked into last, and how: with no more rows than would be few. Nothing,
    # where it has no index for this.
    last: tuple[bytes, Scan | None, int] = (b"", None, 0)

    def found(self, opened: Opened, values: Sequence[int | str]) -> pa.Table | None:
        """Return the rows of a version, or nothing where Spark has to look."""
        filled = [condition.filled(values) for condition in self.conditions]
        where = [each for each in filled if each is not None]
        if len(where) < len(filled):
            return None
        packed = opened.packed
        version, scan, most = self.last
        if version != packed:
            return self._planned(opened, packed, where)
        if scan is None:
            return None
        narrowed = " AND ".join(f"({each})" for each in where)
        rows = few(replace(scan, arguments={**scan.arguments, "filter": narrowed}), most)
        if rows is None:
            self.last = (packed, None, 0)
        return rows

    def _planned(self, opened: Opened, packed: bytes, where: list[str]) -> pa.Table | None:
        plan = plan_read(
            self.ref,
            _OPTIONS,
            pruned=self.schema.fieldNames(),
            conditions=where,
            opened=opened,
            few=few,
        )
        # What Lance finds must be what Spark has promised.
        rows = plan.here if plan.schema == self.schema else None
        self.last = (packed, None if rows is None else plan.scan, plan.most)
        return rows


class Lookups:
    """``spark.sql`` of one session: it answers lookups that Spark has seen the like of."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.plain = spark.sql
        functools.update_wrapper(self, spark.sql)
        self.catalogs: dict[str, tuple[Catalog, Any]] = {}
        self.known: dict[str, Lookup | None] = {}

    def __call__(self, sqlQuery: str, args: Any = None, **named: Any) -> DataFrame:  # noqa: N803
        """Run a statement."""
        parts = cut(sqlQuery) if args is None and not named else None
        if parts is None or parts.catalog not in self.catalogs:
            return self.plain(sqlQuery, args, **named)
        found = self._found(parts)
        if found is not None:
            return found
        frame = self.plain(sqlQuery)
        if parts.shape not in self.known:
            try:
                self.known[parts.shape] = self._learned(parts, frame)
            except Exception as error:  # noqa: BLE001  # the frame is there, and is right
                _log.info("Spark answers all of %r, because: %s", parts.shape, str(error)[:300])
                self.known[parts.shape] = None
            for old in list(self.known)[:-_KEPT]:
                self.known.pop(old, None)
        return frame

    def _found(self, parts: Cut) -> DataFrame | None:
        lookup = self.known.get(parts.shape)
        if lookup is None:
            return None
        self.known[parts.shape] = self.known.pop(parts.shape, lookup)  # the last to be forgotten
        try:
            opened = opened_for(lookup.ref, _OPTIONS)
            if not opened.dataset.schema.equals(lookup.columns, check_metadata=True):
                self.known.pop(parts.shape, None)
                return None
            rows = lookup.found(opened, parts.values)
        except Exception as error:  # noqa: BLE001  # whatever it is, Spark says it in its words
            _log.info("Spark looks up in %s, because: %s", lookup.ref, str(error)[:300])
            return None
        return None if rows is None else FewRows(self.spark, rows, lookup.schema)

    def _learned(self, parts: Cut, frame: Any) -> Lookup | None:
        catalog, java = self.catalogs[parts.catalog]
        told = java.lookup(frame._jdf)  # noqa: SLF001
        if told is None:
            return None
        answer = json.loads(told)
        conditions = _conditions(answer["conditions"], parts)
        ref = TableRef(catalog, tuple(answer["table"]["id"]))
        version = ReadOptions(version=answer["table"]["pinned"])
        columns = opened_for(ref, version).dataset.schema
        # With names that differ in case alone it depends on a setting which one is meant.
        known, wanted = {name.lower() for name in columns.names}, answer["columns"]
        if conditions is None or len(known) < len(columns) or len(set(wanted)) < len(wanted):
            return None
        # A column that Spark is not to be given, such as one with nanoseconds, is refused by it.
        spark_schema(pa.schema([columns.field(name) for name in wanted]))
        return Lookup(ref, frame.schema, conditions, columns)


def _conditions(told: list[dict[str, Any]], parts: Cut) -> tuple[Condition, ...] | None:
    """Read the conditions that Spark has found; every value of the text must be in one of them."""
    numbers = {place: number for number, place in enumerate(parts.places)}
    conditions = []
    for each in told:
        starts, stops = each["values"][::2], each["values"][1::2]
        values = tuple(numbers.pop(place, -1) for place in zip(starts, stops, strict=True))
        if each["column"] is None or -1 in values:
            return None
        conditions.append(Condition(each["column"], values))
    return None if numbers else tuple(conditions)


def remember_lookups(spark: SparkSession, name: str, catalog: Catalog, java: Any) -> None:
    """Let ``spark.sql`` of a session answer lookups in a catalog, unless somebody must see them."""
    if any(spark.conf.get(key, None) for key in _WATCHERS):
        return
    if spark.conf.get(_EVENT_LOG, "false") == "true":
        return
    if spark.conf.get(SWITCH, "true") != "true":
        return
    if not isinstance(spark.sql, Lookups):
        vars(spark)["sql"] = Lookups(spark)
    spark.sql.catalogs[name] = (catalog, java)


def forget_lookups(spark: SparkSession, name: str) -> None:
    """Forget what a name meant, before it means another catalog."""
    if isinstance(spark.sql, Lookups):
        spark.sql.catalogs.pop(name, None)
        spark.sql.known.clear()
