"""Queries of one table: nearest vectors, full text, filters, and the plans Lance makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset
from lance.dataset import LanceScanner

from lakeroot.model.errors import InvalidInputError, TableColumnNotFoundError
from lakeroot.tables import fulltext, ranking
from lakeroot.tables.arrow import ipc_file, translated_reader
from lakeroot.tables.expressions import check_shown_name, whole, whole_or_none
from lakeroot.tables.handle import TableHandle, working_on
from lakeroot.tables.ranking import ROW_ID, SCORE

QUERY_INDEX: Final = "query_index"
_DOING: Final = "Querying the table"
_MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Query:
    """What to find in a table. The fields are those of the specification's QueryTable request.

    With `vector`, rows come nearest first. With several `vectors` there are `k` rows for each, and
    the column ``query_index`` tells whose they are; on a column of multivectors they are one query.
    With `full_text`, the best matches come first; with neither, rows come in the table's order.
    """

    k: int
    vector: Sequence[float] = ()
    vectors: Sequence[Sequence[float]] = ()
    vector_column: str | None = None
    full_text: str | Mapping[str, Any] | None = None
    full_text_columns: Sequence[str] | None = None
    filter: str | None = None
    prefilter: bool = False
    offset: int = 0
    columns: Sequence[str] | Mapping[str, str] | None = None
    with_row_id: bool = False
    version: int | None = None
    tag: str | None = None
    branch: str | None = None
    distance_type: str | None = None
    lower_bound: float | None = None
    upper_bound: float | None = None
    nprobes: int | None = None
    minimum_nprobes: int | None = None
    maximum_nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None
    bypass_vector_index: bool = False
    fast_search: bool = False

    def __post_init__(self) -> None:
        if self.k < 0 or self.offset < 0:
            raise InvalidInputError("A query returns no fewer than 0 rows and skips none backwards")
        if self.vector and self.vectors:
            raise InvalidInputError("A query has one vector or several, not both")
        if len({len(one) for one in self.vectors}) > 1 or any(not one for one in self.vectors):
            raise InvalidInputError(
                "The vectors of a query have no numbers, or not equally many",
                fix="Give vectors as long as those of the column",
            )
        if self.full_text is not None and self.is_vector_search:
            raise InvalidInputError(
                "A query searches by vector or by full text, not by both",
                fix="Ask twice and merge the answers",
            )

    @property
    def is_vector_search(self) -> bool:
        """Tell whether the query looks for the nearest vectors."""
        return bool(self.vector) or bool(self.vectors)


def query(handle: TableHandle, wanted: Query) -> pa.RecordBatchReader:
    """Run a query and stream its rows."""
    with working_on(handle, _DOING) as table:
        dataset = table.open(version=wanted.version, tag=wanted.tag, branch=wanted.branch)
        if wanted.k == 0:
            return _scanner(dataset, _at_least_one(wanted)).to_table().slice(0, 0).to_reader()
        if _is_batch(dataset, wanted) and wanted.offset:
            return _skip_in_each(_scanner(dataset, wanted).to_table(), wanted).to_reader()
        if wanted.full_text is not None and not _hides_row_ids(wanted):
            return translated_reader(_text_rows(dataset, wanted), _DOING)
        return translated_reader(_scanner(dataset, wanted).to_reader(), _DOING)


def query_ipc(handle: TableHandle, wanted: Query) -> bytes:
    """Run a query and give its rows as the bytes of an Arrow IPC file."""
    reader = query(handle, wanted)
    with working_on(handle, _DOING):
        return ipc_file(reader)


def explain(handle: TableHandle, wanted: Query, *, verbose: bool = False) -> str:
    """Show the plan of a query, without running it."""
    with working_on(handle, "Explaining the query") as table:
        dataset = table.open(version=wanted.version, tag=wanted.tag, branch=wanted.branch)
        return str(_scanner(dataset, _at_least_one(wanted)).explain_plan(verbose))


def analyze(handle: TableHandle, wanted: Query) -> str:
    """Run a query and show its plan with what every step cost."""
    with working_on(handle, "Analyzing the query") as table:
        dataset = table.open(version=wanted.version, tag=wanted.tag, branch=wanted.branch)
        return str(_scanner(dataset, _at_least_one(wanted)).analyze_plan())


def _at_least_one(wanted: Query) -> Query:
    """Lance panics when a search may find nothing, so nothing is cut from one."""
    return wanted if wanted.k else replace(wanted, k=1)


def _scanner(dataset: LanceDataset, wanted: Query) -> LanceScanner:
    columns = _columns(wanted)
    options: dict[str, Any] = {
        "filter": whole_or_none(wanted.filter),
        "with_row_id": wanted.with_row_id,
        "columns": columns,
    }
    if not _is_batch(dataset, wanted):
        options |= {"limit": min(wanted.k, _MOST), "offset": min(wanted.offset, _MOST) or None}
    if wanted.is_vector_search:
        options |= {"prefilter": wanted.prefilter, "nearest": _nearest(dataset, wanted)}
        options |= _scored(columns, "_distance")
    if wanted.full_text is not None:
        options |= {"prefilter": wanted.prefilter, "full_text_query": _text(dataset, wanted)}
        options |= _scored(columns, SCORE)
    if wanted.fast_search:
        options["fast_search"] = True
    scanner = dataset.scanner(**options)
    if isinstance(columns, Mapping):
        # What an expression makes cannot always be handed out, and then Lance ends the process.
        _ = scanner.projected_schema
    return scanner


def _columns(wanted: Query) -> Sequence[str] | Mapping[str, str] | None:
    if not isinstance(wanted.columns, Mapping):
        return wanted.columns
    for name in wanted.columns:
        check_shown_name(name)
    return {name: whole(expression) for name, expression in wanted.columns.items()}


def _scored(columns: Sequence[str] | Mapping[str, str] | None, score: str) -> dict[str, Any]:
    """Ask for the distance or score by name: Lance means to stop adding it unasked."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        chosen: Any = {**columns, score: score} if score not in columns else dict(columns)
    else:
        chosen = [*columns, score] if score not in columns else list(columns)
    return {"columns": chosen, "disable_scoring_autoprojection": True}


