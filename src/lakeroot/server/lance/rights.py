"""Whether the caller may do this: decided on parsed identifiers, before the catalog is asked."""

from typing import Any, Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import ROOT, Identifier, identifier_of
from lakeroot.server.identity.access import Access, Role
from lakeroot.server.identity.denials import (
    require_creation,
    require_namespace,
    require_sight,
    require_table,
)
from lakeroot.server.lance.routes import On, Route

_OF_SEVERAL: Final = frozenset({On.RENAMED, On.MEMBERS})


def check(route: Route, fields: dict[str, Any], access: Access) -> None:
    """Let the operation pass, or raise the denial that fits; what is not listed is denied."""
    if access.grants.get(ROOT, 0) >= route.role and route.on not in _OF_SEVERAL:
        return
    identifier = identifier_of(fields.get("id"))
    match route.on:
        case On.NAMESPACE:
            require_namespace(access, identifier, route.role)
        case On.NEW_NAMESPACE | On.NEW_TABLE:
            require_creation(access, identifier, route.role)
        case On.LISTED | On.SEEN:
            require_sight(access, identifier)
        case On.TABLE:
            require_table(access, identifier, route.role)
        case On.TRANSACTION:
            require_table(access, identifier[:-1], route.role)
        case On.RENAMED:
            require_table(access, identifier, route.role)
            require_creation(access, new_name(identifier, fields), route.role)
        case On.MEMBERS:
            for member, role, creates in members(fields):
                (require_creation if creates else require_table)(access, member, role)
        case On.EVERYTHING:
            require_sight(access, ())
        case On.QUERIED:
            require_namespace(access, (), route.role)


def new_name(identifier: Identifier, fields: dict[str, Any]) -> Identifier:
    """The identifier that a rename gives to a table."""
    target = fields.get("new_namespace_id")
    parent = identifier[:-1] if target is None else identifier_of(target)
    return (*parent, str(fields.get("new_table_name")))


def members(fields: dict[str, Any]) -> list[tuple[Identifier, Role, bool]]:
    """Every table that a batch touches, with the role it needs and whether it is created."""
    found = [(_member(entry), Role.WRITER, False) for entry in fields.get("entries") or []]
    for operation in fields.get("operations") or []:
        if not isinstance(operation, dict):
            raise InvalidInputError("A member of the batch is not an object")
        for kind, part in operation.items():
            if part is not None:
                found.append((_member(part), Role.WRITER, kind == "declare_table"))
    return found


def _member(entry: object) -> Identifier:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), list):
        raise InvalidInputError("A member of the batch has no id")
    return identifier_of(entry["id"])
