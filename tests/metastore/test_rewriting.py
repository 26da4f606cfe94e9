"""A change writes the files with its rows anew, and names the others again."""

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from lakeroot.metastore import Metastore, schema_of
from lakeroot.metastore.data import RenameField, TableWriter, files, read_rows
from lakeroot.metastore.data.bounds import may_have
from lakeroot.metastore.data.encoding import encoded
from lakeroot.metastore.data.plan import DataFile
from lakeroot.metastore.schemes import SortKey, SortScheme
from lakeroot.metastore.states import ContentType
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableSchemaValidationError,
)

from .memory import MemoryObjects
from .test_rows import ARROW, KEYED, PLAIN, change, row, rows, table_in

TEN = {"records_per_compacted_file": 10}


def named(metastore: Metastore) -> list[str]:
    """List the data files of the table, in their order."""
    view = metastore.view()
    (partition,) = view.partitions(view.stream("n", "t"))
    manifests = [delta.manifest for delta in view.deltas(partition)]
    return [entry.url for manifest in manifests if manifest for entry in manifest.entries]


def keys(metastore: Metastore) -> list[int]:
    return [one["a"] for one in rows(metastore)]


@pytest.fixture
def forty(metastore: Metastore) -> Metastore:
    """A table of forty rows in four files."""
    table_in(metastore, KEYED, properties=TEN)
    change(metastore, "upsert", [row(n, "x", n) for n in range(40)])
    assert len(named(metastore)) == 4
    return metastore


def test_a_delete_copies_the_files_with_its_rows_alone(forty: Metastore) -> None:
    before = named(forty)
    change(forty, "delete", [{"a": 12, "b": "x"}, {"a": 17, "b": "x"}, {"a": 99, "b": "x"}])
    after = named(forty)

    assert [after[0], *after[2:]] == [before[0], *before[2:]]
    assert after[1] != before[1]
    assert keys(forty) == [n for n in range(40) if n not in (12, 17)]


def test_a_file_whose_rows_are_all_deleted_is_not_named_any_more(forty: Metastore) -> None:
    before = named(forty)
    change(forty, "delete", [{"a": n, "b": "x"} for n in range(10, 20)])

    assert named(forty) == [before[0], *before[2:]]
    change(forty, "delete", [{"b": "x"}], on="b")
    assert rows(forty) == []


def test_a_delete_of_nothing_changes_nothing(forty: Metastore) -> None:
    before, commits = named(forty), list(forty.transactions())
    change(forty, "delete", [{"a": 12, "b": "y"}, {"a": None, "b": None}])

    assert named(forty) == before
    assert list(forty.transactions()) == commits


def test_an_upsert_copies_the_files_with_its_keys_alone(forty: Metastore) -> None:
    before = named(forty)
    change(forty, "upsert", [row(33, "x", -1), row(50, "x", -2)])
    after = named(forty)

    assert after[:3] == before[:3]
    assert before[3] not in after
    assert {one["a"]: one["v"] for one in rows(forty)} == {n: n for n in range(40)} | {
        33: -1,
        50: -2,
    }


def test_an_upsert_of_some_columns_takes_the_others_from_the_files_that_it_copies(
    forty: Metastore,
) -> None:
    change(forty, "upsert", [row(25, "x", 25, "old")])
    change(forty, "upsert", [{"a": 25, "b": "x", "v": -1}])

    assert [one for one in rows(forty) if one["a"] == 25] == [row(25, "x", -1, "old")]
    assert len(rows(forty)) == 40


def test_many_small_upserts_leave_few_files(forty: Metastore) -> None:
    for number in range(60):
        change(forty, "upsert", [row(100 + number, "x")])

    assert len(named(forty)) <= 2 * 10 + 1
    assert len(rows(forty)) == 100


