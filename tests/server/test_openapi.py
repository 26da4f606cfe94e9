"""Both faces against generated requests: whatever is sent, never a 5xx and never another shape."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from lakeroot.server.bodies import ARROW_STREAM
from lakeroot.server.iceberg.openapi import iceberg_document
from lakeroot.server.iceberg.routes import ROUTES as ICEBERG_ROUTES
from lakeroot.server.lance.openapi import lance_document
from lakeroot.server.lance.routes import ROUTES as LANCE_ROUTES
from tests.server.http import Client

# Arbitrary bytes go out as they are under the name of an Arrow stream.
schemathesis.serializer.alias(ARROW_STREAM, "application/octet-stream")

LANCE = schemathesis.openapi.from_dict(lance_document())
ICEBERG = schemathesis.openapi.from_dict(iceberg_document())
# Few examples of each operation, always the same ones; a longer run is a variable away.
MANY = int(os.environ.get("LAKEROOT_EXAMPLES", "0"))
FEW = settings(
    max_examples=MANY or 4,
    derandomize=not MANY,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from lakeroot.server import Settings, serving

    root = tmp_path_factory.mktemp("generated") / "catalog"
    chosen = Settings(
        "lakeroot.DirectoryNamespace", {"root": str(root)}, port=0, log_requests=False
    )
    with serving(chosen) as url:
        Client(url).get("/iceberg/v1/config")  # the libraries of this face are loaded once
        yield url


def _check(case: Any, address: str, is_shaped: Callable[[Any], bool]) -> None:
    answer = case.call(base_url=address)
    assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text}"
    if answer.status_code >= 400 and case.method.upper() != "HEAD":
        assert is_shaped(answer.json()), answer.text
    for leak in ("Traceback", "site-packages", ".rs:"):
        assert leak not in answer.text


def _operations(schema: Any) -> list[Any]:
    """Every operation as a parameter with a name of its own: xdist runs a name only once."""
    found = [result.ok() for result in schema.get_all_operations()]
    return [pytest.param(operation, id=operation.label) for operation in found]


def _generated(operation: Any, address: str, is_shaped: Callable[[Any], bool]) -> None:
    @FEW
    @given(case=operation.as_strategy())
    def never_fails(case: Any) -> None:
        _check(case, address, is_shaped)

    never_fails()


@pytest.mark.parametrize("operation", _operations(LANCE))
def test_lance_rest_never_fails(operation: Any, address: str) -> None:
    _generated(operation, address, lambda body: isinstance(body["code"], int) and "error" in body)


@pytest.mark.parametrize("operation", _operations(ICEBERG))
def test_iceberg_rest_never_fails(operation: Any, address: str) -> None:
    _generated(operation, address, lambda body: {"message", "type", "code"} <= set(body["error"]))


def test_every_operation_of_both_documents_is_tried() -> None:
    assert len(_operations(LANCE)) == len(LANCE_ROUTES)
    assert len(_operations(ICEBERG)) == len(ICEBERG_ROUTES)


def test_the_documents_are_served(address: str) -> None:
    http = Client(address)
    lance = http.get("/openapi.json").json
    iceberg = http.get("/iceberg-openapi.json").json
    assert sum(len(path) for path in lance["paths"].values()) == len(LANCE_ROUTES)
    assert sum(len(path) for path in iceberg["paths"].values()) == len(ICEBERG_ROUTES)
