"""The rules of version files, checked against strangers' input and against real tables."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeroot.model.errors import InvalidInputError
from lakeroot.tables import versions
from lakeroot.tables.versions import LAST_VERSION, ManifestName, NamingScheme

numbers = st.integers(min_value=1, max_value=LAST_VERSION)
schemes = st.sampled_from(NamingScheme)
suffixes = st.from_regex(r"[0-9a-zA-Z][0-9a-zA-Z_.-]{0,40}", fullmatch=True)
branches = st.none() | st.from_regex(r"[a-z0-9_]{1,8}(/[a-z0-9_]{1,8}){0,2}", fullmatch=True)
locations = st.sampled_from(
    ["/lake/t.lance", "file:///lake/t.lance", "s3://bucket/a b/t#é%41.lance", "s3://bucket/t/"]
)


@given(numbers, schemes)
def test_a_manifest_name_is_understood(version: int, scheme: NamingScheme) -> None:
    name = versions.manifest_name(version, scheme)

    assert versions.parse_manifest_name(name) == ManifestName(version, scheme)


@given(numbers, numbers)
def test_newer_versions_sort_first_in_scheme_v2(one: int, other: int) -> None:
    names = [versions.manifest_name(version) for version in (one, other)]

    assert (one > other) == (names[0] < names[1])


@given(st.text(max_size=40))
def test_any_other_file_name_is_not_a_manifest(name: str) -> None:
    found = versions.parse_manifest_name(name)

    assert found is None or str(found) == name


@pytest.mark.parametrize(
    "name",
    [
        "0.manifest",
        "007.manifest",
        "18446744073709551615.manifest",
        "09223372036854775807.manifest",
        "9223372036854775808.manifest",
        "99999999999999999999.manifest",
        "-1.manifest",
        "٣.manifest",
        "d9223372036854775809.manifest",
        "1.manifest\n",
        "1.manifest-abc",
        "latest_version_hint.json",
        "",
    ],
)
def test_a_name_no_version_has_is_not_a_manifest(name: str) -> None:
    assert versions.parse_manifest_name(name) is None


@given(numbers, schemes, suffixes)
def test_a_staging_name_tells_its_version(version: int, scheme: NamingScheme, suffix: str) -> None:
    name = versions.staging_name(version, scheme, suffix)

    assert versions.parse_staging_name(name) == ManifestName(version, scheme)
    assert versions.parse_manifest_name(name) is None


@pytest.mark.parametrize("suffix", ["", "a/b", "../x", "a\\b", "a b", ".."])
def test_a_staging_suffix_cannot_be_a_path(suffix: str) -> None:
    with pytest.raises(InvalidInputError):
        versions.staging_name(1, NamingScheme.V2, suffix)


@pytest.mark.parametrize("version", [0, -1, 2**63, 2**64, True, "1", 1.0, None])
def test_a_number_no_version_has_is_refused(version: object) -> None:
    with pytest.raises(InvalidInputError):
        versions.manifest_name(version)  # type: ignore[arg-type]


@given(locations, numbers, schemes, suffixes, branches)
def test_a_path_in_the_tables_own_directory_is_accepted_in_every_spelling(
    location: str, version: int, scheme: NamingScheme, suffix: str, branch: str | None
) -> None:
    directory = versions.versions_directory(branch)
    relative = f"{directory}/{versions.staging_name(version, scheme, suffix)}"
    key = f"{versions.object_key(location)}/{relative}"

    for path in (key, f"/{key}", f"{location.rstrip('/')}/{relative}", relative):
        staged = versions.staged_manifest(
            location, path, version=version, scheme=scheme, branch=branch
        )

        assert staged.path == relative
        assert staged.final_path == f"{directory}/{versions.manifest_name(version, scheme)}"


NAME = versions.staging_name(1, NamingScheme.V2, "x")


@pytest.mark.parametrize(
    "path",
    [
        "",
        NAME,
        f"lake/other.lance/_versions/{NAME}",
        f"/lake/other.lance/_versions/{NAME}",
        f"lake/t.lance2/_versions/{NAME}",
        f"lake/t.lance/data/{NAME}",
        f"lake/t.lance/_versions/../../other.lance/_versions/{NAME}",
        f"lake/t.lance/_versions/./{NAME}",
        f"lake/t.lance//_versions/{NAME}",
        f"//lake/t.lance/_versions/{NAME}",
        f"lake/t.lance/tree/b/_versions/{NAME}",
        f"lake/t.lance/_versions/sub/{NAME}",
        f"../_versions/{NAME}",
        f"s3://bucket/lake/t.lance/_versions/{NAME}",
        f"file:///lake/other.lance/_versions/{NAME}",
        "lake/t.lance/_versions/18446744073709551614.manifest",
        "lake/t.lance/_versions/18446744073709551613.manifest-x",
        "lake/t.lance/_versions/1.manifest-x",
        "lake/t.lance/_versions/18446744073709551614.manifest-x\x00",
        "lake/t.lance/_versions/18446744073709551614.manifest-..%2f",
        "lake/t.lance/data/secret.lance",
        "etc/passwd",
    ],
)
def test_a_staging_path_outside_the_tables_own_versions_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError):
        versions.staged_manifest("file:///lake/t.lance", path, version=1)


@given(st.text(alphabet="./_versiontrelak0123456789mf-\\%:", max_size=60))
def test_no_path_escapes(path: str) -> None:
    try:
        staged = versions.staged_manifest("/lake/t.lance", path, version=1)
    except InvalidInputError:
        return
    assert staged.directory == "_versions"
    assert "/" not in staged.name


@pytest.mark.parametrize("branch", ["", "..", "a/../b", "/a", "a/", "a//b", "a\\b", "."])
def test_a_branch_that_is_a_path_is_refused(branch: str) -> None:
    with pytest.raises(InvalidInputError):
        versions.versions_directory(branch)


def test_main_is_the_branch_without_a_name() -> None:
    assert versions.versions_directory("main") == versions.versions_directory(None)


@pytest.mark.parametrize(
    ("text", "scheme"), [(None, "V2"), ("", "V2"), ("v1", "V1"), ("V1", "V1"), ("v2", "V2")]
)
def test_a_scheme_is_read_in_any_case(text: str | None, scheme: str) -> None:
    assert versions.naming_scheme(text) is NamingScheme(scheme)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        versions.naming_scheme("V3")


@given(st.sets(st.integers(1, 60)), st.lists(st.tuples(st.integers(0, 60), st.integers(-3, 60))))
def test_ranges_cover_what_a_person_would_count(
    existing: set[int], bounds: list[tuple[int, int]]
) -> None:
    bounds = [(start, end) for start, end in bounds if end < 0 or end >= start]
    expected = set[int]()
    for start, end in bounds:
        expected |= set(range(start, 61 if end < 0 else end))

    ranges = [versions.version_range(start, end) for start, end in bounds]

    assert versions.covered(existing, ranges) == sorted(existing & expected)


@pytest.mark.parametrize(
    ("start", "end"), [(3, 2), (-1, 3), (-2, -1), (True, 2), ("0", 1), (0, None), (0.0, 1)]
)
def test_a_range_that_makes_no_sense_is_refused(start: int, end: int) -> None:
    with pytest.raises(InvalidInputError):
        versions.version_range(start, end)


@pytest.mark.parametrize(("v2", "scheme"), [(True, NamingScheme.V2), (False, NamingScheme.V1)])
def test_the_names_are_those_pylance_writes(tmp_path: Path, v2: bool, scheme: NamingScheme) -> None:
    table = tmp_path / "t.lance"
    for _ in range(3):
        dataset = lance.write_dataset(
            pa.table({"a": [1]}), table, mode="append", enable_v2_manifest_paths=v2
        )
    dataset.create_branch("exp/one")

    # A branch starts with the newer scheme, whatever its table was made with.
    for branch, expected, named in ((None, {1, 2, 3}, scheme), ("exp/one", {3}, NamingScheme.V2)):
        folder = table / versions.versions_directory(branch)
        found = {versions.parse_manifest_name(file.name) for file in folder.iterdir()} - {None}

        assert found == {ManifestName(version, named) for version in expected}
