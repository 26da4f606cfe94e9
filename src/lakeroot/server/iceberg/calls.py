"""One call of an Iceberg operation: what was asked, in parsed form."""

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from lakeroot.model.identifiers import Identifier
from lakeroot.server.iceberg.errors import bad_request
from lakeroot.server.iceberg.routes import Route
from lakeroot.server.identity.access import Role
from lakeroot.server.wire import Request, decoded

SEPARATOR: Final = "\x1f"
_LARGEST_PAGE: Final = 10_000


@dataclass(slots=True)
class Call:
    """A route with the names of its path, its query and its body."""

    route: Route
    request: Request
    namespace: Identifier = ()
    table: str = ""
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def identifier(self) -> Identifier:
        """The table that is named."""
        return (*self.namespace, self.table)

    @property
    def writes(self) -> bool:
        """Tell whether the caller may write to the table."""
        return self.request.access.allows(self.identifier, Role.WRITER)

    def text(self, name: str) -> str:
        """A string that the body must have."""
        value = self.body.get(name)
        if not isinstance(value, str) or not value:
            raise bad_request(f"Cannot parse request: {name} is missing or not a string")
        return value

    def strings(self, name: str) -> dict[str, str]:
        """A map of strings that the body may have."""
        return strings(self.body.get(name), name)

    def flag(self, name: str) -> bool:
        """A boolean of the query, in any case: Python clients write `True`."""
        given = self.request.one(name)
        if given is None:
            return False
        if given.lower() not in ("true", "false"):
            raise bad_request(f"{name} is true or false")
        return given.lower() == "true"

    def page(self) -> tuple[str | None, int | None]:
        """Where the page starts and how long it is; without a token the list is given whole."""
        token, size = self.request.one("pageToken"), self.request.one("pageSize")
        if size is not None and (not size.isascii() or not size.isdigit() or int(size[:9]) < 1):
            raise bad_request("pageSize must be a positive number")
        if token is None or size is None:
            return token or None, None
        return token or None, min(int(size[:9]), _LARGEST_PAGE)


def strings(value: object, name: str) -> dict[str, str]:
    """Read a map of strings, or refuse."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise bad_request(f"Cannot parse request: {name} is not a map of strings")
    return value


def namespace_in(segment: str) -> Identifier:
    """Read a namespace from a part of the path: names joined by the unit separator."""
    return named(tuple(decoded(segment).split(SEPARATOR)))


def named(identifier: Identifier) -> Identifier:
    """Refuse an identifier with an empty name."""
    if not identifier or not all(identifier):
        raise bad_request("Invalid namespace: a level has no name")
    return identifier


def names_in(value: object, what: str) -> Identifier:
    """Read a namespace from a body: a list of names."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise bad_request(f"Cannot parse request: {what} is not a list of names")
    return named(tuple(value))


def table_in(value: object, what: str) -> Identifier:
    """Read the identifier of a table from a body: a namespace and a name."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        raise bad_request(f"Cannot parse request: {what} is not a table identifier")
    return (*names_in(value.get("namespace"), f"{what}.namespace"), value["name"])


def decoded_again(identifier: Identifier) -> Identifier | None:
    """The identifier a client meant that encodes its names twice; nothing if there is none."""
    again = tuple(unquote(name) for name in identifier)
    return again if again != identifier else None
