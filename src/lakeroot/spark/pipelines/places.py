"""Where a file says what a pipeline is made of, so that errors of a run can point at the line."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lakeroot.model.errors import LakerootError

# Where in a text Spark's parser has stopped; what fails later tells it by a context.
_STOPPED = re.compile(r"\bline (\d+),? pos \d+")


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a file: its line, those of its keys, and where the texts of these begin and end."""

    file: str
    line: int
    keys: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def shown(self, key: str = "", inside: int = 0) -> str:
        """Name the line of a key, or of a line inside its text; without one, of the whole part."""
        line = self.keys.get(key, self.line)
        if inside and key in self.texts:
            first, last = self.texts[key]
            line = min(first + inside - 1, last)
        return f"{self.file}, line {line}"


@contextmanager
def pointed(place: Place | None, key: str = "", text: str | None = None) -> Iterator[None]:
    """Let errors name the line of a file that they are about, unless one inside has done it.

    With the `text` of the key it is the line of that text at which Spark has stopped.
    """
    try:
        yield
    except LakerootError as error:
        if place is not None and f"{place.file}, line " not in error.what:
            inside = 0 if text is None else line_inside(error, text)
            # The very error goes on: with its class, whatever that is made of, and its cause.
            error.what = f"{place.shown(key, inside)}: {error.what}"
            error.args = (error.what, error.why, error.fix)
        raise


def line_inside(error: LakerootError, text: str) -> int:
    """Find the line of a text of SQL that an error of Spark is about; 0 if it does not say so."""
    starts = (context.startIndex() for context in contexts_of(error) if is_from(context, text))
    start = next(starts, None)
    if start is not None:
        return text.count("\n", 0, start) + 1
    found = _STOPPED.search(error.why)
    return int(found[1]) if found else 0


def contexts_of(error: BaseException) -> list[Any]:
    """Give the pieces of SQL that an error of Spark is about."""
    said = getattr(error.__cause__, "getQueryContext", None)
    try:
        found = [] if said is None else said()
        return [each for each in found if each.fragment() and each.startIndex() >= 0]
    except Exception:  # noqa: BLE001  # Of a piece of Python Spark tells other things, or none.
        return []


def is_from(context: Any, text: str) -> bool:
    """Tell whether a piece of SQL may be one of this very text."""
    fragment: str = context.fragment()
    return text.startswith(fragment, context.startIndex())
