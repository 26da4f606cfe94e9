"""Answers: tables for people, JSON and CSV for scripts."""

import csv
import json
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

import click

_GAP: Final = "  "


def form(ctx: click.Context) -> str:
    """Give the form that was asked for; a table on a terminal and in a pipe alike."""
    root = ctx.find_root()
    options: dict[str, Any] = root.obj if isinstance(root.obj, dict) else root.params
    return options.get("output") or "table"


def many(count: int, noun: str) -> str:
    """Count things in words: one row, two rows."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def print_rows(ctx: click.Context, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows."""
    match form(ctx):
        case "json":
            found = [dict(zip(header, row, strict=True)) for row in rows]
            click.echo(json.dumps(found, default=str, ensure_ascii=False, indent=2))
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(header)
            writer.writerows([_cell(value) for value in row] for row in rows)
        case _:
            _print_table(header, rows)


def _cell(value: Any) -> Any:
    """Write what is made of several values as scripts read it."""
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict) else value


def print_value(ctx: click.Context, name: str, value: Any) -> None:
    """Print one value."""
    match form(ctx):
        case "json":
            click.echo(json.dumps({name: value}, default=str, ensure_ascii=False))
        case "csv":
            print_rows(ctx, [name], [(value,)])
        case _:
            click.echo(value)


def print_done(ctx: click.Context, message: str, **facts: Any) -> None:
    """Say what was done: a sentence for people, the facts for scripts."""
    match form(ctx):
        case "json":
            click.echo(json.dumps(facts, default=str, ensure_ascii=False))
        case "csv":
            print_rows(ctx, list(facts), [tuple(facts.values())])
        case _:
            click.secho(message, fg="green")


def print_found(
    ctx: click.Context, header: Sequence[str], rows: Sequence[Sequence[Any]], nothing: str
) -> None:
    """Print rows; to a person, say so if there are none."""
    if rows or form(ctx) != "table":
        print_rows(ctx, header, rows)
    else:
        click.secho(nothing, fg="green")


def _print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from lakeroot.lake.display import short

    shown = [[short(value) for value in row] for row in rows]
    widths = [
        max(map(_width, column)) for column in zip(header, *shown, strict=True)
    ]  # a header names every column, so there is one even without rows
    if sys.stdout.isatty() and sum(widths) + len(_GAP) * len(widths) > _terminal_width():
        _print_folded(header, shown)
        return
    click.echo(_line([click.style(name, bold=True) for name in header], header, widths))
    for row in shown:
        click.echo(_line(row, row, widths))


def _line(styled: Sequence[str], plain: Sequence[str], widths: Sequence[int]) -> str:
    cells = zip(styled, plain, widths, strict=True)
    return _GAP.join(cell + " " * (width - _width(text)) for cell, text, width in cells).rstrip()


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF")
        for one in text
    )


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _print_folded(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Fold cells into the width of a terminal; rich is loaded for this alone."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
