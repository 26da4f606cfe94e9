"""What clients of real catalogs saw can be explained: every answer, in some order.

Short here; `make trust` makes 20,000 calls with several seeds on each catalog.
"""

from pathlib import Path

import pytest

from tests.histories.catalogs import KINDS
from tests.histories.ledgers import LEDGERS, transact
from tests.histories.running import Judged, by_processes, by_threads

SHORT = {"server": 400, "iceberg": 240}


def is_explained(found: Judged, at_least: int) -> None:
    assert found.calls >= at_least
    assert found.strange == []
    assert not found.wrong, "\n\n".join(found.wrong)


@pytest.mark.parametrize("catalog", KINDS)
def test_what_threads_see_is_linearizable(catalog: str, tmp_path: Path) -> None:
    count = SHORT.get(catalog, 780)
    is_explained(by_threads(catalog, tmp_path, 1, count), count // 2)


def test_what_processes_see_is_linearizable_though_one_is_killed(tmp_path: Path) -> None:
    is_explained(by_processes("dir-compat", tmp_path, 2, 600), 300)


@pytest.mark.parametrize("catalog", LEDGERS)
def test_transactions_and_the_past_are_snapshot_isolated(catalog: str, tmp_path: Path) -> None:
    count = 60 if catalog == "dir-managed" else 360
    is_explained(transact(catalog, tmp_path, 1, count), count)
