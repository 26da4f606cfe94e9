"""What the index lists is what a walk over every revision finds, now and in the past."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from lakeroot.metastore.checkpoints import decode_index, encode_index
from lakeroot.metastore.entries import Entry, EntryKind, Write
from lakeroot.metastore.index import Index, Revision, Snapshot
from lakeroot.metastore.states import Operation

# (child, the number of its revision, whether it is dropped), or a number of entries to forget.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abcd"), st.integers(1, 6), st.booleans()), st.integers(0, 9)
    ),
    max_size=24,
)


def entries(steps: list[tuple[str, int, bool] | int]) -> Iterator[Entry]:
    for sequence, step in enumerate(steps):
        if isinstance(step, int):
            facts = {"horizon": sequence - step, "orphans": ["n/a"], "seen": sequence - step}
            yield Entry(EntryKind.EXPIRE, facts=facts)
            continue
        child, number, is_dropped = step
        operation = Operation.DELETE if is_dropped else Operation.UPDATE
        write = Write(f"n/{child}", number, operation, content=b"x")
        yield Entry(EntryKind.COMMIT, f"t{sequence:03}", sequence, writes=(write,))


def listed(index: Index, snapshot: Snapshot) -> dict[str, int]:
    return {name: revision.number for name, revision in index.child_ids("n", snapshot)}


def walked(index: Index, snapshot: Snapshot) -> dict[str, int]:
    found = {name: index.object(f"n/{name}", snapshot) for name in index.children.get("n", ())}
    return {name: one.number for name, one in found.items() if one is not None}


@given(steps=STEPS)
def test_a_list_is_what_a_walk_over_every_revision_finds(
    steps: list[tuple[str, int, bool] | int],
) -> None:
    index = Index()
    for sequence, entry in enumerate(entries(steps)):
        index.apply(sequence, entry)
        reopened = decode_index(encode_index(index))
        assert reopened is not None
        for known in (index, reopened):
            for then in range(sequence + 1):
                assert listed(known, Snapshot(then)) == walked(known, Snapshot(then))
            early = Snapshot(sequence, before=sequence // 2)
            assert listed(known, early) == walked(known, early)


def test_a_list_of_now_does_not_look_at_what_was_dropped() -> None:
    index = Index()
    steps: list[tuple[str, int, bool] | int] = [("kept", 1, False)]
    for number in range(100):
        steps += [(f"gone{number}", 1, False), (f"gone{number}", 2, True)]
    for sequence, entry in enumerate(entries(steps)):
        index.apply(sequence, entry)
    looked_at: list[str] = []
    looking = index.object

    def counted(directory: str, snapshot: Snapshot) -> object:
        looked_at.append(directory)
        return looking(directory, snapshot)

    index.object = counted  # type: ignore[method-assign,assignment]

    assert list(listed(index, Snapshot(index.head))) == ["kept"]
    assert looked_at == ["n/kept"]
    assert len(listed(index, Snapshot(1))) == 2


def test_revisions_are_in_order_and_none_is_there_twice() -> None:
    index = Index()
    second, first = Revision(2, "b", 7, Operation.UPDATE), Revision(1, "a", 9, Operation.CREATE)
    again = Revision(2, "b", 8, Operation.UPDATE)
    for revision in (second, first, again):
        index.add("n/x", revision)

    assert index.objects["n/x"] == [first, again]


def test_of_what_is_forgotten_nothing_stays_in_memory() -> None:
    index = Index()
    kept = Write("n/kept", 1, Operation.CREATE, content=b"x")
    index.apply(0, Entry(EntryKind.COMMIT, "t", 1, writes=(kept,)))
    before = sizes(index)
    for number in range(1, 40, 2):
        made = [Write(f"n/{number}{deep}", 1, Operation.CREATE, content=b"x") for deep in DEEP]
        made.append(Write(f"n/{number}name", 1, Operation.CREATE, f"{number}"))
        gone = [write._replace(number=2, operation=Operation.DELETE) for write in made]
        index.apply(number, Entry(EntryKind.COMMIT, f"a{number}", number, writes=tuple(made)))
        index.apply(number + 1, Entry(EntryKind.COMMIT, f"b{number}", number, writes=tuple(gone)))
    assert sizes(index) != before
    facts = {"horizon": index.head, "orphans": [], "seen": index.head}
    index.apply(index.head + 1, Entry(EntryKind.EXPIRE, facts=facts))

    assert sizes(index) == before
    assert listed(index, Snapshot(index.head)) == {"kept": 1}


DEEP = ("", "/1", "/1/stream", "/1/stream/partition")


def sizes(index: Index) -> dict[str, int]:
    """How much the index holds, whatever it is."""
    return {name: len(held) for name, held in vars(index).items() if isinstance(held, dict | set)}
