"""Values that Arrow IPC puts at multiples of 8 bytes, and Lance wants at multiples of 16."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lakeroot.tables import rows
from lakeroot.tables.alignment import aligned
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.rows import MergeRule
from tests.tables.conftest import ipc_stream

COUNT = 7
AMOUNTS = pa.array([Decimal(i) for i in range(COUNT)], pa.decimal128(20, 5))
COLUMNS = {
    "decimal128": AMOUNTS,
    "decimal256": AMOUNTS.cast(pa.decimal256(50, 5)),
    "decimal with nulls": pa.array([None, Decimal(1)] * COUNT, pa.decimal128(20, 5)),
    "text view": pa.array(["longer than twelve letters"] * COUNT, pa.string_view()),
    "binary view": pa.array([b"longer than twelve letters"] * COUNT, pa.binary_view()),
    "in a struct": pa.StructArray.from_arrays([AMOUNTS], ["amount"]),
    "in a list": pa.ListArray.from_arrays(pa.array(range(COUNT + 1), pa.int32()), AMOUNTS),
    "in a large list": pa.LargeListArray.from_arrays(pa.array(range(COUNT + 1)), AMOUNTS),
    "in a list of fixed size": pa.FixedSizeListArray.from_arrays(AMOUNTS, 1),
    "in a map": pa.array([[("a", Decimal(1))]] * COUNT, pa.map_(pa.string(), AMOUNTS.type)),
    "int64": pa.array(range(COUNT)),
    "float16": pa.array(range(COUNT), pa.float16()),
    "text": pa.array(["abc"] * COUNT),
    "booleans": pa.array([True, None] * COUNT),
    "no values": pa.nulls(COUNT),
    "dictionary": pa.array(["a", "b"] * COUNT).dictionary_encode(),
    "extension": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"0123456789abcdef"] * COUNT, pa.binary(16))
    ),
}


def moved(data: bytes, places: int) -> pa.Buffer:
    """The same bytes so many places after an address that is good for everything."""
    room = pa.allocate_buffer(len(data) + places)
    memoryview(room).cast("B")[places:] = data
    return room.slice(places)


@pytest.mark.parametrize("places", [0, 1, 4, 8])
@pytest.mark.parametrize("name", COLUMNS)
def test_rows_are_written_wherever_they_lie(name: str, places: int, tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    wanted = pa.table({"value": COLUMNS[name]})

    rows.create(table, moved(ipc_stream(wanted), places))

    written = lance.dataset(table.location).to_table()["value"].cast(COLUMNS[name].type)
    assert written.to_pylist() == COLUMNS[name].to_pylist()


@pytest.mark.parametrize("places", [0, 8])
def test_decimals_are_inserted_and_merged_wherever_they_lie(
    empty: TableHandle, places: int
) -> None:
    sent = moved(ipc_stream(pa.table({"id": range(COUNT), "amount": AMOUNTS})), places)
    rows.create(empty, sent)

    rows.insert(empty, sent)
    rows.merge_insert(empty, sent, MergeRule(on=("id",), when_not_matched_insert_all=True))
    rows.insert(empty, pa.ipc.open_stream(sent))

    assert rows.count_rows(empty) == 3 * COUNT


def crooked(table: pa.Table) -> pa.RecordBatch:
    """A batch with one buffer at least that is good for 8 bytes only."""
    for places in (0, 8):
        [batch] = pa.ipc.open_stream(moved(ipc_stream(table), places))
        if any(one is not None and one.address % 16 for one in batch.column("amount").buffers()):
            return batch
    raise AssertionError


def test_what_lies_well_is_not_copied() -> None:
    batch = crooked(pa.table({"id": range(COUNT), "amount": AMOUNTS}))

    straight = aligned(batch)

    assert straight.equals(batch)
    assert straight.schema == batch.schema
    assert straight.column("id").buffers()[1].address == batch.column("id").buffers()[1].address
    assert straight.column("amount").buffers()[1].address % 16 == 0
    assert aligned(straight) is straight


def test_of_a_slice_only_its_own_rows_are_copied() -> None:
    many = pa.table({"amount": pa.array([Decimal(1)] * 1000, pa.decimal128(20, 5))})

    straight = aligned(crooked(many).slice(500, 10))

    assert straight.column("amount").buffers()[1].size == 160


def test_a_dictionary_that_lies_crooked_is_copied_too() -> None:
    batch = pa.record_batch({"amount": AMOUNTS.dictionary_encode()})
    [sent] = pa.ipc.open_stream(moved(ipc_stream(pa.Table.from_batches([batch])), 4))

    straight = aligned(sent)

    assert straight.equals(batch)
    assert straight.column(0).dictionary.buffers()[1].address % 16 == 0


def test_a_stream_is_aligned_batch_by_batch(empty: TableHandle) -> None:
    batch = crooked(pa.table({"amount": AMOUNTS}))
    rows.create(empty, pa.table({"amount": AMOUNTS}))
    read: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(50):
            read.append(number)
            yield batch

    rows.insert(empty, pa.RecordBatchReader.from_batches(batch.schema, batches()))

    assert read == list(range(50))
    assert rows.count_rows(empty) == 51 * COUNT
