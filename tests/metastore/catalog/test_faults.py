"""Crashes and races of commits of the metastore catalog."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakeroot.model.commits import (
    AlterTable,
    Commit,
    CreateNamespace,
    CreateTableVersions,
    DeclareTable,
    DropNamespace,
    DropTable,
    RenameTable,
)
from lakeroot.model.errors import LakerootError
from lakeroot.model.records import TableVersion
from lakeroot.objects import parse_root
from lakeroot.storage.deltacat import DeltaCatStore
from tests.metastore.catalog.test_against_memory import picture
from tests.metastore.memory import Crash, CrashingObjects, MemoryObjects

ROOT = parse_root("memory://faults")
WORK = [
    Commit((CreateNamespace(("a",)), CreateNamespace(("b",)))),
    Commit((DeclareTable(("a", "t"), "l1", {"x": "1"}), DeclareTable(("u",), "l2"))),
    Commit((CreateTableVersions(("a", "t"), (TableVersion(1, "m1", 5),)),)),
    Commit(
        (
            CreateTableVersions(("a", "t"), (TableVersion(2, "m2", 5),)),
            CreateTableVersions(("u",), (TableVersion(1, "m1", 5),)),
        )
    ),
    Commit((RenameTable(("a", "t"), ("b", "t")), AlterTable(("u",), {"y": "2"}))),
    Commit((DropTable(("u",)), DropNamespace(("a",)))),
]


def expected() -> list[Any]:
    store = DeltaCatStore(ROOT, objects=MemoryObjects())
    states = [picture(store)]
    for commit in WORK:
        store.commit(commit)
        states.append(picture(store))
    return states


def work(objects: Any, layout: str, finished: list[Commit]) -> None:
    store = DeltaCatStore(ROOT, layout=layout, objects=objects)
    for commit in WORK:
        store.commit(commit)
        finished.append(commit)


@pytest.mark.parametrize("layout", ["spec", "deltacat-2"])
@pytest.mark.parametrize("how", ["before", "after", "torn"])
def test_a_crash_at_any_write_leaves_a_commit_whole_or_undone(how: str, layout: str) -> None:
    states = expected()
    counting: Any = CrashingObjects(MemoryObjects(), -1, how)
    work(counting, layout, [])
    for at in range(1, counting.writes + 1):
        objects = MemoryObjects()
        crashing: Any = CrashingObjects(objects, at, how)
        finished: list[Commit] = []
        with pytest.raises(Crash):
            work(crashing, layout, finished)
        done = len(finished)
        survivor = DeltaCatStore(ROOT, layout=layout, objects=objects)
        found = picture(survivor)
        assert found in states[done : done + 2], at
        for commit in WORK[states.index(found) :]:
            survivor.commit(commit)
        assert picture(DeltaCatStore(ROOT, objects=objects)) == states[-1]


@pytest.mark.parametrize("layout", ["spec", "deltacat-2"])
def test_of_many_that_want_one_name_one_place_or_one_version_one_wins(layout: str) -> None:
    objects = MemoryObjects()
    first = DeltaCatStore(ROOT, layout=layout, objects=objects)
    first.commit(Commit((CreateNamespace(("a",)), DeclareTable(("a", "t"), "l"))))
    contests = [
        lambda n: DeclareTable(("a", "name"), f"place-{n}"),
        lambda n: DeclareTable(("a", f"name-{n}"), "place"),
        lambda n: CreateTableVersions(("a", "t"), (TableVersion(1, f"m{n}"),)),
        lambda n: CreateNamespace(("x",)) if n % 2 else DeclareTable(("x",), f"at-{n}"),
    ]
    for contest in contests:
        stores = [
            DeltaCatStore(ROOT, layout=layout, objects=MemoryObjects(objects.held))
            for _ in range(6)
        ]

        def enter(number: int, contest: Any = contest, stores: Any = stores) -> bool:
            try:
                stores[number].commit(Commit((contest(number),)))
            except LakerootError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(enter, range(6))) == 1
    picture(first)
