"""The wire format: numbers of up to 64 bits, and nothing that is cut off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.protobuf import MalformedError


@given(st.integers(0, 2**64 - 1))
def test_a_number_is_read_as_it_was_written(value: int) -> None:
    written = protobuf.encode_varint(value)

    assert protobuf.varint(b"x" + written + b"y", 1) == (value, 1 + len(written))
    with pytest.raises(MalformedError):
        protobuf.varint(written[:-1] or b"\x80", 0)


@pytest.mark.parametrize("written", [b"\xff" * 9 + b"\x02", b"\xff" * 9 + b"\x7f", b"\xff" * 11])
def test_a_number_of_more_than_64_bits_is_refused(written: bytes) -> None:
    with pytest.raises(MalformedError):
        protobuf.varint(written, 0)