def _nearest(dataset: LanceDataset, wanted: Query) -> dict[str, Any]:
    exact = wanted.minimum_nprobes is None and wanted.maximum_nprobes is None
    # Skipped rows are found too. Lance makes room for as many as it is asked for, whatever there
    # is, and ends the process if there is no such room: so it is never asked for more than all.
    rows = dataset.count_rows()
    k = max(1, min(wanted.k + wanted.offset, rows))
    refine_factor = wanted.refine_factor or None
    if refine_factor is not None:
        refine_factor = min(refine_factor, -(-rows // k) or 1)
    ef = wanted.ef or None
    if ef is not None:
        ef = min(ef, max(rows, k * (refine_factor or 1)))
    nearest: dict[str, Any] = {
        "column": _vector_column(dataset, wanted),
        "q": [list(one) for one in wanted.vectors] if wanted.vectors else list(wanted.vector),
        "k": k,
        "metric": wanted.distance_type.lower() if wanted.distance_type else None,
        "nprobes": (wanted.nprobes or None) if exact else None,
        "minimum_nprobes": wanted.minimum_nprobes,
        "maximum_nprobes": wanted.maximum_nprobes,
        "refine_factor": refine_factor,
        "ef": ef,
        "use_index": not wanted.bypass_vector_index,
    }
    if wanted.lower_bound is not None or wanted.upper_bound is not None:
        nearest["distance_range"] = (wanted.lower_bound, wanted.upper_bound)
    return nearest


def _vector_column(dataset: LanceDataset, wanted: Query) -> str:
    """Name the column to search: the one asked for, ``vector``, or the only one there is."""
    if wanted.vector_column is not None:
        return wanted.vector_column
    found: list[str] = [field.name for field in dataset.schema if _is_vector(field.type)]
    if "vector" in found:
        return "vector"
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInputError(
            f"The table has several vector columns: {', '.join(found)}",
            fix="Say which one to search as vector_column",
        )
    raise TableColumnNotFoundError("The table has no vector column to search")


def _is_vector(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.ExtensionType):
        kind = kind.storage_type
    return bool(pa.types.is_fixed_size_list(kind)) or _is_multivector(kind)


def _is_multivector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) and pa.types.is_fixed_size_list(kind.value_type))


