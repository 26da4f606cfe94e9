"""The table of routes is whole, and says what the published client says."""

import inspect
import re
from pathlib import Path

import lance_namespace_urllib3_client.api as published
import pytest
from lance_namespace import LanceNamespace

from lakeroot.server.lance.openapi import lance_document
from lakeroot.server.lance.routes import NOT_ROUTED, ROUTES, Body, Matcher, Route

OPERATIONS = {
    name
    for name, member in vars(LanceNamespace).items()
    if inspect.isfunction(member) and not name.startswith("_") and name != "namespace_id"
}


def test_every_operation_of_the_interface_is_routed_once() -> None:
    routed = [route.operation for route in ROUTES]
    assert sorted(routed) == sorted(OPERATIONS - NOT_ROUTED)


def _published_calls() -> dict[str, tuple[str, str, frozenset[str]]]:
    """Method, path and query fields of every operation, read in the generated client's source."""
    found = {}
    for file in Path(published.__file__).parent.glob("*_api.py"):
        text = file.read_text()
        for match in re.finditer(r"def _(\w+)_serialize\((.*?)(?=\n    def |\Z)", text, re.DOTALL):
            name, source = match.groups()
            method = re.search(r"method='(\w+)'", source)
            path = re.search(r"resource_path='([^']+)'", source)
            assert method is not None
            assert path is not None
            query = re.findall(r"_query_params.append\(\('(\w+)'", source)
            found[name] = (method[1], path[1], frozenset(query) - {"delimiter"})
    return found


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_a_route_is_what_the_published_client_calls(route: Route) -> None:
    method, path, query = _published_calls()[route.operation]
    assert (route.method, route.path, frozenset(route.query)) == (method, path, query)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_a_path_leads_to_its_route_whatever_the_names_are(route: Route) -> None:
    matcher = Matcher(ROUTES)
    for name in ("t", "version", "batch-create", "index", "list", "*"):
        path = route.path.replace("{id}", name).replace("{index_name}", name)
        found = matcher.routes_of(path.removeprefix("/v1/").split("/"))
        assert found is not None
        assert found[route.method].operation == route.operation


def test_every_field_named_in_a_query_is_a_field_of_the_request() -> None:
    for route in ROUTES:
        assert set(route.query) <= set(route.request.model_fields)
        if route.body is Body.MAP:
            assert "metadata" in route.request.model_fields


def test_the_openapi_document_describes_every_route() -> None:
    document = lance_document()
    described = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert described == {route.operation for route in ROUTES}
