"""Tables for notebooks."""

from collections.abc import Iterable, Sequence
from typing import Final

_LONGEST: Final = 80


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write rows as an HTML table; long values are cut."""
    from html import escape

    head = "".join(f"<th>{escape(str(name))}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(short(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def short(value: object) -> str:
    """Write a value on one line; a vector shows its length, a long text its beginning."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, list) and len(value) > 4 and isinstance(value[0], float):
        return f"[{value[0]:.3g}, {value[1]:.3g}, … {len(value)} values]"
    text = "" if value is None else str(value).replace("\n", " ")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
