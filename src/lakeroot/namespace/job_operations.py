"""Operations that take long: they answer with the id of a job, and a runner does the work.

`DescribeTransaction`, asked with the table's names and the id of the job, tells how it went.
"""

import base64
import binascii
import json
import uuid
from typing import Any, Final

import pyarrow as pa
from lance_namespace import (
    AlterTableBackfillColumnsRequest,
    AlterTableBackfillColumnsResponse,
    CreateMaterializedViewRequest,
    CreateMaterializedViewResponse,
    CreateTableRequest,
    RefreshMaterializedViewRequest,
    RefreshMaterializedViewResponse,
)

from lakeroot.model.errors import InvalidInputError, UnsupportedOperationError
from lakeroot.model.identifiers import identifier_of, show
from lakeroot.namespace.access import TableAccess
from lakeroot.namespace.border import operation
from lakeroot.namespace.jobs import (
    BackfillColumn,
    Job,
    JobRunner,
    NewView,
    RefreshView,
    ViewChecker,
)
from lakeroot.tables.computed import expression_of
from lakeroot.tables.handle import TableHandle, working_on
from lakeroot.tables.job_notes import files_beside, note_job
from lakeroot.tables.transactions import Status

VIEW: Final = b"lakeroot.view"
_QUERY: Final = "query"
_KINDS: Final = (_QUERY, "udtf", "chunker", "scalar_udtf")


class JobOperations(TableAccess):
    """Backfill columns; create and refresh materialized views."""

    job_runner: JobRunner | None = None

    @operation(AlterTableBackfillColumnsRequest)
    def alter_table_backfill_columns(
        self, request: AlterTableBackfillColumnsRequest
    ) -> AlterTableBackfillColumnsResponse:
        """Start to fill a computed column; sizes of checkpoints and tasks are the runner's own."""
        runner = self._runner()
        _refuse(request, "branch", "read_version", "num_frags", "cluster", "manifest")
        identifier = identifier_of(request.id)
        handle = self.handle_of(request.id)
        job = BackfillColumn(
            job=str(uuid.uuid4()),
            table=identifier,
            column=request.column,
            expression=expression_of(handle, request.column),
            where=request.where or None,
            concurrency=_positive(request, "concurrency"),
            batch_size=_positive(request, "checkpoint_size"),
        )
        about = {"kind": "backfill", "column": job.column, "expression": job.expression}
        _start(runner, job, handle, about)
        return AlterTableBackfillColumnsResponse(job_id=job.job)

    @operation(CreateMaterializedViewRequest)
    def create_materialized_view(
        self, request: CreateMaterializedViewRequest
    ) -> CreateMaterializedViewResponse:
        """Create an empty table that remembers the query its rows come from.

        Whoever runs the catalog's jobs looks at the query first, if there is somebody.
        """
        if request.kind not in _KINDS:
            raise InvalidInputError(
                f"There is no kind {request.kind!r} of materialized views",
                fix=f"Known: {', '.join(_KINDS)}",
            )
        if request.kind != _QUERY or request.udtf_spec is not None:
            raise UnsupportedOperationError(
                "A materialized view cannot be made by a function",
                "functions sent by clients are not run here",
                "Use the kind 'query', or a step of a pipeline",
            )
        if request.auto_refresh:
            raise UnsupportedOperationError(
                "A materialized view is not refreshed by itself",
                fix="Leave `auto_refresh` out, and refresh the view when its sources have changed",
            )
        if not request.source_query.strip():
            raise InvalidInputError("A materialized view needs a query")
        runner = self._runner() if request.with_no_data is False else None
        definition = json.dumps({"kind": request.kind, "source_query": request.source_query})
        schema = _schema_in(request.output_schema)
        if isinstance(self.job_runner, ViewChecker):
            identifier = identifier_of(request.id)
            self.job_runner.check(
                NewView(table=identifier, query=request.source_query, schema=schema)
            )
        schema = schema.with_metadata({**(schema.metadata or {}), VIEW: definition.encode()})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema):
            pass
        creation: Any = self
        made = creation.create_table(
            CreateTableRequest(id=request.id, mode="Create"), sink.getvalue().to_pybytes()
        )
        job_id = None
        if runner is not None:
            job_id = self._refresh(runner, request.id, request.source_query)
        return CreateMaterializedViewResponse(version=made.version, job_id=job_id)

    @operation(RefreshMaterializedViewRequest)
    def refresh_materialized_view(
        self, request: RefreshMaterializedViewRequest
    ) -> RefreshMaterializedViewResponse:
        """Start to compute the rows of a view anew; readers see the old ones until then."""
        runner = self._runner()
        if request.output_limit is not None:
            raise InvalidInputError("`output_limit` is for views of the kind 'chunker'")
        _refuse(request, "src_version", "cluster", "manifest")
        query = _query_of(self.handle_of(request.id), show(identifier_of(request.id)))
        job_id = self._refresh(
            runner,
            request.id,
            query,
            concurrency=_positive(request, "concurrency"),
            max_rows_per_file=_positive(request, "max_rows_per_fragment"),
        )
        return RefreshMaterializedViewResponse(job_id=job_id)

    def _refresh(
        self, runner: JobRunner, names: list[str] | None, query: str, **settings: int | None
    ) -> str:
        job = RefreshView(
            job=str(uuid.uuid4()), table=identifier_of(names), query=query, **settings
        )
        _start(runner, job, self.handle_of(names), {"kind": "refresh", "query": query})
        return job.job

    def _runner(self) -> JobRunner:
        if self.job_runner is None:
            raise UnsupportedOperationError(
                "This catalog has nothing that runs jobs",
                fix="Open it with the property jobs=spark, or run the job with lakeroot.spark",
            )
        return self.job_runner


def _start(runner: JobRunner, job: Job, handle: TableHandle, about: dict[str, str]) -> None:
    # Noted before it starts, so that nobody who has the id is told that there is no such job.
    files = files_beside(handle.location, handle.storage_options)
    note_job(files, job.job, Status.QUEUED, about)
    try:
        runner.start(job)
    except Exception as error:
        note_job(files, job.job, Status.FAILED, {"error": str(error)})
        raise


def _refuse(request: Any, *names: str) -> None:
    """Refuse what would change the outcome and is not done here."""
    for name in names:
        if getattr(request, name) is not None:
            raise UnsupportedOperationError(
                f"`{name}` is not supported here", fix=f"Leave `{name}` out"
            )


def _positive(request: Any, name: str) -> int | None:
    number: int | None = getattr(request, name)
    if number is not None and number < 1:
        raise InvalidInputError(f"`{name}` must be at least 1, not {number}")
    return number


def _schema_in(text: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    except (binascii.Error, pa.ArrowException, ValueError, OSError, EOFError) as error:
        raise InvalidInputError(
            "`output_schema` is not an Arrow schema in base64",
            str(error),
            "Encode the bytes of schema.serialize()",
        ) from error


def _query_of(handle: TableHandle, name: str) -> str:
    with working_on(handle, "Looking at the view") as table:
        found = (table.open().schema.metadata or {}).get(VIEW)
    try:
        return str(json.loads(found)["source_query"]) if found is not None else _not_a_view(name)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"The definition of {name} cannot be read", str(error)) from error


def _not_a_view(name: str) -> str:
    raise InvalidInputError(
        f"{name} is not a materialized view", fix="Create it with CreateMaterializedView"
    )
