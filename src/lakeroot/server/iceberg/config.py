"""What a client must know before its first real call."""

from lakeroot.server.iceberg.calls import Call
from lakeroot.server.iceberg.catalog import Catalog
from lakeroot.server.iceberg.idempotency import LIFETIME
from lakeroot.server.iceberg.routes import endpoints
from lakeroot.server.wire import Response, json_response


def get_config(catalog: Catalog, _: Call) -> Response:
    """Which routes there are, and how this server wants to be used."""
    overrides = {"namespace-separator": "%1F"}
    if catalog.settings.scan_planning:
        # Two names of the same thing: PyIceberg up to 0.11 knew it by the other one.
        overrides["scan-planning-mode"] = "server"
        overrides["rest-scan-planning-enabled"] = "true"
    return json_response(
        {
            # Lakeroot's own client needs no placeholder table where Lance tables are at home.
            "defaults": {"lakeroot.native-lance-tables": "true"},
            "overrides": overrides,
            "endpoints": endpoints(),
            "idempotency-key-lifetime": LIFETIME,
        }
    )
