"""Which rows a change means: values that look different and are one, and the other way round."""

import decimal
import math
from typing import Any

import pyarrow as pa
import pytest

from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data import WidenField
from lakeroot.metastore.schemes import PartitionKey, PartitionScheme, Transform
from lakeroot.model.errors import InvalidInputError, TableSchemaValidationError

from .test_rows import KEYED, NO_MERGE, change, row, rows, table_in

LEVELS = pytest.mark.parametrize("properties", [NO_MERGE, {}], ids=["on read", "on write"])


def by(column: str, transform: str = "identity", **parameters: Any) -> PartitionScheme:
    key = PartitionKey((column,), Transform(transform, parameters or None))
    return PartitionScheme((key,), "by", "by")


@LEVELS
def test_a_delete_sees_what_a_partial_upsert_took_from_the_row_before(
    metastore: Metastore, properties: dict[str, Any]
) -> None:
    table_in(metastore, KEYED, properties=properties)
    change(metastore, "upsert", [row(1, "x", 16), row(2, "x", 17), row(3, "x", None)])
    change(metastore, "upsert", [{"a": 1, "b": "x", "w": "new"}])
    change(metastore, "delete", [{"v": None}], on="v")
    assert rows(metastore) == [row(2, "x", 17), row(1, "x", 16, "new")] or rows(metastore) == [
        row(1, "x", 16, "new"),
        row(2, "x", 17),
    ]
    change(metastore, "upsert", [{"a": 2, "b": "x", "w": "newer"}])
    change(metastore, "delete", [{"v": 16}], on="v")

    assert rows(metastore) == [row(2, "x", 17, "newer")]


@LEVELS
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("ns"), [1000, 1001, 1002]),
        (pa.time64("ns"), [1000, 1001, 1002]),
        (pa.float64(), [math.nan, -math.nan, 1.0]),
    ],
    ids=str,
)
def test_rows_of_one_partition_stay_together_however_their_values_differ(
    metastore: Metastore, properties: dict[str, Any], kind: Any, values: list[Any]
) -> None:
    arrow = pa.schema([("p", kind), ("k", pa.int64())])
    schema = schema_of(arrow, merge_keys=["k"])
    table_in(metastore, schema, partition_scheme=by("p"), properties=properties)
    given = pa.table([pa.array(values, kind), pa.array([1, 2, 3], pa.int64())], schema=arrow)
    change(metastore, "upsert", given)
    assert sorted(one["k"] for one in rows(metastore)) == [1, 2, 3]
    change(metastore, "delete", given.slice(0, 2))

    assert [one["k"] for one in rows(metastore)] == [3]


@LEVELS
def test_whatever_is_no_number_is_the_same(
    metastore: Metastore, properties: dict[str, Any]
) -> None:
    table_in(metastore, schema_of(pa.schema([("f", pa.float64())])), properties=properties)
    zero = math.inf - math.inf
    change(metastore, "append", [{"f": f} for f in (math.nan, -math.nan, zero, -zero, 1.0)])
    change(metastore, "delete", [{"f": math.nan}], on="f")

    assert rows(metastore) == [{"f": 1.0}]


def prices(kind: Any, *values: str | None) -> Any:
    return pa.array([None if value is None else decimal.Decimal(value) for value in values], kind)


@LEVELS
@pytest.mark.parametrize(
    ("values", "others"),
    [
        (pa.array([1, None, 7], pa.int32()), pa.array([1.0, 1.5, None, math.nan, 1e300])),
        (pa.array([1, None, 7], pa.int32()), pa.array([1, None, 2**40])),
        (
            prices(pa.decimal128(10, 2), "1", None, "7"),
            prices(pa.decimal128(12, 3), "1", None, "1.105"),
        ),
        (
            pa.array([1, None, 7], pa.timestamp("us")),
            pa.array([1000, 1001, None], pa.timestamp("ns")),
        ),
    ],
    ids=["fractions", "large numbers", "decimals", "moments"],
)
def test_a_delete_leaves_the_types_of_columns_as_they_are(
    metastore: Metastore, properties: dict[str, Any], values: Any, others: Any
) -> None:
    schema = schema_of(pa.schema([("v", values.type), ("n", pa.int64())]))
    table_in(metastore, schema, properties=properties)
    change(metastore, "append", pa.table({"v": values, "n": [1, 2, 3]}))
    change(metastore, "delete", pa.table({"v": others.slice(0, 0)}), on="v")
    change(metastore, "delete", pa.table({"v": others}), on="v")

    found = metastore.view().table_version("n", "t").schema
    assert found is not None
    assert found.arrow.field("v").type == values.type
    assert [one["n"] for one in rows(metastore)] == [3]


def test_rows_are_not_matched_on_what_cannot_be_compared(metastore: Metastore) -> None:
    table_in(metastore, schema_of(pa.schema([("s", pa.struct([("x", pa.int64())]))])))
    change(metastore, "append", [{"s": {"x": 1}}])

    with pytest.raises(InvalidInputError, match="matched on the column 's'"):
        change(metastore, "delete", [{"s": {"x": 1}}], on="s")


def test_a_column_that_places_rows_keeps_its_type(metastore: Metastore) -> None:
    arrow = pa.schema([("k", pa.decimal128(10, 2)), ("n", pa.int32())])
    table_in(metastore, schema_of(arrow, merge_keys=["k"]), partition_scheme=by("k"))
    table_in(metastore, schema_of(arrow), "numbers", partition_scheme=by("n"))
    wider = pa.decimal128(12, 3)

    with pytest.raises(TableSchemaValidationError, match="partitioned by it"):
        change(metastore, "evolve", [WidenField("k", wider)])
    table_in(metastore, schema_of(arrow), "prices", partition_scheme=by("k"))
    with pytest.raises(TableSchemaValidationError, match="partitioned by it"):
        change(metastore, "append", pa.table({"k": pa.array([1], wider)}), name="prices")
    change(metastore, "append", pa.table({"n": pa.array([1], pa.int32())}), name="numbers")
    change(metastore, "append", pa.table({"n": pa.array([2**40])}), name="numbers")
    change(metastore, "delete", [{"n": 1}], on="n", name="numbers")

    assert [one["n"] for one in rows(metastore, "numbers")] == [2**40]