def test_a_change_of_many_rows_writes_everything_anew(forty: Metastore) -> None:
    change(forty, "delete", [{"a": n, "b": "y"} for n in range(30)])
    assert len(rows(forty)) == 40
    before = named(forty)
    change(forty, "upsert", [row(n, "x", -n) for n in range(20)])

    assert len(before) == 4
    assert not set(before) & set(named(forty))
    assert sorted(one["v"] for one in rows(forty)) == sorted([*range(20, 40), *range(0, -20, -1)])


def test_a_sorted_table_stays_sorted(metastore: Metastore) -> None:
    by_v = SortScheme((SortKey(("v",)),), "by v", "by-v")
    table_in(metastore, KEYED, properties=TEN, sort_scheme=by_v)
    change(metastore, "upsert", [row(n, "x", 40 - n) for n in range(40)])
    before = named(metastore)
    change(metastore, "delete", [{"a": 5, "b": "x"}, {"a": 35, "b": "x"}])

    assert len(set(before) & set(named(metastore))) == 2
    assert [one["v"] for one in rows(metastore)] == [v for v in range(1, 41) if v not in (5, 35)]
    change(metastore, "upsert", [row(7, "x", 0)])
    assert [one["v"] for one in rows(metastore)] == [v for v in range(41) if v not in (5, 33, 35)]


def test_what_an_upsert_left_to_readers_is_merged_first(metastore: Metastore) -> None:
    table_in(metastore, KEYED, properties={**TEN, "read_optimization_level": "none"})
    change(metastore, "upsert", [row(n, "x", n) for n in range(40)])
    with metastore.transaction() as txn:
        version = txn.table_version("n", "t")
        properties = {**(version.properties or {}), "read_optimization_level": "max"}
        txn.update_table_version(version, properties=properties)
    change(metastore, "delete", [{"a": 3, "b": "x"}])

    assert keys(metastore) == [n for n in range(40) if n != 3]


def test_a_change_that_fails_removes_no_file_that_stays(
    forty: Metastore, objects: MemoryObjects
) -> None:
    before = set(named(forty))

    def failing() -> None:
        with forty.transaction() as txn:
            TableWriter(txn, "n", "t").delete([{"a": 12, "b": "x"}])
            raise InvalidInputError("enough")

    with pytest.raises(InvalidInputError, match="enough"):
        failing()
    assert {path for path in objects.held if path.startswith("data/")} == before
    assert len(rows(forty)) == 40


def test_the_state_before_can_still_be_read(forty: Metastore) -> None:
    then = next(iter(forty.transactions())).id
    change(forty, "delete", [{"a": 12, "b": "x"}])

    assert len(rows(forty)) == 39
    before = read_rows(forty.view(then), "n", "t")
    assert before["a"].to_pylist() == list(range(40))


