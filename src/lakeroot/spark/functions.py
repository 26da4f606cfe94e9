"""Find a Python function by the name that a pipeline file or a command gives it."""

import importlib
from collections.abc import Callable
from typing import Any

from lakeroot.model.errors import InvalidInputError


def function_named(text: str) -> Callable[..., Any]:
    """Find the function ``module:name``."""
    module, _, name = text.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever the module does when it is imported
        raise InvalidInputError(
            f"The function {text!r} cannot be found",
            f"{type(error).__name__}: {error}",
            "Write it as module:function, and set PYTHONPATH to the directory of the module",
        ) from error
    if not callable(found):
        raise InvalidInputError(f"{text!r} is not a function")
    return found  # type: ignore[no-any-return]  # it is called, or fails, as what it should be
