"""Several processes on one catalog: each name has one winner, and nobody is left without theirs.

Four processes here; `LAKEROOT_RACERS=16` lets 2, 4, 8 and 16 of them race, and `-s` shows figures.
"""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import lance_namespace
import pytest

from tests.asking import Lake
from tests.iceberg.servers import Weed, fresh_name, own_server
from tests.races.racing import Client, Race, Racers, Told
from tests.s3 import S3
from tests.server.processes import served

MOST = int(os.environ.get("LAKEROOT_RACERS", "4"))
AT_LENGTH = MOST > 4
SIZES = [size for size in (2, 4, 8, 16) if size <= MOST] if AT_LENGTH else [MOST]
ROUNDS, CROWD = (12, 12) if AT_LENGTH else (3, 4)
DIRECTORY, METASTORE = "lakeroot.DirectoryNamespace", "lakeroot.DeltaCatNamespace"
ICEBERG, REFERENCE = "lakeroot.IcebergNamespace", "dir"
V1, V2 = {"manifest_enabled": "false"}, {"dir_listing_enabled": "false"}
MANAGED = {"table_version_management": "true"}
# What one who comes second may be told: it is there, it is gone, or somebody was quicker.
SECOND = {
    "shared": {5, 14},
    "space": {2, 14},
    "drop": {4, 14},
    "rename": {4, 14},
    "deregister": {4, 14},
}


# One worker runs them all: the processes are started once.
pytestmark = pytest.mark.xdist_group("races")


@pytest.fixture(scope="module")
def racers() -> Iterator[Racers]:
    found = Racers(MOST)
    yield found
    found.close()


@contextmanager
def _on_lance_server(root: str) -> Iterator[Client]:
    with served("--workers", "2", root=root) as server:
        yield "rest", {"uri": server.url}


@contextmanager
def _on_iceberg_server(directory: Path) -> Iterator[Client]:
    with own_server(directory) as endpoint:
        yield ICEBERG, {"endpoint": endpoint, "retry_backoff": "5"}


Place = Callable[[Path], AbstractContextManager[Client]]


def _in(implementation: str, **properties: str) -> Place:
    return lambda path: nullcontext((implementation, {"root": str(path / "lake"), **properties}))


PLACES: dict[str, Place] = {
    "v2": _in(DIRECTORY, **V2),
    "compat": _in(DIRECTORY),
    "managed": _in(DIRECTORY, **MANAGED),
    "metastore": _in(METASTORE),
    "metastore-deltacat-2": _in(METASTORE, layout="deltacat-2"),
    "server": lambda path: _on_lance_server(str(path / "lake")),
    "iceberg": lambda path: _on_iceberg_server(path),
}


def prepared(client: Client, race: Race) -> Lake:
    """Make the namespace that they race in; see "The first commit" in docs/directory.md."""
    lake = Lake(lance_namespace.connect(*client))
    if race.parent:
        lake.create_namespace(*race.parent)
    return lake


