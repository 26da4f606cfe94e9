"""Every finding, provoked by real damage: it is reported, and repaired or left alone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import lance
import pytest

from lakeroot import DirectoryNamespace
from lakeroot.storage.deltacat.checking import KINDS as METASTORE_KINDS
from lakeroot.storage.iceberg_rest.checking import KINDS as ICEBERG_KINDS
from lakeroot.storage.lance_dir.checking import KINDS, Severity
from lakeroot.storage.lance_dir.rows import Row
from lakeroot.storage.lance_dir.version_file import decode
from tests.fsck.conftest import ROWS, add_rows, codes, directory, files, make_old, newest, opened

PROJECT = Path(__file__).parents[2]
MARK_FOR_ROW = b"reserved for a row of __manifest"


def oldest(place: Path) -> Path:
    return max((place / "_versions").glob("*.manifest"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def head_files(root: Path) -> list[Path]:
    head = decode(newest(root / "__manifest").read_bytes())
    return [root / "__manifest" / "data" / fragment.path for fragment in head.fragments]


def damage_newest_version(root: Path) -> None:
    cut(newest(root / "__manifest"))


def lose_every_version(root: Path) -> None:
    shutil.rmtree(root / "__manifest" / "_versions")


def use_newer_features(root: Path) -> None:
    table = lance.dataset(str(root / "__manifest"))
    table.update_metadata({"lance.namespace.manifest.reader_feature_flags": "64"})


def lose_data_file_of_manifest(root: Path) -> None:
    head_files(root)[0].unlink()


def damage_data_file_of_manifest(root: Path) -> None:
    head_files(root)[0].write_bytes(b"not a Lance file at all" * 10)


def lose_index_of_manifest(root: Path) -> None:
    opened(root).optimize()
    shutil.rmtree(next((root / "__manifest" / "_indices").iterdir()))


def make_catalog_anew(root: Path) -> None:
    place = str(root / "__manifest")
    anew = lance.LanceOperation.Overwrite(lance.dataset(place).schema, [])
    lance.LanceDataset.commit(place, anew, read_version=0)


def damage_oldest_version(root: Path) -> None:
    cut(oldest(root / "__manifest"))


def lose_version_between(root: Path) -> None:
    sorted((root / "__manifest" / "_versions").glob("*.manifest"))[2].unlink()


def add_view(root: Path) -> None:
    add_rows(root, Row("air$view", "view", None, None))


def repeat_row(root: Path) -> None:
    row = Row("again", "namespace", None, None)
    add_rows(root, row)
    add_rows(root, row, row)


def contradict_row(root: Path) -> None:
    add_rows(root, Row("air", "namespace", None, '{"other": "properties"}'))


def share_directory(root: Path) -> None:
    add_rows(root, Row("air$twin", "table", directory(root, "air$t").name, None))


def nest_directory(root: Path) -> None:
    inner = directory(root, "air$t").name + "/inner"
    lance.write_dataset(ROWS, str(root / inner))
    add_rows(root, Row("air$inner", "table", inner, None))


def say_no_location(root: Path) -> None:
    add_rows(root, Row("air$nowhere", "table", None, None))


def climb_out_of_root(root: Path) -> None:
    add_rows(root, Row("air$outside", "table", "../../etc", None))


def say_absolute_location(root: Path) -> None:
    add_rows(root, Row("air$absolute", "table", "/etc", None))


def forget_parent(root: Path) -> None:
    add_rows(root, Row("sea$deep", "namespace", None, None))


def give_bad_name(root: Path) -> None:
    add_rows(root, Row("a/b", "namespace", None, None))


def give_bad_metadata(root: Path) -> None:
    add_rows(root, Row("odd", "namespace", None, "{not json"))


def lose_directory(root: Path) -> None:
    shutil.rmtree(root / "r.lance")


def damage_table(root: Path) -> None:
    cut(newest(root / "r.lance"))


def swap_versions_of_table(root: Path) -> None:
    table = directory(root, "air$t")
    shutil.copy(oldest(table), newest(table))


def lose_data_of_table(root: Path) -> None:
    next((root / "r.lance" / "data").iterdir()).unlink()


def lose_deletions_of_table(root: Path) -> None:
    shutil.rmtree(directory(root, "air$t") / "_deletions")


def cut_data_of_table(root: Path) -> None:
    cut(next((root / "r.lance" / "data").iterdir()))


def lose_index_of_table(root: Path) -> None:
    shutil.rmtree(directory(root, "air$t") / "_indices")


def lose_versions_of_table(root: Path) -> None:
    shutil.rmtree(root / "r.lance" / "_versions")
    (root / "r.lance" / ".lance-reserved").unlink()


def orphan(root: Path) -> None:
    lance.write_dataset(ROWS, str(root / "0a1b2c3d_air$lost"))


def add_v1_table(root: Path) -> None:
    lance.write_dataset(ROWS, str(root / "old.lance"))


def hide_table(root: Path) -> None:
    (root / "r.lance" / ".lance-deregistered").write_bytes(b"")


def reserve_for_nobody(root: Path) -> None:
    for name in ("0a1b2c3d_air$x", "x.lance"):
        (root / name).mkdir()
        (root / name / ".lance-reserved").write_bytes(MARK_FOR_ROW)


def lose_newest_managed_version(root: Path) -> None:
    newest(directory(root, "air$t")).unlink()


def clean_up_managed_version(root: Path) -> None:
    oldest(directory(root, "air$t")).unlink()


def leave_managed_version_unfinished(root: Path) -> None:
    place = newest(root / "r.lance")
    staged = place.with_name(f"{place.name}-{uuid4()}")
    place.rename(staged)
    metadata = json.dumps({"manifest_path": str(staged).lstrip("/"), "naming_scheme": "V2"})
    table = lance.dataset(str(root / "__manifest"))
    table.delete("object_id = 'r$1'")
    add_rows(root, Row("r$1", "table_version", None, metadata))


def put_version_directly(root: Path) -> None:
    lance.write_dataset(ROWS, str(root / "r.lance"), mode="append")


def add_version_row_of_nothing(root: Path) -> None:
    add_rows(root, Row("air$gone$1", "table_version", None, "{}"))


def keep_versions_unmanaged(root: Path) -> None:
    DirectoryNamespace(root=str(root)).disable_version_management()
    row = json.dumps({"manifest_path": str(newest(root / "r.lance")).lstrip("/")})
    add_rows(root, *(Row(name, "table_version", None, row) for name in ("r$1", "air$gone$1")))


def leave_staged_manifest(root: Path) -> None:
    place = newest(root / "r.lance")
    shutil.copy(place, place.with_name(f"18446744073709551600.manifest-{uuid4()}"))


def leave_private_directory(root: Path) -> None:
    private = root / "r.lance" / f"_lakeroot-{uuid4().hex}"
    private.mkdir()
    shutil.copy(newest(root / "r.lance"), private)


def leave_unfinished_file(root: Path) -> None:
    (root / "r.lance" / "data" / "x.lance#12300000000").write_bytes(b"half")


Damage = Callable[[Path], None]
CASES: list[tuple[str, Damage]] = [
    ("manifest-unreadable", damage_newest_version),
    ("manifest-unreadable", lose_every_version),
    ("manifest-too-new", use_newer_features),
    ("manifest-file-missing", lose_data_file_of_manifest),
    ("manifest-file-unreadable", damage_data_file_of_manifest),
    ("manifest-index-missing", lose_index_of_manifest),
    ("history-unreadable", damage_oldest_version),
    ("history-gap", lose_version_between),
    ("history-restarted", make_catalog_anew),
    ("row-type-unknown", add_view),
    ("row-duplicate", repeat_row),
    ("row-conflict", contradict_row),
    ("row-location-shared", share_directory),
    ("row-location-shared", nest_directory),
    ("row-location-invalid", say_no_location),
    ("row-location-invalid", climb_out_of_root),
    ("row-location-invalid", say_absolute_location),
    ("row-parent-missing", forget_parent),
    ("row-name-invalid", give_bad_name),
    ("row-metadata-unreadable", give_bad_metadata),
    ("table-missing", lose_directory),
    ("table-unreadable", damage_table),
    ("table-unreadable", swap_versions_of_table),
    ("table-file-missing", lose_data_of_table),
    ("table-file-missing", lose_deletions_of_table),
    ("table-file-damaged", cut_data_of_table),
    ("table-index-missing", lose_index_of_table),
    ("table-without-version", lose_versions_of_table),
    ("directory-orphan", orphan),
    ("directory-unregistered", add_v1_table),
    ("marker-deregistered", hide_table),
    ("marker-reserved", reserve_for_nobody),
    ("leftover-staged-manifest", leave_staged_manifest),
    ("leftover-private-directory", leave_private_directory),
    ("leftover-unfinished-file", leave_unfinished_file),
]
MANAGED_CASES: list[tuple[str, Damage]] = [
    ("version-missing", lose_newest_managed_version),
    ("version-stale", clean_up_managed_version),
    ("version-unfinished", leave_managed_version_unfinished),
    ("version-direct", put_version_directly),
    ("version-row-orphan", add_version_row_of_nothing),
    ("version-row-unmanaged", keep_versions_unmanaged),
]


SHARED = {
    # Older versions of the catalog name the files of the newest.
    "manifest-file-missing": {"history-unreadable"},
    # Directories whose objects have lost their names.
    "history-restarted": {"directory-orphan", "directory-unregistered", "marker-reserved"},
}
"""What else is found, by what was done."""


def test_every_code_is_provoked_here_and_documented() -> None:
    page = (PROJECT / "docs" / "fsck.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}

    assert {code for code, _ in CASES + MANAGED_CASES} == set(KINDS)
    assert set(rows) == {*KINDS, *METASTORE_KINDS, *ICEBERG_KINDS}
    for code, kind in KINDS.items():
        assert f"| {kind.severity} |" in rows[code]
        assert ("| yes |" in rows[code]) is kind.repairable


def names(cases: list[tuple[str, Damage]]) -> list[str]:
    return [damage.__name__ for _, damage in cases]


@pytest.mark.parametrize(("code", "damage"), CASES, ids=names(CASES))
def test_damage_is_found_and_repaired_or_left_alone(root: Path, code: str, damage: Damage) -> None:
    damage(root)
    make_old(root)

    assert_found_and_repaired(root, code)


@pytest.mark.parametrize(("code", "damage"), MANAGED_CASES, ids=names(MANAGED_CASES))
def test_versions_out_of_step_are_found_and_taken_in(
    managed: Path, code: str, damage: Damage
) -> None:
    damage(managed)
    make_old(managed)

    assert_found_and_repaired(managed, code)


def assert_found_and_repaired(root: Path, code: str) -> None:
    before = files(root)
    findings = opened(root).check()

    shared = SHARED.get(code, set())
    assert {one.code for one in findings} - shared == {code}
    for one in findings:
        assert one.severity is KINDS[one.code].severity
        assert one.what
        assert one.why
        assert one.fix
        assert one.object
    assert files(root) == before
    dry = opened(root).repair(findings, dry_run=True)
    assert bool(dry) is KINDS[code].repairable
    assert files(root) == before

    done = opened(root).repair(findings)

    if KINDS[code].repairable:
        assert {one.outcome for one in done if one.finding.code == code} == {"repaired"}
        if code == "version-unfinished":
            # In its place, the version does not need what it was made of.
            assert codes(opened(root)) == ["leftover-staged-manifest"]
            opened(root).repair(opened(root).check())
        # A flat table is found by its directory, also without a row.
        by_directory = {"directory-unregistered"} & SHARED.get(code, set())
        assert set(codes(opened(root))) <= by_directory
        assert opened(root)["air.t"].count() == 18
        assert opened(root)["r"].count() in (10, 20)
        again = opened(root).repair(findings)
        assert "repaired" not in {one.outcome for one in again} or code.startswith(
            ("leftover", "version-unfinished")
        )
    else:
        assert done == []
        assert files(root) == before


def test_the_worst_comes_first(root: Path) -> None:
    for damage in (leave_staged_manifest, hide_table, lose_index_of_table, add_view):
        damage(root)
    make_old(root)

    found = [one.severity for one in opened(root).check()]

    assert found == [Severity.ERROR, Severity.WARNING, Severity.INFO, Severity.INFO]


@pytest.mark.parametrize(
    "damage",
    [orphan, hide_table, reserve_for_nobody, leave_staged_manifest, leave_private_directory],
)
def test_what_is_young_may_be_a_writers_and_is_let_be(root: Path, damage: Damage) -> None:
    make_old(root)
    damage(root)

    assert codes(opened(root)) == []


def test_a_repeated_row_goes_by_a_commit_that_says_so(root: Path) -> None:
    repeat_row(root)
    lake = opened(root, author="ada")

    lake.repair(lake.check())

    entry = lake.history(1)[0]
    assert (entry.author, entry.message) == ("ada", "Remove repeated rows")
    stored = lance.dataset(str(root / "__manifest")).to_table(filter="object_id = 'again'")
    assert stored.num_rows == 1
