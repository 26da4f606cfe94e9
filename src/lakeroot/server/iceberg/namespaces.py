"""Namespaces as Iceberg clients see them."""

from typing import Any

from lance_namespace import (
    CreateNamespaceRequest,
    DropNamespaceRequest,
    ListNamespacesRequest,
)

from lakeroot.server.iceberg.calls import Call, decoded_again, names_in
from lakeroot.server.iceberg.catalog import Catalog
from lakeroot.server.iceberg.errors import no_such_namespace, unprocessable
from lakeroot.server.iceberg.properties import kept, shown
from lakeroot.server.identity.denials import require_sight
from lakeroot.server.listing import namespaces_for, whole
from lakeroot.server.wire import Response, json_response


def list_namespaces(catalog: Catalog, call: Call) -> Response:
    """The children of a namespace, as full paths."""
    parent = call.namespace
    if parent and not catalog.has_namespace(parent):
        again = decoded_again(parent)
        if again is None or not catalog.has_namespace(again):
            raise no_such_namespace(parent)
        require_sight(call.request.access, again)
        parent = again
    after, limit = call.page()
    names, token = whole(
        lambda at, size: namespaces_for(
            catalog.namespace,
            ListNamespacesRequest(id=list(parent), page_token=at, limit=size),
            call.request.access,
        ),
        after,
        limit,
    )
    return json_response(
        {"namespaces": [[*parent, name] for name in names], "next-page-token": token}
    )


def create_namespace(catalog: Catalog, call: Call) -> Response:
    """Make a namespace, with properties."""
    identifier = names_in(call.body.get("namespace"), "namespace")
    call.namespace = identifier
    properties = call.strings("properties")
    catalog.namespace.create_namespace(
        CreateNamespaceRequest(id=list(identifier), properties=kept(properties))
    )
    return json_response({"namespace": list(identifier), "properties": properties})


def load_namespace(catalog: Catalog, call: Call) -> Response:
    """A namespace and its properties."""
    properties = shown(catalog.namespace_properties(call.namespace))
    return json_response({"namespace": list(call.namespace), "properties": properties})


def namespace_exists(catalog: Catalog, call: Call) -> Response:
    """No answer but the status."""
    if not catalog.has_namespace(call.namespace):
        raise no_such_namespace(call.namespace)
    return Response(204)


def drop_namespace(catalog: Catalog, call: Call) -> Response:
    """Remove an empty namespace."""
    if not catalog.has_namespace(call.namespace):
        raise no_such_namespace(call.namespace)
    catalog.namespace.drop_namespace(DropNamespaceRequest(id=list(call.namespace)))
    return Response(204)


def update_properties(catalog: Catalog, call: Call) -> Response:
    """Set and remove properties of a namespace, in one step."""
    updates = call.strings("updates")
    removals = call.body.get("removals") or []
    if not isinstance(removals, list) or not all(isinstance(key, str) for key in removals):
        raise unprocessable("removals is not a list of names")
    both = sorted(set(updates) & set(removals))
    if both or len(set(removals)) != len(removals):
        raise unprocessable(f"Invalid namespace update: cannot both update and remove keys: {both}")
    answer: dict[str, Any] = {}

    def changed(stored: dict[str, str]) -> dict[str, str]:
        before = shown(stored)
        answer["updated"] = sorted(updates)
        answer["removed"] = sorted(set(removals) & set(before))
        answer["missing"] = sorted(set(removals) - set(before))
        return kept({k: v for k, v in before.items() if k not in removals} | updates)

    catalog.alter_namespace(call.namespace, changed)
    return json_response(answer)
