"""Find the names of tables in a statement: where one stands tells whether it is of a column."""

import re
from collections.abc import Iterator, Sequence
from typing import Self

from lakeroot.spark.catalogs import parse_name
from lakeroot.spark.spark_sql.scanning import closed_up, unquoted

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
_LAST = re.compile(r"`(?:[^`]|``)*`|\w+")
# Behind these comes a table; commas part tables until one of the others comes.
_BEGIN = frozenset({"FROM", "JOIN", "TABLE", "INTO", "UPDATE", "USING"})
_END = frozenset(
    {"SELECT", "WHERE", "GROUP", "ORDER", "HAVING", "SET", "WHEN", "LIMIT", "WINDOW"}
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
    known = [table.parts for _, table, _ in found if table is not None]
    parts: list[str | NamedTable] = []
    at = 0
    for match, table, place in found:
        parts.append(text[at : match.start()])
        parts.append(_column(match, known, place) if table is None else table)
        at = match.end()
    return [*parts, text[at:]]


class _Place:
    """What is known between a pair of parentheses, from left to right."""

    def __init__(self, above: Self | None = None, *, before: str = "") -> None:
        self.above = above
        self.begins = above is not None and above.next
        self.listed: bool = self.begins  # Commas part tables here.
        self.next: bool = self.begins  # A table comes next.
        self.of_values = before in _FUNCTIONS
        self.things: set[tuple[str, ...]] = set()
        """Tables that are read here, and all else that may be what something is called."""

    def read(self, word: str, before: str) -> None:
        """Go past a word or a comma."""
        if word in _BEGIN and not (word == "FROM" and (self.of_values or before == "DISTINCT")):
            self.listed = self.next = True
        elif word in _END:
            self.listed = self.next = False
        elif word != "LATERAL":
            self.next = word == "," and self.listed

    def means(self, table: tuple[str, ...]) -> bool:
        """Tell whether the last name of a table means that table here.

        In a subquery `t.id` is of the nearest table that is called `t`, be it by an alias.
        """
        name = table[-1].lower()
        called = {thing for thing in self.things if thing[-1].lower() == name}
        if called:
            return called == {table}
        return self.above is not None and self.above.means(table)


def _found(
    text: str, catalogs: Sequence[str]
) -> Iterator[tuple[re.Match[str], NamedTable | None, _Place]]:
    words = "|".join(re.escape(name) for name in catalogs) or "(?!)"
    ours = rf"(?: \b(?:{words}) | `(?:{words})` )"
    pattern = _TOKENS.format(ours=ours, name=_NAME, travel=_TRAVEL, options=_OPTIONS)
    place, depth, before = _Place(), 0, ""
    for match in re.finditer(pattern, text, re.VERBOSE | re.DOTALL):
        here, kind = place, match.lastgroup
        if kind == "aside":
            continue
        word = match.group().upper() if kind in ("word", "mark") else ""
        if kind == "table" and here.next:
            table = NamedTable(match, depth=depth, alone=before == "TABLE")
            here.things.add(table.parts)
            yield match, table, here
        elif kind == "table":
            yield match, None, here
        elif kind != "mark":
            here.things.add((unquoted(_LAST.findall(match.group())[-1]),))
        if word == "(":
            place, depth = _Place(here, before=before), depth + 1
        elif word == ")" and here.above is not None:
            place, depth = here.above, depth - 1
            # What stands between parentheses in the place of a table may be seen outside.
            place.things |= here.things if here.begins else set()
        if word != ")":
            here.read(word, before)
        before = word


def _column(match: re.Match[str], known: Sequence[tuple[str, ...]], place: _Place) -> str:
    """Name a column by the last name of its table, which is all that Spark is told."""
    text, parts = match.group(), tuple(parse_name(match["name"]))
    for table in known:
        if parts[: len(table)] == table and len(parts) > len(table) and place.means(table):
            short = ".".join(f"`{part.replace('`', '``')}`" for part in parts[len(table) - 1 :])
            return short + text[len(match["name"]) :]
    return text
