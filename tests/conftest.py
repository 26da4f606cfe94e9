"""What suites of several parts share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.iceberg.servers import Weed, own_server, weed
from tests.s3 import S3, running

# A test that fails must fail for everybody: the same examples in every run, unless asked to search.
# A busy machine is no reason to fail either.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", deadline=None, print_blob=True)
settings.load_profile("thorough" if os.environ.get("LAKEROOT_TESTS") == "thorough" else "same")


@pytest.fixture(scope="session", autouse=True)
def hasty() -> Iterator[None]:
    """Wait for no disk: a power cut in the middle of the tests loses nothing of value."""
    waiting, os.fsync = os.fsync, lambda fd: None
    yield
    os.fsync = waiting


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A real S3 server, one for the whole session."""
    with running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weed]:
    """A real Iceberg REST catalog with its storage, one for the whole session."""
    with weed(tmp_path_factory.mktemp("weed")) as running_weed:
        yield running_weed


@pytest.fixture
def own_catalog(tmp_path: Path) -> Iterator[str]:
    """Lakeroot's own server as an Iceberg REST catalog, empty."""
    with own_server(tmp_path / "own") as endpoint:
        yield endpoint
