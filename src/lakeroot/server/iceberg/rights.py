"""Whether the caller may do this: decided on parsed identifiers, before the catalog is asked."""

from lakeroot.server.iceberg.calls import Call, names_in, table_in
from lakeroot.server.iceberg.errors import bad_request
from lakeroot.server.iceberg.routes import On
from lakeroot.server.identity.denials import (
    require_creation,
    require_namespace,
    require_sight,
    require_table,
)


def check(call: Call) -> None:
    """Let the operation pass, or raise the denial that fits; what is not listed is denied."""
    access, role = call.request.access, call.route.role
    match call.route.on:
        case On.NOTHING:
            return
        case On.PARENT | On.LISTED | On.SEEN:
            require_sight(access, call.namespace)
        case On.NAMESPACE:
            require_namespace(access, call.namespace, role)
        case On.NEW_NAMESPACE:
            require_creation(access, names_in(call.body.get("namespace"), "namespace"), role)
        case On.TABLE:
            require_table(access, call.identifier, role)
        case On.NEW_TABLE:
            require_creation(access, (*call.namespace, call.text("name")), role)
        case On.RENAMED:
            require_table(access, table_in(call.body.get("source"), "source"), role)
            require_creation(access, table_in(call.body.get("destination"), "destination"), role)
        case On.MEMBERS:
            members = call.body.get("table-changes")
            if not isinstance(members, list):
                raise bad_request("Cannot parse request: table-changes is not a list")
            for member in members:
                given = member.get("identifier") if isinstance(member, dict) else None
                require_table(access, table_in(given, "identifier"), role)
