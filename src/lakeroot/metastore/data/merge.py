"""Carrying out a plan with Arrow: inserts, upserts and deletes in one pass over columns.

Keys of all steps are turned into integer codes once; the rest is arithmetic on arrays of row
numbers. Null is a key like any other and differs from an empty text.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeroot.metastore.data.plan import StepKind
from lakeroot.metastore.schemas import Field, Schema, default_scalar

_FEW: Final = 4
"""Changes are few if the rows are so many times as many."""

_OPPOSITE: Final = {"ascending": "descending", "descending": "ascending"}


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a step. Of a delete only the keys count; an upsert may lack columns."""

    kind: StepKind
    table: Any
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None


def merged(steps: Sequence[Rows], schema: Schema) -> Any:
    """Apply steps in order and give the rows that are left, with the columns of the schema."""
    cut = _first_on_inherited(steps)
    if cut is not None:
        before = Rows(StepKind.INSERT, merged(steps[:cut], schema))
        return merged([before, *steps[cut:]], schema)
    if all(step.kind is StepKind.INSERT for step in steps):
        return pa.concat_tables([_fitted(step.table, schema) for step in steps] or [_empty(schema)])
    whole = pa.concat_tables([_fitted(step.table, schema) for step in steps])
    return _Merge(steps, whole, schema).result()


def _first_on_inherited(steps: Sequence[Rows]) -> int | None:
    """Find a step that matches on a column which an upsert before it takes from older rows."""
    partial = [set(step.columns) for step in steps if step.columns is not None]
    if not partial:
        return None
    brought = set.intersection(*partial)
    first = next(number for number, step in enumerate(steps) if step.columns is not None)
    later = (number for number in range(first + 1, len(steps)) if set(steps[number].keys) - brought)
    return next(later, None)


class _Merge:
    """The state of one merge, as arrays by row number and by key code."""

    def __init__(self, steps: Sequence[Rows], whole: Any, schema: Schema) -> None:
        self._steps = steps
        self._whole = whole
        self._schema = schema
        self._bounds = np.cumsum([0, *(step.table.num_rows for step in steps)])
        self._step_of = np.repeat(np.arange(len(steps)), np.diff(self._bounds))
        key_sets = dict.fromkeys(s.keys for s in steps if s.kind is not StepKind.INSERT)
        self._codes = {keys: self._codes_of(keys) for keys in key_sets}
        # Per key: the last step that removed or replaced its rows, and its newest row.
        self._killed = {keys: _by_code(codes) for keys, codes in self._codes.items()}
        self._newest = {keys: _by_code(codes) for keys, codes in self._codes.items()}
        self._beaten = np.zeros(whole.num_rows, dtype=bool)
        self._sources: dict[str, Any] = {}

    def result(self) -> Any:
        """Carry out the steps and give the rows that are left."""
        for number, step in enumerate(self._steps):
            rows = np.arange(self._bounds[number], self._bounds[number + 1])
            if step.kind is StepKind.DELETE:
                self._killed[step.keys][self._codes[step.keys][rows]] = number
                self._beaten[rows] = True
                continue
            if step.kind is StepKind.UPSERT:
                rows = self._upsert(number, step, rows)
            for keys, codes in self._codes.items():
                self._newest[keys][codes[rows]] = rows
        everything = np.arange(self._whole.num_rows)
        kept = everything[self._is_alive(everything)]
        return _taken(self._whole, kept, self._sources, self._schema)

    def _codes_of(self, keys: tuple[str, ...]) -> Any:
        spans = [
            (int(self._bounds[number]), int(self._bounds[number + 1]))
            for number, step in enumerate(self._steps)
            if step.kind is not StepKind.INSERT and step.keys == keys
        ]
        if _FEW * sum(end - start for start, end in spans) > self._whole.num_rows:
            return key_codes(self._whole, keys)
        return codes_among(self._whole, keys, spans)

    def _upsert(self, number: int, step: Rows, rows: Any) -> Any:
        codes = self._codes[step.keys]
        winners = rows[surviving(step.table, step.keys, self._schema, codes[rows])]
        self._beaten[np.setdiff1d(rows, winners, assume_unique=True)] = True
        self._inherit(step, winners, self._newest[step.keys][codes[winners]])
        self._killed[step.keys][codes[winners]] = number
        return winners

    def _inherit(self, step: Rows, rows: Any, before: Any) -> None:
        # A column that a partial upsert does not bring is taken from where the row before has it.
        if step.columns is None:
            return
        known = before >= 0
        known[known] = self._is_alive(before[known])
        for name in set(self._schema.arrow.names) - set(step.columns):
            size = self._whole.num_rows
            source = self._sources.setdefault(name, np.arange(size, dtype=np.int64))
            source[rows[known]] = source[before[known]]

    def _is_alive(self, rows: Any) -> Any:
        alive = ~self._beaten[rows]
        for keys, codes in self._codes.items():
            alive &= self._killed[keys][codes[rows]] <= self._step_of[rows]
        return alive


