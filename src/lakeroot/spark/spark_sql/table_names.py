"""Find the names of tables in a statement: where one stands tells whether it is of a column."""

import re
from collections.abc import Iterator, Sequence

from lakeroot.spark.catalogs import parse_name
from lakeroot.spark.spark_sql.scanning import closed_up

_TRAVEL = r"""
    \s+ (?: FOR \s+ )? (?:
        (?: VERSION | SYSTEM_VERSION ) \s+ AS \s+ OF \s+ (?P<version> \d+ | '[^']*' )
      | (?: TIMESTAMP | SYSTEM_TIME ) \s+ AS \s+ OF \s+
        (?P<time> (?: TIMESTAMP \s* )? '[^']*' | \w+ \s* \( [^()]* \) )
    )"""
_OPTIONS = r"\s+ WITH \s* \( (?P<options> [^()]* ) \)"
_NAME = r"(?: `(?:[^`]|``)+` | \w+ )"
_TOKENS = r"""
      (?P<aside> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | --[^\n]* | /\*.*?\*/ )
    | (?P<table> (?P<name> {ours} (?: \.{name} )+ ) (?i:{travel})? (?i:{options})? )
    | (?P<path> {name} (?: \.{name} )+ | `(?:[^`]|``)*` )
    | (?P<word> \w+ )
    | (?P<mark> [(),] )
    """
# Behind these comes a table; commas part tables until one of the others comes.
_BEGIN = frozenset({"FROM", "JOIN", "TABLE", "INTO", "UPDATE", "USING"})
_END = frozenset(
    {
        "SELECT",
        "WHERE",
        "ON",
        "GROUP",
        "ORDER",
        "HAVING",
        "SET",
        "VALUES",
        "WHEN",
        "LIMIT",
        "WINDOW",
    }
    | {"CLUSTER", "DISTRIBUTE", "SORT", "UNION", "EXCEPT", "INTERSECT", "MINUS"}
)
# These have a FROM of their own, before a value.
_FUNCTIONS = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY"})


class NamedTable:
    """A table of one of our catalogs where a statement reads or changes it."""

    def __init__(self, match: re.Match[str], *, depth: int, alone: bool) -> None:
        self.text = match.group()
        self.name: str = match["name"]
        self.parts = tuple(parse_name(self.name))
        self.version: str | None = match["version"]
        self.time: str | None = match["time"]
        self.options: str = match["options"] or ""
        self.same = (*self.parts, self.text[len(self.name) :])
        """What two of them have in common if they are the same rows."""
        self.depth = depth
        self._alone = alone

    def put_in(self, other: str) -> str:
        """Name something else in the place of the table, which is called as the table was."""
        last = self.parts[-1].replace("`", "``")
        # Whatever alias follows is one of what is in the parentheses.
        return other if self._alone else f"({other} AS `{last}`)"


def parted(text: str, catalogs: Sequence[str]) -> list[str | NamedTable]:
    """Cut a statement at its tables; columns named with a whole table keep its last name alone."""
    text = closed_up(text)
    found = list(_found(text, catalogs))
    known = [table.parts for _, table in found if table is not None]
    parts: list[str | NamedTable] = []
    at = 0
    for match, table in found:
        parts.append(text[at : match.start()])
        parts.append(_column(match, known) if table is None else table)
        at = match.end()
    return [*parts, text[at:]]


class _Place:
    """What is known between a pair of parentheses, from left to right."""

    def __init__(self, *, begins: bool = False, of_values: bool = False) -> None:
        self.listed = begins  # Commas part tables here.
        self.next = begins  # A table comes next.
        self.of_values = of_values

    def read(self, word: str, before: str) -> None:
        """Go past a word or a comma."""
        if word in _BEGIN and not (word == "FROM" and (self.of_values or before == "DISTINCT")):
            self.listed = self.next = True
        elif word in _END:
            self.listed = self.next = False
        elif word != "LATERAL":
            self.next = word == "," and self.listed


def _found(text: str, catalogs: Sequence[str]) -> Iterator[tuple[re.Match[str], NamedTable | None]]:
    words = "|".join(re.escape(name) for name in catalogs) or "(?!)"
    ours = rf"(?: \b(?:{words}) | `(?:{words})` )"
    pattern = _TOKENS.format(ours=ours, name=_NAME, travel=_TRAVEL, options=_OPTIONS)
    places, before = [_Place()], ""
    for match in re.finditer(pattern, text, re.VERBOSE | re.DOTALL):
        place, kind = places[-1], match.lastgroup
        if kind == "aside":
            continue
        word = match.group().upper() if kind in ("word", "mark") else ""
        if kind == "table":
            depth, alone = len(places) - 1, before == "TABLE"
            yield match, NamedTable(match, depth=depth, alone=alone) if place.next else None
        if word == "(":
            places.append(_Place(begins=place.next, of_values=before in _FUNCTIONS))
        elif word == ")" and len(places) > 1:
            places.pop()
        if word != ")":
            place.read(word, before)
        before = word


def _column(match: re.Match[str], known: Sequence[tuple[str, ...]]) -> str:
    """Name a column by the last name of its table, which is all that Spark is told."""
    text, parts = match.group(), tuple(parse_name(match["name"]))
    for table in known:
        if parts[: len(table)] == table and len(parts) > len(table):
            short = ".".join(f"`{part.replace('`', '``')}`" for part in parts[len(table) - 1 :])
            return short + text[len(match["name"]) :]
    return text
