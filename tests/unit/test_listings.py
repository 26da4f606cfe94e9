"""What is known of a manifest's rows without looking at all of them."""

from hypothesis import given
from hypothesis import strategies as st

from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.rows import VERSION_ROW, Row

VERSIONS = st.integers(min_value=1, max_value=12)
SPELLED = st.tuples(VERSIONS, st.sampled_from(["{}", "{:020d}"]))


@given(st.lists(st.tuples(st.booleans(), SPELLED), max_size=40))
def test_the_newest_version_is_known_whatever_came_and_went(
    changes: list[tuple[bool, tuple[int, str]]],
):
    listings = Index().listings
    there: set[tuple[int, str]] = set()
    for is_added, (number, spelling) in changes:
        row = Row(f"a$t${spelling.format(number)}", VERSION_ROW, None, "{}")
        if is_added:
            listings.add(row)
            there.add((number, spelling))
        elif (number, spelling) in there:
            listings.remove(row)
            there.discard((number, spelling))
        numbers = {number for number, _ in there}
        assert set(listings.versions.get(("a", "t"), {})) == numbers
        assert listings.newest_versions.get(("a", "t"), 0) == max(numbers, default=0)
        twice = listings.spelled_twice.get(("a", "t"), {})
        kept = {*listings.versions.get(("a", "t"), {}).values()} | {
            row for rows in twice.values() for row in rows
        }
        assert {row.object_id for row in kept} == {
            f"a$t${spelling.format(number)}" for number, spelling in there
        }
