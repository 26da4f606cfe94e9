"""Conditions that only ask whether a column has a value: Spark gets the answer, not the column.

Spark cannot hold nanoseconds, so a MERGE keeps columns with them away from it. Whether there is a
value at all is lost by nobody.
"""

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.spark.catalogs import parse_name
from lakeroot.spark.fitting import spelled_as

_PREFIX = "__lakeroot_is_null_"
_MOST_ASKED = 3
_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_CHECK = re.compile(
    rf"""
      '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*"
    | (?P<path> {_NAME}(?:\.{_NAME})* ) \s+ IS \s+ (?P<not> NOT \s+ )? NULL \b
    | `(?:[^`]|``)*`
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
# Beside anything else the name may be a part of what is asked, as in `a = b IS NULL`.
_BEFORE = re.compile(r"(?:^|\(|\b(?:AND|OR|NOT|WHEN))\s*$", re.IGNORECASE)
_BEHIND = re.compile(r"\s*(?:$|\)|(?:AND|OR|THEN)\b)", re.IGNORECASE)


class NullChecks:
    """Put columns that say whether there is a value in the place of ``column IS NULL``.

    `columns` are those that Spark does not get to see; `other` are those of the source, whose names
    mean both sides where they stand alone.
    """

    def __init__(
        self, columns: Sequence[str], table: str, other: Sequence[str], *, exact: bool
    ) -> None:
        self.columns = columns
        self.table = table
        self.other = other
        self.exact = exact
        self.asked: dict[str, str] = {}

    def replaced(self, condition: str) -> str:
        """Write a condition without its questions for values; note what was asked."""
        return _CHECK.sub(self._answer, condition) if self.columns else condition

    def _answer(self, match: re.Match[str]) -> str:
        path = self._path(match["path"]) if match["path"] else None
        if (
            path is None
            or _BEFORE.search(match.string[: match.start()]) is None
            or _BEHIND.match(match.string, match.end()) is None
        ):
            return match.group()
        known = {asked: name for name, asked in self.asked.items()}
        name = known.get(path, f"{_PREFIX}{len(known)}")
        self.asked[name] = path
        is_null = f"{_quoted(self.table)}.{_quoted(name)}"
        return f"(NOT {is_null})" if match["not"] else is_null

    def _path(self, text: str) -> str | None:
        """Find the column of the table that is meant, if it is one that Spark does not see."""
        first, *rest = parse_name(text)
        if self._same(first, [self.table]) and rest:
            first, *rest = rest
        elif self._same(first, self.other):
            return None
        spelled = spelled_as([first], self.columns, exact=self.exact)
        return ".".join(map(_quoted, [spelled[first], *rest])) if spelled else None

    def _same(self, name: str, others: Sequence[str]) -> bool:
        return bool(spelled_as([name], others, exact=self.exact))


def answered(rows: DataFrame, asked: Mapping[str, str]) -> DataFrame:
    """Add the columns that say whether there is a value, of rows that Lance filters.

    It is asked for the rows without one and for those with one: so it compares, and not Spark.
    """
    if len(asked) > _MOST_ASKED:
        raise UnsupportedOperationError(
            f"A MERGE cannot ask of more than {_MOST_ASKED} columns with nanoseconds for nulls",
            "every one of them doubles how often the table is read",
            "Set `truncateNanos`, or ask in several statements",
        )
    for name, path in asked.items():
        null = sf.expr(f"{path} IS NULL")
        without = rows.where(null).withColumn(name, sf.lit(True))  # noqa: FBT003
        rows = without.union(rows.where(~null).withColumn(name, sf.lit(False)))  # noqa: FBT003
    return rows


def computed(rows: DataFrame, asked: Mapping[str, str]) -> DataFrame:
    """Add the same columns where Lance cannot be asked; the rows have their nanoseconds cut."""
    return rows.select("*", *(sf.expr(f"{path} IS NULL").alias(n) for n, path in asked.items()))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
