"""What operations cost in calls to the storage, whatever the size of a catalog is."""

import pytest

from lakeroot.metastore import ManifestEntry, Metastore, foreign, manifest_of

from .memory import CountingObjects, MemoryObjects

TABLES = 300
WARM_GET, APPEND, LIST, COLD_GET = 5, 30, 25, 15


@pytest.fixture(autouse=True)
def _without_the_wide_look(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twice a minute a read looks further for other writers; how often that is, depends on the load.
    monkeypatch.setattr(foreign, "WIDE_EVERY_NS", 10**18)


@pytest.fixture
def counting(layout: str) -> CountingObjects:
    return CountingObjects(MemoryObjects())


@pytest.fixture
def metastore(counting: CountingObjects, layout: str) -> Metastore:
    return Metastore(counting, layout=layout)  # type: ignore[arg-type]


def create_tables(metastore: Metastore, start: int, end: int) -> None:
    with metastore.transaction() as txn:
        if txn.find_namespace("n") is None:
            txn.create_namespace("n")
        for number in range(start, end):
            txn.create_table("n", f"t{number}")


def append(metastore: Metastore, table: str) -> None:
    with metastore.transaction() as txn:
        txn.append_delta(txn.stream("n", table), manifest_of([ManifestEntry("data/x.pq")]))


def costs(metastore: Metastore, counting: CountingObjects) -> dict[str, int]:
    found = {}
    append(metastore, "t1")
    counting.take()
    metastore.view().table("n", "t1")
    found["get"] = counting.take()
    append(metastore, "t1")
    found["append"] = counting.take()
    metastore.view().tables("n")
    found["list"] = counting.take()
    metastore.checkpoint()
    counting.take()
    Metastore(counting).view().table("n", "t1")  # type: ignore[arg-type]
    found["cold get"] = counting.take()
    return found


def test_costs_are_small_and_flat_in_tables_and_revisions(
    metastore: Metastore, counting: CountingObjects
) -> None:
    create_tables(metastore, 0, 10)
    small = costs(metastore, counting)
    create_tables(metastore, 10, TABLES)
    for _ in range(300):
        append(metastore, "t1")
    large = costs(metastore, counting)

    for found in (small, large):
        assert found["get"] <= WARM_GET
        assert found["append"] <= APPEND
        assert found["list"] <= LIST
        assert found["cold get"] <= COLD_GET
    for what, calls in large.items():
        # A minute may pass between the two, and so one more directory of other writers' logs.
        assert calls <= small[what] + 3


def test_costs_are_small_where_deltacat_has_been_too() -> None:
    counting = CountingObjects(MemoryObjects())
    metastore = Metastore(counting, layout="deltacat-2")  # type: ignore[arg-type]
    counting.below.put("version/2.0.0.post4.1794780603903589483", b"")
    create_tables(metastore, 0, 20)
    found = costs(metastore, counting)

    assert metastore.log.has_strangers
    assert found["get"] <= WARM_GET
    assert found["append"] <= APPEND
    assert found["list"] <= LIST


def test_a_cold_open_reads_a_checkpoint_and_not_the_history(
    metastore: Metastore, counting: CountingObjects
) -> None:
    create_tables(metastore, 0, 2)
    for _ in range(600):
        append(metastore, "t1")
    counting.take()
    view = Metastore(counting).view()  # type: ignore[arg-type]

    assert len(view.tables("n")) == 2
    assert counting.take() < 300
