"""Rows are written, changed, merged and compacted right, compared with a model in plain Python."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeroot.metastore import Metastore, Schema, schema_of
from lakeroot.metastore.data import TableWriter, files, read_rows
from lakeroot.metastore.data.encoding import encoded
from lakeroot.metastore.data.merge import Rows, merged
from lakeroot.metastore.data.plan import StepKind
from lakeroot.model.errors import (
    InvalidInputError,
    ServiceUnavailableError,
    TableSchemaValidationError,
)

from .memory import MemoryObjects

ARROW = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.int64()), ("w", pa.string())])
KEYED = schema_of(ARROW, merge_keys=["a", "b"])
PLAIN = schema_of(ARROW)
NO_MERGE = {"read_optimization_level": "none"}


def table_in(metastore: Metastore, schema: Schema, name: str = "t", **options: Any) -> None:
    with metastore.transaction() as txn:
        if txn.find_namespace("n") is None:
            txn.create_namespace("n")
        txn.create_table("n", name, schema=schema, **options)


def change(metastore: Metastore, verb: str, *arguments: Any, name: str = "t", **named: Any) -> Any:
    with metastore.transaction() as txn:
        return getattr(TableWriter(txn, "n", name), verb)(*arguments, **named)


def rows(metastore: Metastore, name: str = "t", **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_rows(metastore.view(), "n", name, **options).to_pylist()
    return found


def row(a: int | None, b: str | None, v: int | None = None, w: str | None = None) -> dict[str, Any]:
    return {"a": a, "b": b, "v": v, "w": w}


keys = st.tuples(st.none() | st.integers(0, 3), st.sampled_from([None, "", "x"]))
full_rows = st.lists(
    st.builds(
        lambda k, v, w: row(k[0], k[1], v, w), keys, st.integers(0, 99), st.sampled_from("pqr")
    ),
    max_size=6,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), full_rows),
        st.tuples(st.just("partial"), full_rows),
        st.tuples(st.just("delete"), full_rows),
        st.tuples(st.just("delete by b"), full_rows),
    ),
    max_size=7,
)


def model(history: list[tuple[str, list[dict[str, Any]]]]) -> dict[Any, dict[str, Any]]:
    state: dict[Any, dict[str, Any]] = {}
    for verb, batch in history:
        for one in batch:
            key = (one["a"], one["b"])
            if verb == "upsert":
                state[key] = one
            elif verb == "partial":
                # The columns come in another order, and one of them is left out.
                state[key] = {**state.get(key, row(*key)), "v": one["v"]}
            elif verb == "delete":
                state.pop(key, None)
            else:
                state = {k: found for k, found in state.items() if k[1] != one["b"]}
    return state


def carry_out(metastore: Metastore, name: str, verb: str, batch: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(batch, schema=ARROW)
    match verb:
        case "upsert":
            change(metastore, "upsert", table, name=name)
        case "partial":
            change(metastore, "upsert", table.select(["v", "b", "a"]), name=name)
        case "delete":
            change(metastore, "delete", table, name=name)
        case _:
            change(metastore, "delete", table, on=["b"], name=name)


def by_key(found: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    state = {(one["a"], one["b"]): one for one in found}
    assert len(state) == len(found), "a key has two rows"
    return state


@given(steps)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_merge_on_read_copy_on_write_and_compaction_agree_with_the_model(
    history: list[tuple[str, list[dict[str, Any]]]],
) -> None:
    metastore = Metastore(MemoryObjects())
    table_in(metastore, KEYED, "on read", properties=NO_MERGE)
    table_in(metastore, KEYED, "on write")
    table_in(metastore, KEYED, "in small files", properties={"records_per_compacted_file": 2})
    for verb, batch in history:
        for name in ("on read", "on write", "in small files"):
            carry_out(metastore, name, verb, batch)
    expected = model(history)

    assert by_key(rows(metastore, "on read")) == expected
    assert by_key(rows(metastore, "on write")) == expected
    assert by_key(rows(metastore, "in small files")) == expected
    change(metastore, "compact", name="on read")
    assert by_key(rows(metastore, "on read")) == expected


def test_a_composite_key_deletes_only_whole_matches(metastore: Metastore) -> None:
    table_in(metastore, KEYED)
    change(metastore, "upsert", [row(1, "x", 1), row(1, "y", 2), row(2, "x", 3), row(2, "y", 4)])
    change(metastore, "delete", [{"a": 1, "b": "y"}, {"a": 2, "b": "x"}])

    assert [(one["a"], one["b"]) for one in rows(metastore)] == [(1, "x"), (2, "y")]


def test_null_and_empty_are_different_keys(metastore: Metastore) -> None:
    table_in(metastore, KEYED)
    change(metastore, "upsert", [row(1, "", 1), row(1, None, 2)])
    change(metastore, "delete", pa.table({"a": [1], "b": pa.array([None], pa.string())}))

    assert rows(metastore) == [row(1, "", 1)]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"merge_order": {"v": "ascending"}}, 1),
        ({"merge_order": {"v": "descending"}}, 9),
        ({"event_time": "v"}, 9),
        ({}, 5),
    ],
)
def test_a_batch_with_one_key_twice_keeps_the_right_row(
    metastore: Metastore, options: dict[str, Any], kept: int
) -> None:
    table_in(metastore, schema_of(ARROW, merge_keys=["a", "b"], **options))
    change(metastore, "upsert", [row(1, "x", 9), row(1, "x", 1), row(1, "x", 5)])

    assert [one["v"] for one in rows(metastore)] == [kept]


def test_merge_keys_are_found_by_name_whatever_their_ids(metastore: Metastore) -> None:
    fields = [
        pa.field("w", pa.string(), metadata={b"PARQUET:field_id": b"7"}),
        pa.field("k", pa.int64(), metadata={b"PARQUET:field_id": b"90"}),
    ]
    table_in(metastore, schema_of(pa.schema(fields), merge_keys=["k"]))
    change(metastore, "upsert", [{"k": 1, "w": "a"}, {"k": 2, "w": "b"}])
    change(metastore, "upsert", [{"k": 2, "w": "c"}])

    assert sorted(one["w"] for one in rows(metastore)) == ["a", "c"]


def test_appends_adds_replacement_and_truncation(metastore: Metastore) -> None:
    table_in(metastore, PLAIN)
    assert rows(metastore) == []
    change(metastore, "append", [row(1, "x")])
    change(metastore, "add", [row(2, "y")])
    change(metastore, "append", [row(1, "x")])
    assert [one["a"] for one in rows(metastore)] == [1, 1, 2]
    change(metastore, "delete", [row(2, "y")], on=["a"])
    assert [one["a"] for one in rows(metastore)] == [1, 1]
    change(metastore, "replace", [row(7, "z")])
    assert [one["a"] for one in rows(metastore)] == [7]
    change(metastore, "truncate")
    assert rows(metastore) == []
    change(metastore, "append", [row(8, "z")])
    assert [one["a"] for one in rows(metastore, columns=["a"])] == [8]


def test_writing_no_rows_is_no_problem(metastore: Metastore) -> None:
    table_in(metastore, KEYED)
    for verb in ("upsert", "delete", "replace"):
        change(metastore, verb, ARROW.empty_table())
    assert rows(metastore) == []


def test_a_table_with_merge_keys_is_not_appended_to(metastore: Metastore) -> None:
    table_in(metastore, KEYED)
    table_in(metastore, PLAIN, "plain")
    with pytest.raises(InvalidInputError, match="Upsert"):
        change(metastore, "append", [row(1, "x")])
    with pytest.raises(InvalidInputError, match="no merge keys"):
        change(metastore, "upsert", [row(1, "x")], name="plain")
    with pytest.raises(InvalidInputError, match="merge key 'b' is missing"):
        change(metastore, "upsert", [{"a": 1}])
    with pytest.raises(InvalidInputError, match="no column 'zz'"):
        change(metastore, "delete", [{"zz": 1}], on=["zz"], name="plain")
    with pytest.raises(InvalidInputError, match="cannot be read from"):
        change(metastore, "append", 3, name="plain")


def test_a_failed_write_leaves_nothing_behind(metastore: Metastore, objects: MemoryObjects) -> None:
    table_in(metastore, PLAIN)
    change(metastore, "append", [row(1, "x")])
    before = set(objects.held)
    with pytest.raises(TableSchemaValidationError), metastore.transaction() as txn:
        _append_then_fail(txn)

    assert set(objects.held) == before


def _append_then_fail(txn: Any) -> None:
    writer = TableWriter(txn, "n", "t")
    writer.append([row(2, "x")])
    raise TableSchemaValidationError("enough")


def test_a_large_result_is_split_into_files(metastore: Metastore) -> None:
    table_in(metastore, KEYED, properties={"records_per_compacted_file": 10})
    change(metastore, "upsert", [row(n, "x", n) for n in range(35)])
    view = metastore.view()
    partition = view.partitions(view.stream("n", "t"))[0]
    manifest = view.deltas(partition)[0].manifest

    assert manifest is not None
    assert [entry.meta.record_count for entry in manifest.entries] == [10, 10, 10, 5]
    assert manifest.meta.record_count == 35
    assert len(rows(metastore)) == 35


def test_compacting_twice_writes_once(metastore: Metastore) -> None:
    table_in(metastore, PLAIN, properties={"records_per_compacted_file": 10})
    for start in (0, 15, 30):
        change(metastore, "append", [row(n, "x") for n in range(start, start + 15)])
    change(metastore, "compact")
    view = metastore.view()
    compacted = view.partitions(view.stream("n", "t"))
    change(metastore, "compact")

    assert metastore.view().partitions(view.stream("n", "t")) == compacted
    assert [one["a"] for one in rows(metastore)] == list(range(45))


def test_a_large_append_is_written_as_several_files_in_order(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROWS_WORTH_A_FILE", 100)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 1.0, 1.0))
    table_in(metastore, PLAIN)
    deltas = change(metastore, "append", [row(n, f"{n}") for n in range(1000)])

    counts = [entry.meta.record_count for entry in deltas[0].manifest.entries]
    assert counts == [334, 334, 332]
    assert [one["a"] for one in rows(metastore)] == list(range(1000))


def test_a_failed_file_among_several_leaves_none_behind(
    metastore: Metastore, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROWS_WORTH_A_FILE", 10)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    table_in(metastore, PLAIN)
    before, put = set(objects.held), objects.put

    def full(path: str, data: bytes, **options: Any) -> None:
        if path.startswith("data/") and path.endswith("1.pq"):
            raise ServiceUnavailableError("The disk is full")
        put(path, data, **options)

    monkeypatch.setattr(objects, "put", full)
    with pytest.raises(ServiceUnavailableError):
        change(metastore, "append", [row(n, "x") for n in range(100)])

    assert set(objects.held) == before
    assert rows(metastore) == []


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_rows_survive_whatever_encoding_suits_them(count: int) -> None:
    numbers = range(count)
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "few": pa.array([n % 3 for n in numbers], pa.int32()),
            "wild": pa.array([n * 2**62 // 3 % 2**64 for n in numbers], pa.uint64()),
            "gaps": pa.array([None if n % 3 else n for n in numbers], pa.int16()),
            "text": pa.array([f"{n * 7919 % 5003}" for n in numbers], pa.string()),
            "day": pa.array([f"2026-{n:08}" for n in numbers], pa.string()),
            "a.b": pa.array([[n] for n in numbers], pa.list_(pa.int64())),
        }
    )
    assert pq.read_table(pa.BufferReader(encoded(table))).equals(table)


def test_what_was_read_can_be_read_again_later(metastore: Metastore) -> None:
    table_in(metastore, KEYED)
    change(metastore, "upsert", [row(1, "x", 1)])
    moment = next(metastore.transactions()).id
    change(metastore, "upsert", [row(1, "x", 2)])
    change(metastore, "compact")

    assert read_rows(metastore.view(moment), "n", "t")["v"].to_pylist() == [1]
    assert read_rows(metastore.view(), "n", "t")["v"].to_pylist() == [2]


@pytest.mark.parametrize(
    "bad",
    [
        7,
        "text",
        [{"a": 1}, {"a": "x"}],
        {"a": [1], "b": ["x", "y"]},
        pa.table([[1], [2]], names=["a", "a"]),
        [5],
    ],
)
def test_rows_that_are_none_are_refused(metastore: Metastore, bad: Any) -> None:
    table_in(metastore, PLAIN)
    with pytest.raises(InvalidInputError):
        change(metastore, "append", bad)
    assert rows(metastore) == []


def test_one_column_to_match_may_be_given_as_a_name(metastore: Metastore) -> None:
    table_in(metastore, KEYED)
    change(metastore, "upsert", [row(1, "x", 1), row(2, "x", 2)])
    with pytest.raises(InvalidInputError, match="'ab'"):
        change(metastore, "delete", [{"a": 1, "b": "x"}], on="ab")
    change(metastore, "delete", [{"v": 1}], on="v")
    assert [one["a"] for one in rows(metastore)] == [2]


def test_a_delete_needs_the_columns_it_matches(metastore: Metastore) -> None:
    table_in(metastore, KEYED)
    change(metastore, "upsert", [row(1, "x", 1)])
    for bad, on in (([{"a": 1}], None), ([{"a": 1}], ["v"]), ([{"a": 1}], ["none"])):
        with pytest.raises(InvalidInputError):
            change(metastore, "delete", bad, on=on)
    assert len(rows(metastore)) == 1


def test_merging_nothing_gives_no_rows() -> None:
    assert merged([], KEYED).num_rows == 0
    empty = Rows(StepKind.DELETE, ARROW.empty_table(), ("a",))
    assert merged([empty], KEYED).num_rows == 0


def test_tables_that_deltacat_wrote_are_read(golden: Path) -> None:
    metastore = Metastore.open(str(golden), read_only=True)
    view = metastore.view()
    counts = {t.name: read_rows(view, "sales", t.name).num_rows for t in view.tables("sales")}

    assert counts["users"] == sum(
        pq.read_metadata(golden / e.url).num_rows
        for p in view.partitions(view.stream("sales", "users"))
        for d in view.deltas(p)
        if d.manifest
        for e in d.manifest.entries
    )
    assert counts["orders"] > 0
    history = [record.id for record in metastore.transactions()]
    sizes = [
        read_rows(metastore.view(txn), "sales", "users").num_rows
        for txn in reversed(history)
        if metastore.view(txn).find_table("sales", "users")
    ]
    assert sizes[0] == 0
    assert max(sizes) > 0
