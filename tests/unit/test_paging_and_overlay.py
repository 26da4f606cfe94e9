from hypothesis import given
from hypothesis import strategies as st

from lakeroot.catalog import paging
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Namespace, Table
from lakeroot.objects import parse_root
from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.memory import MemoryStore
from lakeroot.storage.overlay import Overlay

TEXTS = st.text(max_size=20)


@given(TEXTS)
def test_a_token_leads_back_to_its_name(name: str) -> None:
    assert paging.after_name(paging.token_of(name)) == name


@given(st.lists(TEXTS, max_size=4).map(tuple))
def test_a_token_leads_back_to_its_identifier(identifier: Identifier) -> None:
    assert paging.after_identifier(paging.token_of(identifier)) == identifier


@given(
    st.lists(TEXTS, unique=True, max_size=30).map(sorted),
    st.integers(1, 40),
    st.sets(TEXTS),
)
def test_pages_put_together_are_the_whole(names: list[str], limit: int, left_out: set[str]) -> None:
    def keep(name: str) -> bool:
        return name not in left_out and len(name) % 3 != 1

    def source(after: str | None, wanted: int | None) -> list[str]:
        left = [name for name in names if after is None or name > after]
        return left[:wanted]

    found: list[str] = []
    token = None
    while True:
        page = paging.cut(source, paging.after_name(token), limit, keep)
        found += page.items
        token = page.token
        if not token:
            break
        assert len(page.items) == limit
    assert found == [name for name in names if keep(name)]


def test_a_page_that_is_full_of_the_last_has_no_next() -> None:
    names = list("abcdef")

    def source(after: str | None, wanted: int | None) -> list[str]:
        return [name for name in names if after is None or name > after][:wanted]

    assert paging.cut(source, None, 2, {"a", "b"}.__contains__) == paging.Page(["a", "b"], None)
    more = paging.cut(source, None, 2, {"a", "b", "f"}.__contains__)
    assert more.items == ["a", "b"]
    assert paging.after_name(more.token) == "b"


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**20), st.binary(max_size=300))
def test_fields_survive_being_written_and_read(number: int, field: int, content: bytes) -> None:
    message = protobuf.always_number(field, number) + protobuf.blob(field + 1, content)

    assert list(protobuf.fields(message)) == [
        (field, protobuf.VARINT, number),
        (field + 1, protobuf.BYTES, content),
    ]
    assert b"".join(map(protobuf.raw, protobuf.fields(message))) == message


@given(st.binary(max_size=60))
def test_any_bytes_are_fields_or_malformed(content: bytes) -> None:
    try:
        list(protobuf.fields(content))
    except protobuf.MalformedError:
        return


def test_a_trial_that_is_refused_leaves_no_trace() -> None:
    draft = Overlay(MemoryStore(parse_root("/nowhere")).read())
    draft.put(Namespace(("a",)))
    draft.put(Table(("a", "t"), "here"))
    before = (dict(draft.changed), draft.owner_of("here"), draft.is_empty(("a",)))

    try:
        with draft.trial():
            draft.remove(("a", "t"))
            draft.put(Table(("a", "u"), "here"))
            draft.put(Table(("a", "v"), "there"))
            draft.remove(("a", "v"))
            draft.put(Namespace(("b",)))
            raise LookupError
    except LookupError:
        pass

    assert (dict(draft.changed), draft.owner_of("here"), draft.is_empty(("a",))) == before
    assert draft.owner_of("there") is None
    assert draft.get(("b",)) is None
