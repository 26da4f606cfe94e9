"""While it is not known what a table needs, nothing goes from it."""

import shutil
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from lakeroot.storage.lance_dir import protobuf
from lakeroot.storage.lance_dir.manifest_facts import require_names
from lakeroot.storage.lance_dir.protobuf import MalformedError
from lakeroot.storage.lance_dir.version_file import FOOTER, MAGIC, READER_FEATURES
from tests.fsck.conftest import ROWS, make_old, newest
from tests.fsck.killing import files_in
from tests.fsck.lost import Place, leave_everything, lose, merge
from tests.fsck.test_killed_writers import CATALOGS

NOW = timedelta(0)
MANAGED = [name for name in CATALOGS if "managed" in name]


@pytest.fixture(params=CATALOGS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "lake")


def test_nothing_goes_while_a_version_cannot_be_read(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    left = leave_everything(place.table)
    side = newest(place.table / "tree" / "team" / "side")
    side.write_bytes(side.read_bytes()[:-20])
    make_old(place.root)

    gone = place.gc()

    assert all("manifest" in path or path.startswith("_lakeroot-") for path in gone)
    assert {path for path in left if path.startswith(("data/", "_indices/"))} <= files_in(
        place.table
    )
    assert f"tree/team/side/_versions/{side.name}" in caplog.text


def test_nothing_goes_while_the_newest_version_is_lost(place: Place) -> None:
    newest(place.table).unlink()
    make_old(place.root)
    before = files_in(place.table)

    assert place.gc() == set()

    assert files_in(place.table) == before


def test_nothing_goes_while_the_newest_version_of_a_branch_is_lost(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    lose(place.table, merge)
    newest(place.table / "tree" / "team" / "side").unlink()
    make_old(place.root)
    before = files_in(place.table)

    assert place.gc() == set()

    assert files_in(place.table) == before
    assert place.table.name in caplog.text
    assert "the newest version of its branch team/side is missing" in caplog.text


def test_nothing_goes_while_a_branch_has_lost_all_its_versions(place: Place) -> None:
    shutil.rmtree(place.table / "tree" / "team" / "side" / "_versions")
    make_old(place.root)
    before = files_in(place.table)

    assert place.gc() == set()

    assert files_in(place.table) == before


@pytest.mark.parametrize("branch", [None, "team/side"])
def test_nothing_goes_while_a_version_is_lost_that_a_tag_names(
    place: Place, caplog: pytest.LogCaptureFixture, branch: str | None
) -> None:
    dataset = lance.dataset(str(place.table)).checkout_version((branch, None))
    number = dataset.version
    lance.dataset(str(place.table)).tags.create("kept", (branch, number))
    where = place.table / "tree" / branch if branch else place.table
    tagged = newest(where)
    if branch:
        lance.write_dataset(ROWS, dataset, mode="overwrite")
    else:
        place.lake["air.t"].overwrite(ROWS)
    tagged.unlink()
    make_old(place.root)
    before = files_in(place.table)

    assert place.gc() == set()

    assert files_in(place.table) == before
    assert f"_refs/tags/kept.json names version {number}, which is missing" in caplog.text


def test_nothing_goes_of_a_table_that_has_lost_all_its_versions(place: Place) -> None:
    shutil.rmtree(place.table / "_versions")
    make_old(place.root)
    before = files_in(place.table)

    assert place.gc() == set()

    assert files_in(place.table) == before


def test_what_a_first_write_has_left_in_a_declared_table_goes(place: Place) -> None:
    location = place.lake.namespace.declare_table({"id": ["air", "new"]}).location
    table = Path(location.removeprefix("file://"))
    table.mkdir(exist_ok=True)
    marked = files_in(table)
    copy = place.root.parent / "copy"
    lance.write_dataset(ROWS, str(copy))
    shutil.rmtree(copy / "_versions")
    shutil.copytree(copy, table, dirs_exist_ok=True)
    make_old(place.root)

    place.lake.gc(NOW)

    assert files_in(table) == marked
    assert place.lake.check(NOW) == []
    assert place.lake.create_table("air.new", ROWS, mode="overwrite").count() == 10


@pytest.mark.parametrize("features", [64, 1 << 20])
def test_a_version_with_features_of_the_future_is_not_understood(
    tmp_path: Path, features: int
) -> None:
    lance.write_dataset(ROWS, str(tmp_path))
    content = newest(tmp_path).read_bytes()
    position = FOOTER.unpack(content[-FOOTER.size :])[0]
    manifest = protobuf.unframed(content, position) + protobuf.number(READER_FEATURES, features)
    changed = content[:position] + protobuf.framed(manifest)
    changed += FOOTER.pack(position, 0, 2, MAGIC)

    assert len(require_names(content, set())) == 2
    with pytest.raises(MalformedError, match="features"):
        require_names(changed, set())
