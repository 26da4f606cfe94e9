"""Bars for people who wait; nothing for pipes and scripts."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from lakeroot.model.progress import listening

_POLL: Final = 0.2


@contextmanager
def shown(doing: str) -> Iterator[None]:
    """Show on a terminal that something is going on, and how far it is where that is known."""
    if not sys.stderr.isatty():
        yield
        return
    with _bar() as bar:
        task = bar.add_task(doing, total=None)

        def listener(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        with listening(listener):
            yield


@contextmanager
def shown_for(session: Any, doing: str) -> Iterator[None]:
    """Show on a terminal how many tasks of a Spark session are done."""
    context = getattr(session, "sparkContext", None) if sys.stderr.isatty() else None
    if context is None:
        yield
        return
    over = threading.Event()
    with _bar() as bar:
        task = bar.add_task(doing, total=None)
        watch = threading.Thread(target=_watch, args=(context, bar, task, over), daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()


def _watch(context: Any, bar: Any, task: Any, over: threading.Event) -> None:
    tracker = context.statusTracker()
    while not over.wait(_POLL):
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if known:
            done = sum(stage.numCompletedTasks for stage in known)
            total = sum(stage.numTasks for stage in known)
            bar.update(task, completed=done, total=total)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
