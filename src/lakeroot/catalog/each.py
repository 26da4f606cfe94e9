"""Work that waits for files, as fast as the store of a catalog allows."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from lakeroot.storage.contract import Store

Item = TypeVar("Item")
Result = TypeVar("Result")
Other = TypeVar("Other")

_SIDE_BY_SIDE: Final = 16


def each(store: Store, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Work on items that need a file each: one after the other on a disk, not so in a bucket."""
    if store.root.is_local or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _SIDE_BY_SIDE)) as pool:
        return list(pool.map(work, items))


def both(
    store: Store, work: Callable[[], Result], other: Callable[[], Other]
) -> tuple[Result, Other]:
    """Do two things that need files: at once in a bucket, where each of them waits for long."""
    if store.root.is_local:
        return work(), other()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(other)
        return work(), beside.result()
