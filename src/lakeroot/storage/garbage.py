"""What a collection of garbage says, whatever the format of the catalog, and how old garbage is."""

import time
from datetime import timedelta
from typing import Final

from msgspec import Struct

from lakeroot.model.errors import InvalidInputError

SHORTEST: Final = timedelta(hours=1)
"""However short the window: what is younger may be a writer's who is at work."""
LONGEST_JOB: Final = timedelta(days=7)
"""However short the window: a job that runs needs the first files that it has written.

Lance does not take a file for nobody's either until it is as old.
"""
LONGEST_TOLD: Final = timedelta(days=90)
"""However short the window: so long it can be asked how a job went."""


class Garbage(Struct, frozen=True):
    """Something that was removed, or would be."""

    path: str
    size_bytes: int
    why: str


class Collected(Struct, frozen=True):
    """Everything that was removed, or would be."""

    garbage: tuple[Garbage, ...]
    dry_run: bool

    @property
    def size_bytes(self) -> int:
        """Sum up what was freed."""
        return sum(one.size_bytes for one in self.garbage)


class Moments(Struct, frozen=True):
    """Before when things are old: by one clock for all, whoever does the work."""

    left_ms: int
    """What a writer leaves that nobody but he knows of, and that he needs for a short time."""
    unnamed_ms: int
    """What a writer puts into a table before a version names it; that may take days."""
    told_ms: int
    """What was noted of a job for whoever asks."""


def moments(older_than: timedelta, now_ms: int | None = None) -> Moments:
    """Say before when things are old, for a window of time; by this machine's clock, or another."""
    require_window(older_than)
    now = time.time() if now_ms is None else now_ms / 1000
    spans = (max(older_than, least) for least in (SHORTEST, LONGEST_JOB, LONGEST_TOLD))
    return Moments(*(int((now - span.total_seconds()) * 1000) for span in spans))


def require_window(older_than: timedelta) -> None:
    """Refuse a window that ends in the future."""
    if older_than < timedelta(0):
        raise InvalidInputError("The window cannot be negative", fix="Keep zero days or more")
