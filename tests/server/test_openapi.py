"""Both faces against generated requests: whatever is sent, never a 5xx and never another shape."""

from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings

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
# Few examples of each operation, always the same ones: a longer run is a flag away.
FEW = settings(
    max_examples=4,
    derandomize=True,
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


@LANCE.parametrize()
@FEW
def test_lance_rest_never_fails(case: Any, address: str) -> None:
    _check(case, address, lambda body: isinstance(body["code"], int) and "error" in body)


@ICEBERG.parametrize()
@FEW
def test_iceberg_rest_never_fails(case: Any, address: str) -> None:
    _check(case, address, lambda body: {"message", "type", "code"} <= set(body["error"]))


def test_the_documents_are_served(address: str) -> None:
    http = Client(address)
    lance = http.get("/openapi.json").json
    iceberg = http.get("/iceberg-openapi.json").json
    assert sum(len(path) for path in lance["paths"].values()) == len(LANCE_ROUTES)
    assert sum(len(path) for path in iceberg["paths"].values()) == len(ICEBERG_ROUTES)
