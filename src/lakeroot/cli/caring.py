"""Commands that look after a catalog."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Final

import click

from lakeroot.cli.catalogs import opened, opened_now
from lakeroot.cli.config import chosen, options_of
from lakeroot.cli.failing import EXIT_FAILED
from lakeroot.cli.naming import DRY_RUN, YES, agreed
from lakeroot.cli.output import many, print_done, print_found, print_rows
from lakeroot.cli.progress import shown, shown_for
from lakeroot.lake.lake import own
from lakeroot.lake.opening import implementation
from lakeroot.model.identifiers import show
from lakeroot.model.spans import span_of


@click.command()
@DRY_RUN
@click.pass_context
def migrate(ctx: click.Context, dry_run: bool) -> None:
    """Give every V1 table a row of the manifest, all in one commit; nothing moves."""
    work = own(opened(ctx), "migrate")
    with shown("Reading the catalog"):
        done = work(dry_run=dry_run)
    outcome = "would migrate" if dry_run else "migrated"
    rows = [(outcome, show(one)) for one in done.migrated]
    rows += [("only declared, left alone", show(one)) for one in done.declared]
    rows += [("name not allowed, left alone", show(one)) for one in done.unnameable]
    print_rows(ctx, ["what", "table"], rows)


_SHOWN: Final = ("severity", "code", "object", "what", "why", "fix", "repairable")


class Span(click.ParamType[timedelta]):
    """A span of time: a number and s, m, h, d or w."""

    name = "span"

    def convert(self, value: Any, param: Any, ctx: Any) -> timedelta:
        """Read a span."""
        return value if isinstance(value, timedelta) else span_of(str(value))


@click.command()
@click.option("--repair", is_flag=True, help="Do the safe repairs.")
@DRY_RUN
@click.option(
    "--grace", type=Span(), default="1d", show_default=True, help="What is younger is let be."
)
@click.option("--spark", is_flag=True, help="Let Spark look at the tables, many at once.")
@click.pass_context
def fsck(ctx: click.Context, repair: bool, dry_run: bool, grace: timedelta, spark: bool) -> None:
    """Find what is wrong with a catalog and its tables; repair what is safe to repair.

    Leaves with 1 if there are errors that were not repaired. No repair deletes data of a table.
    """
    lake = opened(ctx)
    with (
        _looking_after(ctx, "fsck", spark=spark) as (care, showing),
        showing("Reading the catalog"),
    ):
        findings = care.check(grace)
    outcomes = {}
    if repair or dry_run:
        done = lake.repair(findings, dry_run=dry_run)
        outcomes = {one.finding: one.outcome for one in done}
    rows = [(*(getattr(one, name) for name in _SHOWN), outcomes.get(one, "")) for one in findings]
    print_found(ctx, [*_SHOWN, "repair"], rows, "Everything is in order.")
    if any(one.severity == "error" and outcomes.get(one) != "repaired" for one in findings):
        raise SystemExit(EXIT_FAILED)


_Showing = Callable[[str], AbstractContextManager[None]]


@contextmanager
def _looking_after(ctx: click.Context, name: str, *, spark: bool) -> Iterator[tuple[Any, _Showing]]:
    """Give what checks a catalog and collects its garbage, and what shows how far that is.

    One process does it, or the tasks of a Spark session.
    """
    if not spark:
        yield opened(ctx), shown
        return
    from lakeroot.cli.sparking import OnSpark, spark_session

    # A wrong address is said before Spark takes its time to start.
    opened_now(ctx, "Leave --as-of out: it is the present that is looked after")
    impl, properties = implementation(*chosen(options_of(ctx)))
    with spark_session(name, shows=False) as session:
        yield OnSpark(session, impl, properties), partial(shown_for, session)


@click.command()
@click.option(
    "--older-than", type=Span(), default="7d", show_default=True, help="Keep what is younger."
)
@click.option("--old-versions", is_flag=True, help="Old versions of tables too.")
@click.option(
    "--keep", type=click.IntRange(1), default=1, show_default=True, help="Versions of each table."
)
@DRY_RUN
@YES
@click.option("--spark", is_flag=True, help="Let Spark clean the tables, many at once.")
@click.pass_context
def gc(
    ctx: click.Context,
    older_than: timedelta,
    old_versions: bool,
    keep: int,
    dry_run: bool,
    yes: bool,
    spark: bool,
) -> None:
    """Delete what nothing in the catalog can reach: leftovers, orphans, files of the far past.

    With --old-versions also versions of tables that no state of the window shows.
    """
    with _looking_after(ctx, "gc", spark=spark) as (care, showing):
        with showing("Reading the catalog"):
            planned = care.gc(older_than, dry_run=True, old_versions=old_versions, keep=keep)
        if not dry_run and planned.garbage:
            what = many(len(planned.garbage), "thing"), many(planned.size_bytes, "byte")
            agreed(f"Delete {', '.join(what)}, for good?", yes=yes)
            with showing("Deleting"):
                planned = care.gc(older_than, old_versions=old_versions, keep=keep)
    rows = [(one.path, one.size_bytes, one.why) for one in planned.garbage]
    print_found(ctx, ["path", "bytes", "why"], rows, "There is no garbage.")


@click.command()
@click.pass_context
def optimize(ctx: click.Context) -> None:
    """Fold the manifest into one data file and index it, for clients that scan it."""
    with shown("Folding the manifest"):
        done = opened(ctx).optimize()
    print_done(
        ctx,
        f"Version {done.version} of the catalog is in {done.data_files} data files.",
        version=done.version,
        data_files=done.data_files,
        indexes=list(done.indexes),
    )
