"""Scan planning on the server: which files hold the rows that a scan wants.

The files are those of the mirror: they hold every column, so any filter can be applied by the
reader, and each task carries the filter so that counts are right too.
"""

import uuid
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest

from lakeroot.server.iceberg import lance_tables, ordinary
from lakeroot.server.iceberg.calls import Call
from lakeroot.server.iceberg.catalog import SCAN_PLANNING, Catalog
from lakeroot.server.iceberg.errors import IcebergError, bad_request, unsupported
from lakeroot.server.iceberg.lance_tables import FoundTable
from lakeroot.server.iceberg.mirror import Mirror, MirrorFile
from lakeroot.server.wire import Response, json_response


def plan_table_scan(catalog: Catalog, call: Call) -> Response:
    """Name the files of one version of a table, and the filter that is left to the reader."""
    body = call.body
    try:
        PlanTableScanRequest.model_validate(body)
    except (ValidationError, ValueError, TypeError) as problem:
        raise bad_request("Cannot parse request: this is not a scan") from problem
    if body.get("start-snapshot-id") is not None or body.get("end-snapshot-id") is not None:
        raise unsupported("Incremental scans are not planned by this server")
    table = lance_tables.find(catalog, call.identifier)
    if not catalog.opted_in(table.identifier, table.properties, SCAN_PLANNING):
        raise unsupported(f"Scan planning is off for this table; set {SCAN_PLANNING}=on")
    files = _files(catalog, table, body.get("snapshot-id"))
    tasks = [_task(file, body.get("filter")) for file in files]
    return json_response(
        {"status": "completed", "plan-id": str(uuid.uuid4()), "file-scan-tasks": tasks}
    )


def fetch_scan_tasks(_: Catalog, __: Call) -> Response:
    """Every plan is given whole, so there are no more tasks to fetch."""
    raise IcebergError(404, "NoSuchPlanTaskException", "Plan task does not exist", 4)


def _files(catalog: Catalog, table: FoundTable, version: object) -> list[MirrorFile]:
    if version is not None and not isinstance(version, int):
        raise bad_request("Cannot parse request: snapshot-id is not a number")
    if table.is_ordinary:
        return ordinary.files_of(catalog, table, version)
    if table.declared_only:
        return []
    try:
        dataset = lance_tables.dataset_of(catalog, table, version)
    except (OSError, ValueError) as problem:
        raise bad_request(f"Snapshot does not exist: {version}") from problem
    return list(Mirror(catalog, table).version(dataset.version).files.values())


def _task(file: MirrorFile, residual: object) -> dict[str, Any]:
    task: dict[str, Any] = {
        "data-file": {
            "spec-id": 0,
            "content": "data",
            "file-path": file.path,
            "file-format": "parquet",
            "file-size-in-bytes": file.size,
            "record-count": file.rows,
            "partition": [],
        }
    }
    if residual is not None:
        task["residual-filter"] = residual
    return task
