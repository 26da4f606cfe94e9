"""The few things that can be changed here: each a form, each made for one browser."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from lance_namespace import CreateTableTagRequest, DropTableRequest, RestoreTableRequest

from lakeroot.model.errors import InvalidInputError, PermissionDeniedError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.server.console.addresses import namespace_address, table_address
from lakeroot.server.console.visit import Visit, whole_number
from lakeroot.server.identity.access import Role
from lakeroot.server.identity.cookies import is_form_token
from lakeroot.server.wire import Request

Fields = Mapping[str, str]


def require_own_form(request: Request, fields: Fields) -> None:
    """Refuse a form that another site made, or that was made for another person."""
    if not is_same_origin(request) or not is_form_token(fields.get("csrf", ""), request.headers):
        raise PermissionDeniedError(
            "This form was not accepted",
            "it is too old, or it does not come from this console",
            "Open the page again and send the form from there",
        )


def is_same_origin(request: Request) -> bool:
    """Tell whether a browser says that a request comes from a page of this server."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


def tag(visit: Visit, identifier: Identifier, fields: Fields) -> str:
    """Give a version a name; gives the address of the page to show next."""
    name = fields.get("tag", "").strip()
    if not name:
        raise InvalidInputError("A tag needs a name")
    version = whole_number(fields.get("version", ""), "version", 0)
    visit.namespace.create_table_tag(
        CreateTableTagRequest(id=list(identifier), tag=name, version=version)
    )
    return table_address(identifier, "refs", done="tagged")


def restore(visit: Visit, identifier: Identifier, fields: Fields) -> str:
    """Make an older version the newest again."""
    version = whole_number(fields.get("version", ""), "version", 0)
    visit.namespace.restore_table(RestoreTableRequest(id=list(identifier), version=version))
    return table_address(identifier, "versions", done="restored")


def drop(visit: Visit, identifier: Identifier, fields: Fields) -> str:
    """Drop a table whose name the person has typed; into the trash, unless it is to go now."""
    if fields.get("name", "").strip() != show(identifier):
        raise InvalidInputError(
            f"The table {show(identifier)} was not dropped",
            "the name that was typed is not its name",
            "Go back and type the name exactly as it is shown",
        )
    if fields.get("now") or not visit.has_trash:
        visit.namespace.drop_table(DropTableRequest(id=list(identifier)))
        return namespace_address(identifier[:-1], done="dropped")
    is_kept = visit.ours("discard_table")(list(identifier))
    return namespace_address(identifier[:-1], done="discarded" if is_kept else "dropped")


def undrop(visit: Visit, identifier: Identifier, _: Fields) -> str:
    """Give a table that lost its name the name back."""
    visit.ours("undrop")(list(identifier))
    return table_address(identifier, done="undropped")


ACTIONS: Final[dict[str, tuple[str, Role, Callable[[Visit, Identifier, Fields], str]]]] = {
    "tag": ("create_table_tag", Role.WRITER, tag),
    "restore": ("restore_table", Role.WRITER, restore),
    "drop": ("drop_table", Role.WRITER, drop),
    "undrop": ("register_table", Role.ADMIN, undrop),
}
"""What a form of a table may do: its operation in logs and the audit, the role, the work."""
