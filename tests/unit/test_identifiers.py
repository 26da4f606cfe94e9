import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import (
    ROOT,
    identifier_of,
    is_valid,
    parse_dotted,
    show,
    validate_new,
)

ALLOWED = [
    "a",
    "t.lance",
    "with space",
    "größe",
    "桌子",
    "🦎",
    "a:b",
    "'",
    '"',
    "#?*%",
    "x" * 255,
    "é" * 127,
]
REFUSED = [
    "",
    ".",
    "..",
    "a$b",
    "a/b",
    "a\\b",
    "a\0b",
    "a\nb",
    "\x7f",
    "\x85",
    "x" * 256,
    "é" * 128,
    "\ud800",
]


@pytest.mark.parametrize("name", ALLOWED)
def test_a_name_of_printable_unicode_is_allowed(name: str) -> None:
    validate_new(("ns", name))


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_could_be_mistaken_for_a_path_or_an_identifier_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError):
        validate_new(("ns", name))
    assert not is_valid((name,))


def test_no_identifier_and_an_empty_one_are_the_root() -> None:
    assert identifier_of(None) == identifier_of([]) == ROOT


@pytest.mark.parametrize("names", ["a$b", b"a", [1], ["a", None]])
def test_an_identifier_is_a_list_of_strings(names: object) -> None:
    with pytest.raises(InvalidInputError):
        identifier_of(names)  # type: ignore[arg-type]


@given(st.lists(st.text(min_size=1), min_size=1), st.lists(st.text(min_size=1), min_size=1))
def test_two_identifiers_never_look_alike(one: list[str], other: list[str]) -> None:
    assert (show(tuple(one)) == show(tuple(other))) == (one == other)


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_shown_identifier_can_be_read_again(names: list[str]) -> None:
    assert parse_dotted(show(tuple(names))) == tuple(names)


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '"a', '"a"b', 'a"b'])
def test_a_text_that_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_dotted(text)
