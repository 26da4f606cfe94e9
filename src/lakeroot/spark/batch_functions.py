"""Functions of users that compute new columns: from batch to batch, or from frame to frame."""

import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa

BatchFunction = Callable[[Any], Any]
"""Takes a batch of Arrow or, if it says so as a function of Spark does, a frame of pandas."""


class Remembering:
    """A function of a user that remembers what it raised: Lance tells of it without its kind."""

    def __init__(self, function: BatchFunction) -> None:
        self._function = function
        self._takes_frames = takes_frames(function)
        self.raised: Exception | None = None

    def __call__(self, batch: pa.RecordBatch) -> Any:
        """Hand a batch on, as what the function takes."""
        try:
            return self._function(batch.to_pandas() if self._takes_frames else batch)
        except Exception as error:
            self.raised = error
            raise


def takes_frames(function: BatchFunction) -> bool:
    """Tell whether the first thing that a function takes is said to be a frame of pandas."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some of what can be called does not tell.
        return False
    said = next((one.annotation for one in parameters), None)
    name = said if isinstance(said, str) else getattr(said, "__qualname__", "")
    return name.rpartition(".")[2] == "DataFrame"
