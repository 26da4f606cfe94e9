"""What comes to light only when rows are computed: find the source or the step that it is about."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakeroot.model.errors import LakerootError
from lakeroot.spark.moving import files_blamed
from lakeroot.spark.pipelines.definition import Pipeline, Source, Step, Target
from lakeroot.spark.pipelines.places import contexts_of, is_from, pointed

_SIGN: Final = re.compile(r"[*?\[{\\]")
_READING: Final = re.compile(r"while reading file (\S+)")


@contextmanager
def rows_blamed(pipeline: Pipeline, target: Target, key: str) -> Iterator[None]:
    """Let an error of the rows of a table point at where they come from.

    Spark tells which piece of SQL has failed, or which file; else it is this key of the table.
    """
    with pointed(target.place, key):
        try:
            with files_blamed():
                yield
        except LakerootError as error:
            origin = _origin(pipeline, error)
            if origin is None:
                raise
            with pointed(origin.place, "path" if origin.sql is None else "sql", origin.sql):
                raise


def _origin(pipeline: Pipeline, error: LakerootError) -> Source | Step | None:
    parts: list[Source | Step] = [*pipeline.sources, *pipeline.steps]
    for context in contexts_of(error):
        found = [each for each in parts if each.sql is not None and is_from(context, each.sql)]
        if len(found) == 1:  # Two may have the same piece at the same place.
            return found[0]
    files = _READING.findall("\n".join(map(str, _causes(error))))
    read = [each for each in pipeline.sources if _start(each) and _is_in(_start(each), files)]
    return max(read, key=lambda each: len(_start(each)), default=None)


def _causes(error: BaseException) -> Iterator[BaseException]:
    while error.__cause__ is not None:
        error = error.__cause__
        yield error


def _is_in(start: str, files: list[str]) -> bool:
    return any(start in file for file in files)


def _start(source: Source) -> str:
    """Give what the names of all files of a source begin with."""
    return _SIGN.split(source.path or "")[0]