def test_large_partitions_become_several_files_but_not_thousands() -> None:
    most = 4_000_000
    sizes = {1: 1, 262_144: 1, 300_000: 2, 1_000_000: 4, 10_000_000: 8, 64_000_000: 16}

    assert {n: -(-n // files.rewritten_share(n, most)) for n in sizes} == sizes


def test_a_table_without_keys_is_deleted_from_file_by_file(metastore: Metastore) -> None:
    table_in(metastore, PLAIN, properties=TEN)
    for start in (0, 10, 20):
        change(metastore, "append", [row(n, "x") for n in range(start, start + 10)])
    before = named(metastore)
    change(metastore, "delete", [{"a": 1}, {"a": 21}], on="a")

    assert named(metastore)[1] == before[1]
    assert keys(metastore) == [n for n in range(30) if n not in (1, 21)]


def test_a_name_that_meant_another_column_excludes_no_file(metastore: Metastore) -> None:
    table_in(metastore, PLAIN, properties=TEN)
    change(metastore, "append", [row(n, "x", 100 + n) for n in range(20)])
    change(metastore, "evolve", [RenameField("a", "old"), RenameField("v", "a")])
    change(metastore, "append", [{"old": n, "b": "x", "a": 100 + n} for n in range(20, 30)])
    change(metastore, "delete", [{"a": 103}, {"a": 125}], on="a")

    found = sorted(one["a"] for one in rows(metastore))
    assert found == [n for n in range(100, 130) if n not in (103, 125)]


@pytest.mark.parametrize(
    ("keys", "is_there"),
    [([10], True), ([29], True), ([5, 35], True), ([9], False), ([30, 99], False), ([None], True)],
)
def test_numbers_outside_of_a_file_exclude_it(keys: list[int | None], *, is_there: bool) -> None:
    file = DataFile("t.pq", ContentType.PARQUET, PLAIN.schema_id, 20, None)
    data = encoded(pa.Table.from_pylist([row(n, "x") for n in range(10, 30)], ARROW))
    wanted = pa.table({"a": pa.array(keys, pa.int64())})

    assert may_have(file, data, PLAIN, wanted) is is_there
    assert may_have(file, data, PLAIN, pa.table({"b": ["nothing like it"]}))
    assert may_have(replace(file, schema_id=99), data, PLAIN, wanted)
    assert may_have(file, b"damaged", PLAIN, wanted)


def test_many_small_files_are_put_together_by_the_next_delete(metastore: Metastore) -> None:
    table_in(metastore, PLAIN)
    for number in range(10):
        change(metastore, "append", [row(number, "x")])
    change(metastore, "delete", [{"a": 3}], on="a")

    assert len(named(metastore)) == 1
    assert keys(metastore) == [n for n in range(10) if n != 3]


def test_files_of_a_table_without_a_schema_are_put_together(metastore: Metastore) -> None:
    with metastore.transaction() as txn:
        txn.create_namespace("n")
        txn.create_table("n", "t", schema=None)
    for number in range(3):
        change(metastore, "append", pa.table({"a": [number], f"x{number}": ["y"]}))
    change(metastore, "compact")

    assert len(named(metastore)) == 1
    assert keys(metastore) == [0, 1, 2]


@pytest.mark.parametrize("verb", ["compact", "delete"])
def test_rows_that_are_added_meanwhile_are_not_lost(
    metastore: Metastore, another: Callable[[], Metastore], verb: str
) -> None:
    table_in(metastore, PLAIN)
    for number in range(2):
        change(metastore, "append", [row(number, "x")])
    arguments = [[{"a": 0}], "a"] if verb == "delete" else []

    def meanwhile() -> None:
        with metastore.transaction() as txn:
            getattr(TableWriter(txn, "n", "t"), verb)(*arguments)
            change(another(), "add", [row(100, "x")])

    with pytest.raises(ConcurrentModificationError):
        meanwhile()
    assert keys(metastore) == [0, 1, 100]


def test_a_value_that_no_type_of_now_holds_is_seen_before_the_commit(metastore: Metastore) -> None:
    table_in(metastore, KEYED, properties=TEN)
    change(metastore, "upsert", [row(n, "x", 2**53 + 1 if n > 20 else n) for n in range(40)])
    before = rows(metastore)

    with pytest.raises(TableSchemaValidationError, match="double"):
        change(metastore, "upsert", [{"a": 1, "b": "x", "v": 1.5}])
    assert rows(metastore) == before


def test_a_column_inside_of_another_is_not_taken_for_one_of_that_name(metastore: Metastore) -> None:
    inner = pa.field("a", pa.struct([pa.field("b", pa.int64())]))
    arrow = pa.schema([inner, pa.field("a.b", pa.int64()), pa.field("v", pa.int64())])
    table_in(metastore, schema_of(arrow, merge_keys=["a.b"]), properties=TEN)
    given = [{"a": {"b": 1000 + n}, "a.b": n, "v": n} for n in range(40)]
    change(metastore, "upsert", given)
    change(metastore, "upsert", [{"a": {"b": 1}, "a.b": 5, "v": -1}])
    change(metastore, "delete", [{"a.b": 35}])

    assert len(rows(metastore)) == 39
    assert [one["v"] for one in rows(metastore) if one["a.b"] == 5] == [-1]
