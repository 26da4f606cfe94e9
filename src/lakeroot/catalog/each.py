"""The same for every item of many, as fast as the store of a catalog allows."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from lakeroot.storage.contract import Store

Item = TypeVar("Item")
Result = TypeVar("Result")

_SIDE_BY_SIDE: Final = 16


def each(store: Store, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Work on items that need a file each: one after the other on a disk, not so in a bucket."""
    if store.root.is_local or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(len(items), _SIDE_BY_SIDE)) as pool:
        return list(pool.map(work, items))
