"""What is known of a manifest's rows without looking at all of them."""

from hypothesis import given
from hypothesis import strategies as st

from lakeroot.storage.lance_dir.index import Index
from lakeroot.storage.lance_dir.rows import VERSION_ROW, Row

VERSIONS = st.integers(min_value=1, max_value=12)


@given(st.lists(st.tuples(st.booleans(), VERSIONS), max_size=40))
def test_the_newest_version_is_known_whatever_came_and_went(changes: list[tuple[bool, int]]):
    listings = Index().listings
    there: set[int] = set()
    for is_added, number in changes:
        row = Row(f"a$t${number}", VERSION_ROW, None, "{}")
        if is_added:
            listings.add(row)
            there.add(number)
        else:
            listings.remove(row)
            there.discard(number)
        assert set(listings.versions.get(("a", "t"), {})) == there
        assert listings.newest_versions.get(("a", "t"), 0) == max(there, default=0)