def _by_code(codes: Any) -> Any:
    return np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)


def surviving(table: Any, keys: tuple[str, ...], schema: Schema, codes: Any | None = None) -> Any:
    """Give the numbers of the rows that stay of a batch with several rows for one key.

    The merge order decides, then the latest event time, then the last row.
    """
    codes = key_codes(table, keys) if codes is None else codes
    order = np.arange(table.num_rows)
    ranking = _ranking(table, schema)
    if ranking:
        order = pc.sort_indices(table, sort_keys=ranking).to_numpy()
    # The last row of each code in this order: the first one in the reverse of it.
    backwards = order[::-1]
    _, first = np.unique(codes[backwards], return_index=True)
    return np.sort(backwards[first])


def _ranking(table: Any, schema: Schema) -> list[tuple[str, str, str]]:
    # Best last. Ascending merge order keeps the smallest, so it is sorted the other way round.
    present = [field for field in schema.fields if field.name in table.column_names]
    orders = [(field.name, field.merge_order[0]) for field in present if field.merge_order]
    events = [(field.name, "ascending", "at_start") for field in present if field.is_event_time]
    return [(name, _OPPOSITE[order], "at_start") for name, order in orders] + events


def key_codes(table: Any, keys: Sequence[str]) -> Any:
    """Give each row a number such that rows have the same number if and only if keys are equal."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in keys:
        column = _column_codes(table[name])
        codes = codes * (int(column.max(initial=0)) + 1) + column
        if len(keys) > 1:
            _, codes = np.unique(codes, return_inverse=True)
    return codes


def codes_among(table: Any, keys: Sequence[str], spans: Sequence[tuple[int, int]]) -> Any:
    """Give rows whose key may be one of those in some spans of rows a number by it; others zero.

    For a few changes of many rows this is several times as fast as to give every row its number.
    """
    meant, codes = np.arange(table.num_rows), np.zeros(table.num_rows, dtype=np.int64)
    for name in keys:
        column = _in_one(table[name])
        wanted = pc.unique(pa.concat_arrays([column.slice(at, end - at) for at, end in spans]))
        if len(meant) < table.num_rows:
            column = column.take(pa.array(meant))
        found = np.asarray(pc.fill_null(pc.index_in(column, value_set=wanted), -1), np.int64)
        is_meant = found >= 0
        meant, codes = meant[is_meant], codes[is_meant] * len(wanted) + found[is_meant]
        if len(keys) > 1:
            _, codes = np.unique(codes, return_inverse=True)
    numbers = np.zeros(table.num_rows, dtype=np.int64)
    numbers[meant] = codes + 1
    return numbers


def _column_codes(column: Any) -> Any:
    encoded = pc.dictionary_encode(_in_one(column), null_encoding="mask")
    indices = pc.fill_null(encoded.indices, len(encoded.dictionary))
    return np.asarray(indices, dtype=np.int64)


def _in_one(column: Any) -> Any:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    # Arrow does not look for values of a dictionary among others.
    whole = whole.dictionary_decode() if pa.types.is_dictionary(whole.type) else whole
    if not pa.types.is_floating(whole.type):
        return whole
    # Arrow compares bits, and there are many of what is not a number: people know one.
    return pc.if_else(pc.is_nan(whole), pa.scalar(math.nan, whole.type), whole)


def _fitted(table: Any, schema: Schema) -> Any:
    columns = [
        table[field.name] if field.name in table.column_names else _default(field, table.num_rows)
        for field in schema.fields
    ]
    fields = [field.arrow.with_nullable(True) for field in schema.fields]  # noqa: FBT003
    return pa.table(columns, schema=pa.schema(fields, metadata=schema.arrow.metadata))


def _default(field: Field, count: int) -> Any:
    value, kind = field.future_default, field.arrow.type
    return pa.nulls(count, kind) if value is None else pa.repeat(default_scalar(value, kind), count)


def _empty(schema: Schema) -> Any:
    return schema.arrow.empty_table()


def _taken(whole: Any, rows: Any, sources: dict[str, Any], schema: Schema) -> Any:
    table = whole.take(pa.array(rows))
    for name, source in sources.items():
        place = table.schema.get_field_index(name)
        values = whole[name].take(pa.array(source[rows]))
        table = table.set_column(place, table.schema.field(place), values)
    return table.cast(schema.arrow)
