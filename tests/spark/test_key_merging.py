"""Merging few rows by keys in the driver: as Lance's own merge does it, and never half."""

import datetime as dt
import decimal
import pickle
import shutil

import lance
import pyarrow as pa
import pytest

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.spark.catalogs import TableRef
from lakeroot.spark.key_merging import can_merge_by_keys, merge_by_keys
from lakeroot.spark.merging import _now, keys_are_good
from lakeroot.spark.options import WriteOptions
from lakeroot.spark.types import spark_schema
from lakeroot.spark.writing import prepare
from tests.spark.test_writing import orphans

DAY = dt.date(2020, 1, 1)
MOMENT = dt.datetime(2020, 1, 1)  # noqa: DTZ001  # a moment without a zone
KEYS = {
    "longs": (pa.int64(), lambda n: n * 3 - 9),
    "the smallest longs": (pa.int64(), lambda n: -(2**63) + n),
    "bytes": (pa.int8(), lambda n: n - 5),
    "large numbers without a sign": (pa.uint64(), lambda n: 2**63 - 4 + n),
    "strings": (pa.string(), lambda n: f'it\'s `{n}` "ü"'),
    "strings with a zero": (pa.string(), lambda n: f"\0{n}"),
    "binary": (pa.binary(), lambda n: bytes([n])),
    "dates": (pa.date32(), lambda n: DAY + dt.timedelta(n)),
    "times": (pa.timestamp("us"), lambda n: MOMENT + dt.timedelta(seconds=n)),
    "times of a zone": (pa.timestamp("us", "UTC"), lambda n: MOMENT + dt.timedelta(seconds=n)),
    "decimals": (pa.decimal128(12, 2), lambda n: decimal.Decimal(n) / 4),
}


def table(kind, made, numbers, values, name="id"):
    return pa.table(
        {
            name: pa.array([made(n) for n in numbers], kind),
            "value": pa.array(values, pa.string()),
        }
    )


def planned(location):
    schema = spark_schema(lance.dataset(location).schema, truncate_nanos=True)
    return prepare(TableRef(None, (), location), schema, WriteOptions(mode="append"))


def content(location):
    return sorted(lance.dataset(location).to_table().to_pylist(), key=str)


def merged_by_lance(location, source, keys, *, update, insert):
    builder = lance.dataset(location).merge_insert(keys)
    if update:
        builder = builder.when_matched_update_all()
    if insert:
        builder = builder.when_not_matched_insert_all()
    return builder.execute(source)


def both(tmp_path, before, source, keys, *, update=True, insert=True, prepared=None):
    """Merge twice, by Lance and by us, and return what ours says and has made."""
    mine, other = str(tmp_path / "mine.lance"), str(tmp_path / "other.lance")
    lance.write_dataset(before, mine, max_rows_per_file=4)
    if prepared is not None:
        prepared(lance.dataset(mine))
    shutil.copytree(mine, other)
    assert can_merge_by_keys(lance.dataset(mine), 5000, keys)
    done = merge_by_keys(source, planned(mine), keys, update=update, insert=insert)
    counts = merged_by_lance(other, source, keys, update=update, insert=insert)
    assert content(mine) == content(other)
    assert done.inserted == counts["num_inserted_rows"]
    assert done.updated == counts["num_updated_rows"]
    lance.dataset(mine).validate()
    assert orphans(mine) == set()
    return done, mine


@pytest.mark.parametrize("words", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("key", KEYS)
def test_keys_of_any_type_are_merged_as_lance_merges_them(tmp_path, key, words):
    kind, made = KEYS[key]
    before = table(kind, made, range(10), [f"old {n}" for n in range(10)])
    source = table(kind, made, [11, 7, 2, 12], ["new"] * 4)
    done, _ = both(tmp_path, before, source, ["id"], update=words[0], insert=words[1])
    assert (done.inserted, done.updated) == (2 * words[1], 2 * words[0])


@pytest.mark.parametrize("name", ["Id", "select", "an odd name", "größe", "a/b"])
def test_keys_with_odd_names_are_found(tmp_path, name):
    kind, made = KEYS["longs"]
    before = table(kind, made, range(10), ["old"] * 10, name)
    both(tmp_path, before, table(kind, made, [3, 20], ["new"] * 2, name), [name])


def test_a_key_whose_name_has_quotes_is_found_where_lance_fails(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({'quo"te': [1, 2]}), location)
    source = pa.table({'quo"te': [2, 3]})
    done = merge_by_keys(source, planned(location), ['quo"te'], update=True, insert=True)
    assert (done.inserted, done.updated) == (1, 1)


def test_rows_match_by_all_keys_together(tmp_path):
    before = pa.table({"a": [1, 1, 2, 2], "b": ["x", "y", "x", None], "value": ["old"] * 4})
    source = pa.table({"a": [1, 2, 3], "b": ["y", "y", "x"], "value": ["new"] * 3})
    done, _ = both(tmp_path, before, source, ["a", "b"])
    assert (done.inserted, done.updated) == (2, 1)


def test_every_row_with_the_key_is_replaced(tmp_path):
    kind, made = KEYS["longs"]
    before = table(kind, made, [1, 2, 3, 1, 2, 1], ["old"] * 6)
    done, _ = both(tmp_path, before, table(kind, made, [9, 1, 2], ["x", "y", "z"]), ["id"])
    assert (done.inserted, done.updated) == (1, 5)


def test_deleted_rows_and_null_keys_match_nothing(tmp_path):
    before = pa.table({"id": pa.array([1, None, 3, 4, 5], pa.int64()), "value": ["old"] * 5})
    source = pa.table({"id": pa.array([3, 4], pa.int64()), "value": ["new"] * 2})
    done, _ = both(
        tmp_path, before, source, ["id"], prepared=lambda dataset: dataset.delete("id = 3")
    )
    assert (done.inserted, done.updated) == (1, 1)


def test_a_fragment_that_is_replaced_as_a_whole_goes(tmp_path):
    kind, made = KEYS["longs"]
    before = table(kind, made, range(8), ["old"] * 8)
    _, mine = both(tmp_path, before, table(kind, made, range(4), ["new"] * 4), ["id"])
    assert [each.fragment_id for each in lance.dataset(mine).get_fragments()] == [1, 2]


def test_an_index_that_lacks_the_newest_rows_does_not_hide_them(tmp_path):
    def prepared(dataset):
        dataset.create_scalar_index("id", "BTREE")
        lance.write_dataset(
            pa.table({"id": [10, 11], "value": ["late"] * 2}), dataset.uri, mode="append"
        )

    before = pa.table({"id": list(range(10)), "value": ["old"] * 10})
    source = pa.table({"id": [8, 9, 10, 12], "value": ["new"] * 4})
    done, _ = both(tmp_path, before, source, ["id"], prepared=prepared)
    assert (done.inserted, done.updated) == (1, 3)


def test_an_empty_source_changes_nothing(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1]}), location)
    source = pa.table({"id": pa.array([], pa.int64())})
    done = merge_by_keys(source, planned(location), ["id"], update=True, insert=True)
    assert (done.version, done.inserted, done.updated) == (1, 0, 0)


