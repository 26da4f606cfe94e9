"""Steps of a pipeline that are Python functions: call one, and say what is wrong with it."""

import traceback
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeroot.model.errors import InternalError, InvalidInputError, LakerootError
from lakeroot.spark.failures import explained, translated
from lakeroot.spark.functions import function_named

_CALLED_WITH = "A step is a function of the session and of the frames by name: (spark, frames)"
# Errors of these are not the function's own: it may be right, and Spark in trouble.
_SPARK = ("pyspark", "py4j")


def frame_of(
    spark: SparkSession, frames: Mapping[str, DataFrame], function: str, step: str
) -> DataFrame:
    """Call the function ``module:name`` of a step; `step` says which one that is."""
    found = function_named(function)
    try:
        made = found(spark, dict(frames))
    except LakerootError:
        raise
    except Exception as error:
        raise _failed(error, found, function, step) from error
    if not isinstance(made, DataFrame):
        got = "None" if made is None else f"a {_kind(made)}"
        raise InvalidInputError(
            f"{step} gave {got}",
            f"{function} must return a Spark DataFrame",
            "End it with `return` and the frame; `spark.createDataFrame` makes one of other rows",
        )
    with translated(f"{step} gave a frame that Spark cannot compute"):
        made.schema  # noqa: B018 - over Spark Connect nothing has looked at the frame before
    return made


def _failed(error: Exception, found: Callable[..., Any], function: str, step: str) -> LakerootError:
    said = explained(f"{step} failed", error)
    kind = InvalidInputError if _is_of_the_function(error, said) else type(said)
    place = _place(error, {function.partition(":")[0], getattr(found, "__module__", None)})
    text = said.why or said.what
    name = type(error).__name__
    why = text if text == name else f"{name}: {text.rstrip('.')}"
    if place is None:  # The function was not even entered.
        return kind(f"{step} failed", why, said.fix or _CALLED_WITH)
    return kind(f"{step} failed", f"{why} ({place})", said.fix)


def _is_of_the_function(error: Exception, said: LakerootError) -> bool:
    return type(said) is InternalError and type(error).__module__.split(".")[0] not in _SPARK


def _place(error: Exception, modules: set[str | None]) -> str | None:
    """Find the last line of the user's module on the way to where an error was raised."""
    lines = [
        f"{frame.f_code.co_filename}, line {number}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") in modules
    ]
    return lines[-1] if lines else None


def _kind(value: object) -> str:
    kind = type(value)
    inside = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{inside}{kind.__qualname__}"
