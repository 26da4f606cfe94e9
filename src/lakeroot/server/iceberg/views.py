"""Views: this catalog keeps none, and says so in the way clients understand."""

from lakeroot.server.iceberg.calls import Call
from lakeroot.server.iceberg.catalog import Catalog
from lakeroot.server.iceberg.errors import no_such_namespace, no_such_view, unsupported
from lakeroot.server.wire import Response, json_response


def list_views(catalog: Catalog, call: Call) -> Response:
    """No views."""
    if not catalog.has_namespace(call.namespace):
        raise no_such_namespace(call.namespace)
    return json_response({"identifiers": [], "next-page-token": None})


def create_view(_: Catalog, __: Call) -> Response:
    """A view cannot be kept."""
    raise unsupported("This catalog has no views")


def no_view(_: Catalog, call: Call) -> Response:
    """No view has this name."""
    raise no_such_view(call.identifier)
