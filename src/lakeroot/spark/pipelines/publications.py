"""What a run has published: the versions of its tables tell, and notes beside them."""

import contextlib
from collections.abc import Iterable, Mapping

from lakeroot.model.errors import LakerootError
from lakeroot.spark.catalogs import TableRef, exists, parse_name
from lakeroot.spark.commits import JOB, find_job
from lakeroot.spark.opening import open_table
from lakeroot.spark.pipelines import notes
from lakeroot.spark.pipelines.definition import Pipeline
from lakeroot.spark.pipelines.places import pointed


def ref_of(pipeline: Pipeline, name: str) -> TableRef:
    """Name a table in the catalog of a pipeline."""
    return TableRef(pipeline.catalog, parse_name(name))


def job_of(pipeline: Pipeline, run_id: str) -> str:
    """Name a run as the versions that it publishes do."""
    return f"{pipeline.name}/{run_id}"


def published(pipeline: Pipeline, run_id: str) -> dict[str, int]:
    """Find what a run has published: its tables' newest versions tell, or a note beside them."""
    found = {}
    for target in pipeline.tables:
        ref = ref_of(pipeline, target.table)
        with pointed(target.place, "table"):
            table = exists(ref)
            if table is None:
                continue
            version = find_job(open_table(table), JOB, job_of(pipeline, run_id))
        if version is None:
            note = notes.noted(ref, notes.id_of(pipeline.name, run_id, notes.PUBLISH))
            version = notes.what_was_done(note).get("version") if note is not None else None
        if version is not None:
            found[target.table] = version
    return found


def is_over(pipeline: Pipeline, found: Mapping[str, int]) -> bool:
    """Tell whether a run has published all: of tables that come together, one tells of all."""
    return bool(found) and (pipeline.atomic or len(found) == len(pipeline.tables))


def rows_noted(pipeline: Pipeline, run_id: str, name: str) -> int:
    """Find how many rows a run has published; none, where nobody lived to note it."""
    note = notes.noted(ref_of(pipeline, name), notes.id_of(pipeline.name, run_id, notes.PUBLISH))
    return int(notes.what_was_done(note).get("rows", 0)) if note is not None else 0


def note_publication(
    pipeline: Pipeline, run_id: str, tables: Iterable[tuple[str, int, int]]
) -> None:
    """Note what was published, by table, version and rows.

    Jobs may clean up the versions that tell of it.
    """
    identity = notes.id_of(pipeline.name, run_id, notes.PUBLISH)
    for name, version, rows in tables:
        with contextlib.suppress(LakerootError):  # It is published, and the history says so too.
            told = {"version": version, "rows": rows}
            notes.note_done(ref_of(pipeline, name), identity, told)
