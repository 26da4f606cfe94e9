"""The suite of every store, over the Iceberg catalog of others, seen from one of its namespaces.

Over Lakeroot's own server the whole suite runs in tests/conformance; here, what differs.
"""

from collections.abc import Callable
from typing import Any

import lance_namespace
import pytest

import lakeroot
from lakeroot.model import errors
from tests.asking import Lake
from tests.conformance import test_namespaces, test_registering, test_rename, test_tables
from tests.iceberg.servers import Weed, fresh_name
from tests.iceberg.under import Under

MODULES = {
    "namespaces": test_namespaces,
    "registering": test_registering,
    "rename": test_rename,
    "tables": test_tables,
}

UNSUPPORTED = (lance_namespace.UnsupportedOperationError, errors.UnsupportedOperationError)
TOGETHER = "An Iceberg catalog creates namespaces and tables one by one."
CANNOT = {
    "test_many_namespaces_are_created_in_one_commit": (UNSUPPORTED, TOGETHER),
    "test_bulk_creation_is_all_or_nothing": (UNSUPPORTED, TOGETHER),
    "test_many_tables_are_declared_in_one_commit": (UNSUPPORTED, TOGETHER),
    "test_bulk_declaration_is_all_or_nothing": (UNSUPPORTED, TOGETHER),
    "test_the_root_has_properties_of_its_own": (UNSUPPORTED, "The root has no properties."),
}

for _group, _module in MODULES.items():
    for _name, _test in vars(_module).items():
        if _name.startswith("test_") and callable(_test):
            globals()[f"{_name}_in_{_group}"] = _test


def cannot(name: str) -> tuple[tuple[type[Exception], ...], str] | None:
    """Say why a test of the suite must fail here, or nothing."""
    return CANNOT.get(name.rpartition("_in_")[0])


@pytest.fixture
def store() -> str:
    return "iceberg"


@pytest.fixture
def opened(catalog: Weed) -> Callable[[], Any]:
    parent = fresh_name()
    client = lakeroot.IcebergNamespace(**catalog.properties)
    Lake(client).create_namespace(parent)
    return lambda: Under(lakeroot.IcebergNamespace(**catalog.properties), parent)


@pytest.fixture
def namespace(opened: Callable[[], Any]) -> Any:
    return opened()


@pytest.fixture
def lake(namespace: Any) -> Lake:
    return Lake(namespace)


@pytest.fixture
def other(opened: Callable[[], Any]) -> Lake:
    return Lake(opened())
