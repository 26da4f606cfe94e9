"""The wire format: messages are passed over as they are read, and facts found after them."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.manifest_facts import version_in
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import FOOTER

VERSION = 3
SIZES = st.one_of(st.integers(0, 300), st.sampled_from([127, 128, 16_383, 16_384, 70_000]))
# Full of what would be a version, if it were not inside of a message.
FILLING = protobuf.always_number(VERSION, 7)


def messages(fields: list[tuple[int, int]]) -> bytes:
    return b"".join(protobuf.blob(one, (FILLING * size)[:size]) for one, size in fields)


def manifest(message: bytes) -> bytes:
    return protobuf.framed(message) + FOOTER.pack(0, 0, 2, b"LANC")


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 15, 16, 300]), SIZES), max_size=6),
    st.integers(1, 2**63 - 1),
    st.lists(st.tuples(st.integers(4, 40), SIZES), max_size=3),
    st.integers(0, 6),
)
def test_a_version_is_found_behind_fragments_of_any_size_and_after_any_other_manifest(
    before: list[tuple[int, int]], version: int, after: list[tuple[int, int]], fewer: int
) -> None:
    rest = protobuf.number(VERSION, version) + messages(after)
    assert version_in(manifest(messages(before[:fewer]) + rest)) == version
    assert version_in(manifest(messages(before) + rest)) == version
    assert version_in(manifest(messages(before[fewer:]) + rest)) == version


@given(st.binary(max_size=40), st.binary(max_size=10))
def test_what_is_passed_over_are_whole_fields(message: bytes, more: bytes) -> None:
    position = protobuf.after_messages(message)

    passed = list(protobuf.fields(message[:position]))
    assert all(wire == protobuf.BYTES for _, wire, _ in passed)
    assert protobuf.after_messages(message[:position] + more) >= position
    with contextlib.suppress(MalformedError):
        assert list(protobuf.fields(message))[: len(passed)] == passed
