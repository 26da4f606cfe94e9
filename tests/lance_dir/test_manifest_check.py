"""Manifests that want to be versions: all that Lance writes are taken, damaged ones are not."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeroot.storage.lance_dir import manifest_check, protobuf
from lakeroot.storage.lance_dir.manifest_check import checked
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import FOOTER
from lakeroot.tables.versions import manifest_name

FIELDS, FRAGMENTS, VERSION, INDEXES, TIME, READS, HIGHEST = 1, 2, 3, 6, 7, 9, 11
FORMAT, CONFIG, BASES, TRANSACTION = 15, 16, 18, 23
UNKNOWN = protobuf.always_number(1900, 5) + protobuf.blob(1901, b"\xff") + b"\xf5\x77abcd"
"""A number, bytes, and four bytes of a fixed size, of numbers that Lance does not use."""


def rows(count: int = 3, start: int = 0) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(count * 4), pa.float32()), 4)
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "word": [f"w{number}" for number in range(count)],
            "s": [{"a": 1, "b": ["x"]}] * count,
            "v": vectors,
        }
    )


def version_in(content: bytes) -> int:
    return checked(content).version


def manifests(place: Path) -> list[bytes]:
    """Give the manifests of a table and its branches, the newest first."""
    found = [
        *sorted((place / "_versions").glob("*.manifest")),
        *place.glob("tree/*/_versions/*.m*"),
    ]
    return [file.read_bytes() for file in found]


def merged(table: Any) -> None:
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(4, 4))


STEPS: list[Callable[[Any, str], object]] = [
    lambda _, place: lance.write_dataset(rows(3, 3), place, mode="append"),
    lambda table, _: table.delete("id = 1"),
    lambda table, _: table.update({"word": "'z'"}, where="id = 2"),
    lambda table, _: merged(table),
    lambda table, _: table.create_scalar_index("id", "BTREE"),
    lambda table, _: table.create_scalar_index("word", "INVERTED"),
    lambda table, _: table.add_columns({"twice": "id * 2"}),
    lambda table, _: table.alter_columns({"path": "twice", "name": "double"}),
    lambda table, _: table.alter_columns({"path": "double", "data_type": pa.int32()}),
    lambda table, _: table.drop_columns(["word"]),
    lambda table, _: table.update_config({"a": "b"}),
    lambda table, _: table.update_metadata({"k": "v"}),
    lambda table, _: table.update_schema_metadata({"m": "n"}),
    lambda table, _: table.optimize.compact_files(),
    lambda table, _: table.optimize.optimize_indices(),
    lambda table, _: table.create_branch("b", 2),
    lambda _, place: lance.write_dataset(rows(1, 9), f"{place}/tree/b", mode="append"),
    lambda _, place: lance.dataset(place, version=3).restore(),
    lambda _, place: lance.write_dataset(rows(2), place, mode="overwrite"),
]


@pytest.mark.parametrize("has_row_ids", [False, True], ids=["", "row ids"])
@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
def test_whatever_lance_does_to_a_table_is_taken(
    tmp_path: Path, version: str, has_row_ids: bool
) -> None:
    place = str(tmp_path / "t")
    lance.write_dataset(
        rows(), place, data_storage_version=version, enable_stable_row_ids=has_row_ids
    )
    for step in STEPS:
        step(lance.dataset(place), place)
    lance.dataset(place).shallow_clone(str(tmp_path / "clone"), 3)
    lance.write_dataset(rows(1, 9), str(tmp_path / "clone"), mode="append")
    lance.dataset(str(tmp_path / "clone")).delete("id = 0")

    for file in (tmp_path / "t" / "_versions").glob("*.manifest"):
        assert manifest_name(version_in(file.read_bytes())) == file.name
    assert len(manifests(tmp_path / "t")) >= len(STEPS)
    assert all(map(version_in, manifests(tmp_path / "clone")))


def test_a_manifest_says_of_which_branch_it_is(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    table = lance.write_dataset(rows(), place)
    fix = table.create_branch("fix/one")
    lance.write_dataset(rows(), fix, mode="append")
    fix.shallow_clone(str(tmp_path / "clone"), 2)

    def said(*below: str) -> set[str | None]:
        return {checked(content).branch for content in manifests(tmp_path.joinpath(*below))}

    assert said("t") == {None}
    assert said("t", "tree", "fix", "one") == {"fix/one"}
    assert said("clone") == {None}


@pytest.mark.parametrize("version", ["legacy", "2.0"])
def test_columns_with_a_dictionary_are_taken(tmp_path: Path, version: str) -> None:
    table = pa.table({"d": pa.array(["a", "b"]).dictionary_encode()})
    for mode in ("create", "append"):
        lance.write_dataset(table, str(tmp_path), mode=mode, data_storage_version=version)

    assert list(map(version_in, manifests(tmp_path))) == [2, 1]


def test_files_at_other_bases_are_taken(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    base = lance.DatasetBasePath(str(tmp_path / "base"), name="base")
    place, table = str(tmp_path / "t"), pa.table({"a": [1]})
    lance.write_dataset(table, place, initial_bases=[base], target_bases=["base"])
    lance.write_dataset(table, place, mode="append", target_bases=["base"])

    newest = manifests(tmp_path / "t")[0]
    assert version_in(newest) == 2
    with pytest.raises(MalformedError, match="a base that is not told"):
        version_in(changed(newest, {BASES: lambda _: None}))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that has been appended to, with an index and deleted rows."""
    found = tmp_path_factory.mktemp("table") / "t"
    table = lance.write_dataset(rows(), str(found), enable_stable_row_ids=True)
    table.delete("id = 1")
    table.create_scalar_index("id", "BTREE")
    lance.write_dataset(rows(2, 7), str(found), mode="append")
    return found