def test_a_table_that_was_emptied_takes_every_row(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1]}), location).delete("true")
    source = pa.table({"id": [1, 2]})
    done = merge_by_keys(source, planned(location), ["id"], update=True, insert=True)
    assert (done.inserted, content(location)) == (2, [{"id": 1}, {"id": 2}])


def test_a_merge_that_lost_its_race_leaves_no_data_files_behind(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2]}), location)
    plan = planned(location)
    lance.dataset(location).update({"id": "3"}, where="id = 2")
    with pytest.raises(ConcurrentModificationError, match="changed the same rows first"):
        merge_by_keys(pa.table({"id": [2, 3]}), plan, ["id"], update=True, insert=True)
    assert content(location) == [{"id": 1}, {"id": 3}]
    assert orphans(location) == set()


def test_a_plan_is_brought_to_the_newest_version_unless_columns_changed(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"id": [1, 2]}), location)
    plan = planned(location)
    assert _now(plan, lance.dataset(location)) is plan
    lance.write_dataset(pa.table({"id": [3]}), location, mode="append")
    now = _now(plan, lance.dataset(location))
    assert (now.read_version, pickle.loads(now.dataset or b"").version) == (2, 2)
    done = merge_by_keys(pa.table({"id": [3, 4]}), now, ["id"], update=True, insert=True)
    assert (done.inserted, done.updated) == (1, 1)
    lance.dataset(location).add_columns({"more": "id + 1"})
    with pytest.raises(ConcurrentModificationError, match="schema"):
        _now(plan, lance.dataset(location))


def test_a_table_that_was_overwritten_with_equal_columns_of_other_numbers_is_noticed(tmp_path):
    location = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"z": [1], "id": [1], "b": [1]}), location).drop_columns(["z"])
    plan = planned(location)
    new = pa.table({"id": [1, 2], "b": [3, 4]})
    lance.write_dataset(new, location, mode="overwrite")
    with pytest.raises(ConcurrentModificationError, match="schema"):
        _now(plan, lance.dataset(location))
    done = merge_by_keys(new, planned(location), ["id"], update=True, insert=True)
    assert (done.updated, content(location)) == (2, new.to_pylist())


def test_what_lance_does_better_is_left_to_it(tmp_path):
    def made(name, data, **options):
        return lance.write_dataset(data, str(tmp_path / f"{name}.lance"), **options)

    plain = pa.table({"id": [1, 2], "half": [0.5, 1.5], "`": [1, 2]})
    table = made("plain", plain)
    assert can_merge_by_keys(table, 1, ["id"])
    assert not can_merge_by_keys(table, 1, ["id", "half"])
    assert not can_merge_by_keys(table, 1, ["`"])
    assert not can_merge_by_keys(made("ids", plain, enable_stable_row_ids=True), 1, ["id"])
    table.create_scalar_index("id", "BTREE")
    assert not can_merge_by_keys(table, 1000, ["id"])
    assert can_merge_by_keys(table, 1001, ["id"])
    named = {"lance-schema:unenforced-primary-key": "true"}
    declared = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=named)])
    keyed = made("keyed", pa.table({"id": [1]}, declared))
    assert not can_merge_by_keys(keyed, 1, ["id"])


@pytest.mark.parametrize(
    ("values", "good"), [([1, 2, 9], True), ([9, 1, 2], True), ([2, 1, 2], False), ([1, 1], False)]
)
def test_numbers_are_unique_in_any_order(values, good):
    assert keys_are_good(pa.table({"id": pa.array(values, pa.int64())}), ["id"]) is good
    assert keys_are_good(pa.table({"id": pa.array(map(str, values))}), ["id"]) is good


def test_no_keys_are_unique():
    assert keys_are_good(pa.table({"id": pa.array([], pa.int64())}), ["id"])
