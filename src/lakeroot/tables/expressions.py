"""SQL expressions and names of columns as users write them, and what must not reach Lance.

Lance puts an expression into a statement and takes one part of that, so it passes over whatever
follows the expression: ``id = 1 LIMIT 5`` deletes all rows whose id is 1. A name with a NUL inside
cannot leave Lance again: reading it ends the process. So does an expression that is too deep, and
some never end; `depths` finds both.
"""

import re
from typing import Final

import pyarrow as pa
from lance import LanceDataset

from lakeroot.model.errors import InvalidInputError
from lakeroot.tables.depths import OPAQUE, check_depth

RESERVED: Final = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)
"""Columns that Lance adds to what it reads; a table that has one of its own cannot be read."""

_PLAIN: Final = re.compile(r"[\w.]+")
_PARENTHESIS: Final = re.compile(r"[()]")


def whole(expression: str) -> str:
    """Write an expression so that Lance reads it to its end, or not at all.

    A semicolon may end it. Comments inside comments are refused, as Lance does everywhere.
    """
    if ";" in expression:
        expression = _without_semicolon(expression)
    if not expression.strip():
        raise InvalidInputError("An SQL expression is empty", fix="Write one, or leave it out")
    check_depth(expression)
    if _PLAIN.fullmatch(expression):
        return expression
    depth = 0
    for sign in _PARENTHESIS.findall(OPAQUE.sub("", expression)):
        depth += 1 if sign == "(" else -1
        if depth < 0:
            raise InvalidInputError(
                f"{expression!r} is not an expression", "a parenthesis is closed that is not open"
            )
    # A comment reaches to the end of its line.
    return f"({expression}\n)" if "--" in expression else f"({expression})"


def _without_semicolon(expression: str) -> str:
    """Leave out the semicolon at the end, before nothing but comments."""
    # As long as the expression: comments become blank, and what is quoted does not.
    bare = OPAQUE.sub(lambda it: (" " if it[0][0] in "-/" else "x") * len(it[0]), expression)
    end = len(bare.rstrip())
    return expression[: end - 1] + expression[end:] if bare[:end].endswith(";") else expression


def whole_or_none(expression: str | None) -> str | None:
    """Write an expression that may be left out, or empty: all rows are only looked at."""
    return whole(expression) if expression else None


def whole_if_given(expression: str | None) -> str | None:
    """Write an expression that may be left out, never empty: all rows would be changed."""
    return None if expression is None else whole(expression)


def check_new_name(name: str) -> None:
    """Refuse a name that no column of a table can have."""
    if name in RESERVED:
        raise InvalidInputError(
            f"{name!r} is not a name for a column", "Lance itself has a column of this name"
        )
    check_shown_name(name)


def check_shown_name(name: str) -> None:
    """Refuse a name that no column of an answer can have."""
    if "\0" in name:
        raise InvalidInputError(f"{name!r} is not a name for a column", "it has a NUL inside")


def planned_schema(dataset: LanceDataset, expressions: dict[str, str]) -> pa.Schema:
    """Let Lance work out the types of expressions."""
    # It scans no expression that reads no column, so it is asked for the row ids as well.
    return dataset.scanner(columns=expressions, with_row_id=True, limit=1).projected_schema


def check_predicate(dataset: LanceDataset, predicate: str) -> None:
    """Refuse a predicate that Lance cannot read to its end."""
    _ = dataset.scanner(filter=whole(predicate), limit=1).projected_schema
