"""Answers: tables for people, JSON and CSV for scripts."""

import csv
import json
import sys
from collections.abc import Sequence
from typing import Any

import click


def form(ctx: click.Context) -> str:
    """Give the form that was asked for; a table on a terminal and in a pipe alike."""
    options = ctx.find_root().obj or {}
    return options.get("output") or "table"


def print_rows(ctx: click.Context, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows."""
    match form(ctx):
        case "json":
            found = [dict(zip(header, row, strict=True)) for row in rows]
            click.echo(json.dumps(found, default=str, ensure_ascii=False, indent=2))
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)
        case _:
            _print_table(header, rows)


def print_value(ctx: click.Context, name: str, value: Any) -> None:
    """Print one value."""
    if form(ctx) == "json":
        click.echo(json.dumps({name: value}, default=str, ensure_ascii=False))
    else:
        click.echo(value)


def print_done(ctx: click.Context, message: str, **facts: Any) -> None:
    """Say what was done: a sentence for people, the facts for scripts."""
    if form(ctx) == "json":
        click.echo(json.dumps(facts, default=str, ensure_ascii=False))
    else:
        click.secho(message, fg="green")


def _print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from lakeroot.lake.display import short

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        table.add_column(str(name), overflow="fold")
    for row in rows:
        table.add_row(*(short(value) for value in row))
    # Colours and a width only on a terminal; a pipe gets every character.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=10_000, no_color=True)
    console.print(table)