def _is_batch(dataset: LanceDataset, wanted: Query) -> bool:
    """Tell whether the vectors are separate queries rather than one multivector."""
    if not wanted.vectors:
        return False
    field = dataset.lance_schema.field_case_insensitive(_vector_column(dataset, wanted))
    return field is None or not _is_multivector(field.to_arrow().type)


def _skip_in_each(found: pa.Table, wanted: Query) -> pa.Table:
    """Apply the offset to every query of a batch, not to all of them together."""
    pages = [
        found.filter(pc.equal(found[QUERY_INDEX], index)).slice(wanted.offset, wanted.k)
        for index in range(len(wanted.vectors))
    ]
    return pa.concat_tables(pages)


def _text_rows(dataset: LanceDataset, wanted: Query) -> pa.RecordBatchReader:
    ranked, limit = _ranked(dataset, wanted)
    plain = _scanner(dataset, wanted)
    if not ranked.num_rows:
        return plain.to_table().slice(0, 0).to_reader()
    names = plain.projected_schema.names

    def read(row_ids: list[int]) -> pa.Table:
        chosen = f"{ROW_ID} IN ({', '.join(map(str, row_ids))})"
        columns: Any = _columns(wanted)
        if not isinstance(columns, Mapping | None):
            columns = [name for name in columns if name != SCORE]
        return dataset.scanner(columns=columns, filter=chosen, with_row_id=True).to_table()

    if _computes_with_score(wanted):
        # Only the search itself knows the scores, so every hit up to the last is read.
        hits = replace(_as_hits(wanted), k=limit, columns=wanted.columns)
        found = _scanner(dataset, hits).to_table()
        return ranking.in_order(found, ranked).select(names).to_reader()
    parts = ranking.rows_of(ranked, names, read)
    first = next(parts)
    batches = (batch for part in chain([first], parts) for batch in part.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, batches)


def _ranked(dataset: LanceDataset, wanted: Query) -> tuple[pa.Table, int]:
    """Rank the hits of a page; tell how many hits Lance must find to have all these."""
    ids = _as_hits(wanted)

    def hits(limit: int) -> pa.Table:
        return _scanner(dataset, replace(ids, k=limit)).to_table()

    ranked, limit = ranking.best(hits, min(wanted.k + wanted.offset, dataset.count_rows()))
    if wanted.filter and not wanted.prefilter:
        # Asked for last, a filter keeps some of the best hits, and does not look for others.
        kept = _scanner(dataset, replace(ids, k=limit, filter=wanted.filter)).to_table()
        ranked = ranked.filter(pc.is_in(ranked[ROW_ID], kept[ROW_ID].combine_chunks()))
    return ranked.slice(wanted.offset, wanted.k), limit


def _as_hits(wanted: Query) -> Query:
    """Ask for the ids and scores of all the hits from the first."""
    kept = wanted.filter if wanted.prefilter else None
    return replace(wanted, offset=0, columns=[SCORE], with_row_id=True, filter=kept)


def _hides_row_ids(wanted: Query) -> bool:
    """Tell whether another column takes the name of the row ids, without which none are ranked."""
    return isinstance(wanted.columns, Mapping) and ROW_ID in wanted.columns


def _computes_with_score(wanted: Query) -> bool:
    if not isinstance(wanted.columns, Mapping):
        return False
    return any(SCORE in text for pair in wanted.columns.items() for text in pair)


def _text(dataset: LanceDataset, wanted: Query) -> Any:
    if isinstance(wanted.full_text, str):
        columns = list(wanted.full_text_columns) if wanted.full_text_columns else None
        return {"query": wanted.full_text, "columns": columns}
    indexed = sorted(
        {
            name
            for index in dataset.describe_indices()
            if index.index_type == "Inverted"
            for name in index.field_names
        }
    )
    return fulltext.structured(wanted.full_text or {}, indexed)