@pytest.fixture(scope="module")
def good(place: Path) -> bytes:
    return manifests(place)[0]


@contextlib.contextmanager
def nothing_known() -> Iterator[None]:
    """Look at manifests as a process does that has seen none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_check, "_BEGINNINGS", [])
        patch.setattr(manifest_check, "_FRAGMENTS_SEEN", manifest_check._Remembered())
        patch.setattr(manifest_check, "_FIELDS_SEEN", manifest_check._Remembered())
        manifest_check._require_indexes.cache_clear()
        yield


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    with nothing_known():
        yield


Change = Callable[[Any], Any]


def message_of(content: bytes) -> list[protobuf.Field]:
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    return list(protobuf.fields(protobuf.unframed(content, position)))


def edited(message: bytes, changes: dict[int, Change]) -> bytes:
    """Write a message again with the last field of each number changed; nothing takes it away."""
    found = list(protobuf.fields(message))
    for number, change in changes.items():
        at = max((at for at, one in enumerate(found) if one[0] == number), default=None)
        if at is None:
            new = change(None)
            found.append((number, 0 if isinstance(new, int) else 2, new))
            continue
        new = change(found[at][2])
        found[at : at + 1] = (
            [] if new is None else [(number, 0 if isinstance(new, int) else 2, new)]
        )
    return b"".join(map(protobuf.raw, found))


def changed(content: bytes, changes: dict[int, Change], more: bytes = b"") -> bytes:
    """Write a manifest again with fields changed; what lies before it stays."""
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    message = edited(protobuf.unframed(content, position), changes) + more
    return content[:position] + protobuf.framed(message) + content[-FOOTER.size :]


def inside(*path: int, change: Change) -> dict[int, Change]:
    """Change a field inside of messages: its number, after those of the messages it is in."""
    first, *rest = path
    if not rest:
        return {first: change}
    return {first: lambda value: edited(value or b"", inside(*rest, change=change))}


def section(content: bytes, number: int, change: Change) -> bytes:
    """Write the transaction or the indexes again, behind what lies before the manifest."""
    (at,) = (value for found, _, value in message_of(content) if found == number)
    assert isinstance(at, int)
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    new = protobuf.framed(change(protobuf.unframed(content, at)))
    moved = changed(content, {number: lambda _: position})[position : -FOOTER.size]
    footer = FOOTER.pack(position + len(new), *FOOTER.unpack(content[-FOOTER.size :])[1:])
    return content[:position] + new + moved + footer


def put(value: Any) -> Change:
    return lambda _: value


DAMAGES: dict[str, tuple[str, dict[int, Change]]] = {
    "a text where a number belongs": ("not written", inside(HIGHEST, change=put(b"x"))),
    "a number where a message belongs": ("not written", inside(FORMAT, change=put(5))),
    "a name that is not UTF-8": ("UTF-8", inside(FIELDS, 2, change=put(b"\xff"))),
    "a field without a type": ("has no type", inside(FIELDS, 5, change=put(None))),
    "a field of an empty type": ("is empty", inside(FIELDS, 5, change=put(b""))),
    "a field below nothing": ("below one", inside(FIELDS, 4, change=put(99))),
    "a field twice": ("two fields", inside(FIELDS, 3, change=put(1))),
    "an unknown encoding": ("larger than 4", inside(FIELDS, 7, change=put(9))),
    "a fragment cut off": ("cut off", inside(FRAGMENTS, change=lambda raw: raw[:-1])),
    "a data file without a path": ("no path", inside(FRAGMENTS, 2, 1, change=put(None))),
    "fewer columns": ("as many", inside(FRAGMENTS, 2, 3, change=lambda raw: raw[:-1])),
    "no fields": ("as many", inside(FRAGMENTS, 2, 2, change=put(None))),
    "a column twice": ("twice", inside(FRAGMENTS, 2, 3, change=lambda raw: b"\0\0" + raw[2:])),
    "a column too many bits": (
        "too large",
        inside(FRAGMENTS, 2, 3, change=put(b"\xff" * 9 + b"\0")),
    ),
    "another format": ("another format", inside(FRAGMENTS, 2, 5, change=put(9))),
    "no such format": ("is not one", inside(FORMAT, 2, change=put(b"2/0"))),
    "another file than was written": ("not in it", inside(FRAGMENTS, 2, 1, change=put(b"x.lance"))),
    "other rows than were written": ("not the rows", inside(FRAGMENTS, 4, change=put(77))),
    "row ids that are none": ("not written", inside(FRAGMENTS, 5, 1, change=put(7))),
    "more rows deleted than there are": (
        "more rows deleted",
        inside(FRAGMENTS, 3, 4, change=put(99)),
    ),
    "an unknown kind of deletion": ("larger than 1", inside(FRAGMENTS, 3, 1, change=put(5))),
    "a base that is nowhere": ("a base", inside(FRAGMENTS, 3, 7, change=put(4))),
    "too many nanoseconds": ("larger than", inside(TIME, 2, change=put(10**9))),
    "a time after all times": ("larger than", inside(TIME, 1, change=put(2**50))),
    "a fragment that was never made": ("never made", inside(HIGHEST, change=put(0))),
    "a transaction that is nowhere": ("cut off", inside(TRANSACTION, change=put(10**6))),
    "indexes that are nowhere": ("cut off", inside(INDEXES, change=put(10**6))),
    "an entry with more than a value": ("field 3", inside(CONFIG, 3, change=put(1))),
}


@pytest.mark.parametrize(("why", "changes"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_refused(good: bytes, why: str, changes: dict[int, Change]) -> None:
    damaged = changed(good, changes)
    assert damaged != good

    for _ in range(2):  # What is damaged is not remembered.
        with pytest.raises(MalformedError, match=why):
            version_in(damaged)
        assert version_in(good) == 4


@pytest.mark.parametrize(
    ("why", "number", "change"),
    [
        ("cut off", TRANSACTION, lambda raw: raw[:-1]),
        ("UTF-8", TRANSACTION, lambda raw: edited(raw, inside(2, change=put(b"\xff")))),
        ("what was done", TRANSACTION, lambda raw: edited(raw, inside(100, change=put(None)))),
        ("no path", TRANSACTION, lambda raw: edited(raw, inside(100, 1, 2, 1, change=put(None)))),
        ("cut off", INDEXES, lambda raw: raw[:-1]),
        ("no UUID", INDEXES, lambda raw: edited(raw, inside(1, 1, change=put(None)))),
        ("cannot be read", INDEXES, lambda raw: edited(raw, inside(1, 5, change=put(b"12345678")))),
        ("16 bytes", INDEXES, lambda raw: edited(raw, inside(1, 1, 1, change=put(b"short")))),
    ],
)
def test_damage_of_what_lies_before_the_manifest_is_refused(
    good: bytes, why: str, number: int, change: Change
) -> None:
    assert version_in(section(good, number, lambda raw: raw)) == 4

    with pytest.raises(MalformedError, match=why):
        version_in(section(good, number, change))


@pytest.mark.parametrize("number", [READS, READS + 1])
@pytest.mark.parametrize("bit", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1 << 20])
def test_features_are_taken_also_those_of_a_later_lance(good: bytes, number: int, bit: int) -> None:
    assert version_in(changed(good, {number: lambda bits: bits | bit})) == 4


def test_fields_that_are_not_known_are_let_be(good: bytes) -> None:
    def add(raw: bytes) -> bytes:
        return raw + UNKNOWN

    assert version_in(changed(good, {}, UNKNOWN)) == 4
    for path in ((FIELDS,), (FRAGMENTS,), (FRAGMENTS, 5), (TIME,), (FORMAT,)):
        assert version_in(changed(good, inside(*path, change=add))) == 4
    for number in (TRANSACTION, INDEXES):
        assert version_in(section(good, number, add)) == 4
    # As of overlays of a later version of Lance.
    assert version_in(changed(good, inside(FRAGMENTS, 11, change=put(b"\n\x02\n\x00")))) == 4


@pytest.mark.parametrize("before", range(8))
def test_fragments_are_found_wherever_they_are(good: bytes, before: int) -> None:
    found = message_of(good)
    (time,) = (one for one in found if one[0] == TIME)
    found.remove(time)
    found.insert(before, time)
    position = FOOTER.unpack(good[-FOOTER.size :])[0]
    message = protobuf.framed(b"".join(map(protobuf.raw, found)))
    mixed = good[:position] + message + good[-FOOTER.size :]

    for content in (mixed, good, mixed, good):
        assert version_in(content) == 4


@pytest.mark.filterwarnings("ignore")
def test_of_flipped_bytes_only_texts_and_numbers_pass(
    place: Path, good: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    file = place / "_versions" / manifest_name(4)
    want = lance.dataset(str(place)).to_table()
    lost = []
    try:
        for at, damaged in flipped(good):
            with contextlib.suppress(MalformedError):
                if version_in(damaged) != 4:
                    continue
                file.write_bytes(damaged)
                with contextlib.suppress(Exception):
                    if lance.dataset(str(place)).to_table().equals(want):
                        continue
                lost.append(at)
    finally:
        file.write_bytes(good)
    capfd.readouterr()

    assert len(lost) <= len(good) // 100, lost


def flipped(good: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(len(good) - FOOTER.size):
        yield at, good[:at] + bytes((good[at] ^ 0xFF,)) + good[at + 1 :]


@pytest.fixture(scope="module")
def others(place: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """All manifests of two tables of the same schema."""
    other = tmp_path_factory.mktemp("other") / "t"
    for mode in ("create", "append", "append"):
        lance.write_dataset(rows(), str(other), mode=mode)
    return manifests(place) + manifests(other)


@given(st.data())
def test_what_is_remembered_changes_nothing(others: list[bytes], data: st.DataObject) -> None:
    choice = st.tuples(st.sampled_from(others), st.integers(0, 10**6), st.integers(0, 255))
    for content, at, flip in data.draw(st.lists(choice, max_size=6)):
        at %= len(content) - FOOTER.size
        damaged = content[:at] + bytes((content[at] ^ flip,)) + content[at + 1 :]
        known = outcome(damaged)
        with nothing_known():
            assert outcome(damaged) == known


def outcome(content: bytes) -> int | str:
    try:
        return version_in(content)
    except MalformedError as error:
        return str(error)
