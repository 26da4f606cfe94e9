"""After a writer was killed and the garbage collected, a table holds what its versions are made of.

What a version is made of is asked of Lance, not of us.
"""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fsck.conftest import ROWS, make_old
from tests.fsck.killing import IN_TRANSACTION, MOMENTS, files_in, kill_at, opened, orphans

NOW = timedelta(0)
CATALOGS: dict[str, tuple[str, dict[str, str]]] = {
    "directory": ("DirectoryNamespace", {}),
    "managed directory": ("DirectoryNamespace", {"table_version_management": "true"}),
    "metastore": ("DeltaCatNamespace", {"table_version_management": "false"}),
    "managed metastore": ("DeltaCatNamespace", {}),
    "managed metastore of deltacat": ("DeltaCatNamespace", {"layout": "deltacat-2"}),
}


# Each is a process that has to start: every third of them, each catalog's another third.
EVERY = int(os.environ.get("LAKEROOT_KILLS", "3"))
CASES = [
    (catalog, moment)
    for number, catalog in enumerate(CATALOGS)
    for moment in list(MOMENTS)[number % EVERY :: EVERY]
    if moment != IN_TRANSACTION or "managed" in catalog
]


@pytest.mark.parametrize(("catalog", "moment"), CASES)
def test_nothing_is_left_of_a_writer_that_was_killed(
    tmp_path: Path, catalog: str, moment: str
) -> None:
    kind, given = CATALOGS[catalog]
    properties = {**given, "root": str(tmp_path)}
    lake = opened(kind, properties)
    lake.create_namespace("air")
    lake.create_table("air.t", ROWS)
    place = Path(lake["air.t"].dataset().uri.removeprefix("file://"))
    kill_at(moment, kind, properties, "air.t", place)
    make_old(tmp_path)

    planned = opened(kind, properties).gc(NOW, dry_run=True)
    before = files_in(place)
    done = opened(kind, properties).gc(NOW)

    fresh = opened(kind, properties)
    findings = fresh.check(NOW)
    fresh.repair(findings)
    assert [one.code for one in findings if not one.repairable] == []
    assert [one.code for one in fresh.check(NOW)] == []
    assert orphans(place) == set()
    assert fresh["air.t"].to_arrow().num_rows == fresh["air.t"].count() > 0
    inside = {one.path for one in done.garbage if one.path.startswith(place.name)}
    assert inside <= {one.path for one in planned.garbage}
    assert files_in(place) <= before | {"_versions/latest_version_hint.json"}
