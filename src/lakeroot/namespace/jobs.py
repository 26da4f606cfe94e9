"""Jobs that an operation of the namespace starts and somebody else runs.

The namespace knows what is to be done, not how: it hands a job over to a runner. Runners are
entry points of the group ``lakeroot.jobs``, chosen by name with the property ``jobs``; the one of
Lakeroot's Spark pipeline is called ``spark``. A program can also set ``job_runner`` itself.
"""

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError
from lakeroot.model.identifiers import Identifier

if TYPE_CHECKING:
    import pyarrow as pa  # light commands do without it

GROUP: Final = "lakeroot.jobs"
PROPERTY: Final = "jobs"


class BackfillColumn(Struct, frozen=True, kw_only=True):
    """Fill a column by its expression, in all rows or in those a predicate keeps."""

    job: str
    table: Identifier
    column: str
    expression: str
    where: str | None = None
    concurrency: int | None = None
    batch_size: int | None = None


class RefreshView(Struct, frozen=True, kw_only=True):
    """Replace the rows of a view by the rows that its query finds now."""

    job: str
    table: Identifier
    query: str
    concurrency: int | None = None
    max_rows_per_file: int | None = None


Job = BackfillColumn | RefreshView


class NewView(Struct, frozen=True, kw_only=True):
    """A view that is about to be made: its query, and the columns that it is to have."""

    table: Identifier
    query: str
    schema: "pa.Schema"


class JobRunner(Protocol):
    """Runs jobs on the tables of one catalog."""

    def start(self, job: Job) -> None:
        """Take a job over; its state is noted beside its table from here on."""


@runtime_checkable
class ViewChecker(JobRunner, Protocol):
    """A runner that can also tell what is wrong with a query before it is run."""

    def check(self, view: NewView) -> None:
        """Refuse a view that no refresh could fill."""


def without_jobs(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Leave the properties about jobs out."""
    return {
        key: value
        for key, value in properties.items()
        if key != PROPERTY and not key.startswith(f"{PROPERTY}.")
    }


def runner_of(
    namespace: type[Any], properties: Mapping[str, Any]
) -> tuple[dict[str, Any], JobRunner | None]:
    """Take the properties about jobs out, and build the runner they name."""
    prefix = f"{PROPERTY}."
    settings = {
        key.removeprefix(prefix): str(value)
        for key, value in properties.items()
        if key.startswith(prefix)
    }
    rest = without_jobs(properties)
    name = properties.get(PROPERTY)
    if not name:
        if settings:
            raise InvalidInputError(
                f"The property `{prefix}{min(settings)}` is for a runner of jobs, not named",
                fix=f"Give {PROPERTY}=spark",
            )
        return rest, None
    impl = f"{namespace.__module__}.{namespace.__qualname__}"
    # The runner opens the catalog again in other processes, where a runner would be one too many.
    strings = {key: str(value) for key, value in rest.items()}
    runner: JobRunner = _factory(str(name))(impl, strings, settings)
    return rest, runner


def _factory(name: str) -> Any:
    from importlib.metadata import entry_points  # Slow, and hardly ever needed.

    known = entry_points(group=GROUP)
    if name not in known.names:
        near = difflib.get_close_matches(name, known.names, n=1)
        raise InvalidInputError(
            f"Nothing that runs jobs is called {name!r}",
            fix=f"Did you mean {near[0]!r}?"
            if near
            else f"Known: {', '.join(sorted(known.names))}",
        )
    try:
        return known[name].load()
    except ImportError as error:
        raise UnsupportedOperationError(
            f"Jobs cannot be run by {name!r}", str(error), f"pip install 'lakeroot[{name}]'"
        ) from error