def judge(race: Race, told: list[Told], lake: Lake) -> None:
    """One winner for every name, everybody's own names, and nothing else in the catalog."""
    codes: dict[tuple[str, str], list[int]] = defaultdict(list)
    own: set[str] = set()
    in_doubt: set[str] = set()
    there: set[str] = set()
    for number, one in enumerate(told):
        is_reference = race.clients[number][0] == REFERENCE
        for step, name, code in one.answers:
            if step != "own":
                codes[step, name].append(code)
            elif code == -1:
                own.add(name)
            else:
                # The reference gives up when it was overtaken too often; nobody else may.
                assert is_reference and code == 14, (number, name, code)  # noqa: PT018
                in_doubt.add(name)
            if step == "rename" and code == -1:
                there.add(f"moved-{number}-{name.rpartition('-')[2]}")
    for (step, name), answers in codes.items():
        assert Counter(answers)[-1] == 1, (step, name, answers)
        assert set(answers) - {-1} <= SECOND[step], (step, name, answers)
    if not race.takes_away:
        there |= {name for step, name in codes if step == "shared"}
    seen = lake.tables(*race.parent)
    assert len(seen) == len(set(seen))
    assert own | there <= set(seen) <= own | there | in_doubt
    if race.makes_namespaces:
        spaces = {name for step, name in codes if step == "space"}
        assert len(spaces) == race.rounds
        assert spaces <= set(lake.namespaces())
    sys.stdout.write(
        f"\n{len(told)} processes, {sum(len(one.answers) for one in told)} calls, "
        f"{len(in_doubt)} given up by the reference; slowest name of one's own "
        f"{max(one.longest_seconds for one in told) * 1000:.0f} ms\n"
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", PLACES)
def test_of_several_processes_one_wins_and_none_starves(
    racers: Racers, tmp_path: Path, kind: str, size: int
) -> None:
    with PLACES[kind](tmp_path) as client:
        race = Race((client,) * size, ROUNDS, CROWD)
        lake = prepared(client, race)
        judge(race, racers.run(race), lake)


@pytest.mark.parametrize("size", SIZES)
def test_one_wins_in_a_v1_directory_and_everybody_gets_names_of_their_own(
    racers: Racers, tmp_path: Path, size: int
) -> None:
    client: Client = (DIRECTORY, {"root": str(tmp_path / "lake"), **V1})
    race = Race((client,) * size, ROUNDS, CROWD, (), makes_namespaces=False, takes_away=())
    judge(race, racers.run(race), prepared(client, race))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["v1", "v2", "compat"])
def test_one_wins_among_processes_of_both_implementations(
    racers: Racers, tmp_path: Path, mode: str, size: int
) -> None:
    # Not asked: how names are taken away. Two drops of the reference both succeed.
    given = {"root": str(tmp_path / "lake"), **{"v1": V1, "v2": V2, "compat": {}}[mode]}
    ours, theirs = (DIRECTORY, given), (REFERENCE, given)
    flat = mode == "v1"
    race = Race(
        (ours, theirs) * (size // 2),
        ROUNDS,
        CROWD,
        () if flat else ("race",),
        makes_namespaces=not flat,
        takes_away=(),
    )
    lake = prepared(ours, race)
    judge(race, racers.run(race), lake)
    assert sorted(Lake(lance_namespace.connect(*theirs)).tables(*race.parent)) == sorted(
        lake.tables(*race.parent)
    )


@pytest.mark.parametrize("size", SIZES[-1:])
def test_one_wins_in_a_bucket(racers: Racers, s3: S3, size: int) -> None:
    client = (DIRECTORY, {"root": f"s3://lake/{fresh_name()}", **s3.properties, **V2})
    race = Race((client,) * size, ROUNDS, CROWD)
    lake = prepared(client, race)
    judge(race, racers.run(race), lake)


@pytest.mark.parametrize("size", SIZES[-1:])
def test_one_wins_in_the_iceberg_catalog_of_others(
    racers: Racers, catalog: Weed, size: int
) -> None:
    # Not asked: namespaces, which have no winner there, and removals.
    client = (ICEBERG, {**catalog.properties, "max_retries": "10"})
    race = Race(
        (client,) * size, ROUNDS, CROWD, (fresh_name(),), makes_namespaces=False, takes_away=()
    )
    lake = prepared(client, race)
    judge(race, racers.run(race), lake)


@pytest.mark.parametrize(
    ("step", "codes"),
    [("shared", [-1, -1]), ("shared", [5, 14]), ("drop", [-1, 5]), ("own", [-1, 14])],
    ids=["two winners", "no winner", "a wrong refusal", "one who starves"],
)
def test_the_judge_is_one_who_can_say_no(tmp_path: Path, step: str, codes: list[int]) -> None:
    client: Client = (DIRECTORY, {"root": str(tmp_path / "lake")})
    race = Race((client,) * 2, 1, 0, makes_namespaces=False)
    lake = prepared(client, race)

    with pytest.raises(AssertionError):
        judge(race, [Told([(step, "x-0", code)]) for code in codes], lake)
