"""Few changes are found among many rows by another way, which finds the same rows."""

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeroot.metastore.data import inferred
from lakeroot.metastore.data.merge import Rows, codes_among, key_codes, merged
from lakeroot.metastore.data.plan import StepKind

NAN = float("nan")
VALUES: list[tuple[str, list[Any], pa.DataType]] = [
    ("integers", [1, 2, 3, None, -1, 0], pa.int64()),
    ("texts", ["a", "", None, "A", "ä", "a "], pa.string()),
    ("bytes", [b"a", b"", None, b"\0", b"b", b"c"], pa.binary()),
    ("floats", [0.0, -0.0, NAN, None, 1.5, float("inf")], pa.float64()),
    ("switches", [True, False, None, True, False, None], pa.bool_()),
    ("decimals", [decimal.Decimal(n) for n in range(5)] + [None], pa.decimal128(9, 2)),
    ("days", [datetime.date(2020, 1, n) for n in range(1, 6)] + [None], pa.date32()),
    (
        "moments",
        [datetime.datetime(2020, 1, n, tzinfo=datetime.UTC) for n in range(1, 6)] + [None],
        pa.timestamp("us", "UTC"),
    ),
    ("nothing", [None] * 6, pa.null()),
    ("words of a few", ["a", "b", None, "c", "d", "e"], pa.dictionary(pa.int32(), pa.string())),
]


def pairs(codes: Any) -> Any:
    return codes[:, None] == codes[None, :]


@pytest.mark.parametrize(
    ("values", "kind"), [one[1:] for one in VALUES], ids=[v[0] for v in VALUES]
)
@pytest.mark.parametrize("keys", [("k",), ("k", "n"), ("n", "k")])
def test_the_rows_with_a_changed_key_are_the_same_by_both_ways(
    values: list[Any], kind: pa.DataType, keys: tuple[str, ...]
) -> None:
    random = np.random.default_rng(7)
    rows = 60
    chosen = [values[i] for i in random.integers(0, 6, rows)]
    table = pa.table({"k": pa.array(chosen, kind), "n": random.integers(0, 3, rows)})
    spans = [(40, 42), (50, 53)]
    changed = [row for at, end in spans for row in range(at, end)]

    every, few = key_codes(table, keys), codes_among(table, keys, spans)

    is_found = few > 0
    assert is_found[np.isin(every, every[changed])].all()
    assert (pairs(few[is_found]) == pairs(every[is_found])).all()


@pytest.mark.parametrize("kind", [StepKind.UPSERT, StepKind.DELETE])
def test_a_few_changes_of_many_rows_change_those_and_no_others(kind: StepKind) -> None:
    table = pa.table({"id": [*range(100), None], "v": ["old"] * 101})
    change = pa.table({"id": pa.array([7, None, 200], pa.int64()), "v": ["new"] * 3})
    schema = inferred(table, ["id"])

    rows = merged([Rows(StepKind.INSERT, table), Rows(kind, change, ("id",))], schema).to_pylist()

    old = [{"id": n, "v": "old"} for n in range(100) if n != 7]
    new = [{"id": n, "v": "new"} for n in (7, None, 200)]
    assert rows == old + (new if kind is StepKind.UPSERT else [])
