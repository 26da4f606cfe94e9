"""Calling pylance while pylance is calling us.

A client such as ``lance.dataset(namespace_client=…)`` asks the catalog from inside pylance, on a
thread of pylance's own runtime. Calling pylance again from there breaks the interpreter ("the GIL
is released"), so such calls are made on a thread of ours.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def on_own_thread(
    call: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call pylance here, or from a thread of ours if this one belongs to pylance."""
    if _is_ours(threading.current_thread()):
        return call(*args, **kwargs)
    return _pool().submit(call, *args, **kwargs).result()


def _is_ours(thread: threading.Thread) -> bool:
    # Python makes a stand-in for every thread that it did not start itself.
    return type(thread).__name__ != "_DummyThread"


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, thread_name_prefix="lakeroot-pylance")
