"""Addresses of pages: names are encoded one by one, so that any name is safe in them."""

from typing import Final
from urllib.parse import quote, urlencode

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import DELIMITER, Identifier
from lakeroot.server.wire import decoded

BASE: Final = "/console"


def joined(identifier: Identifier) -> str:
    """Write an identifier as one part of a path."""
    return DELIMITER.join(quote(name, safe="") for name in identifier)


def identifier_in(segment: str) -> Identifier:
    """Read an identifier from one part of a path."""
    names = tuple(decoded(name) for name in segment.split(DELIMITER))
    if not all(names):
        raise InvalidInputError("The address has an empty name in it")
    return names


def address(*parts: str, **query: object) -> str:
    """Join encoded parts to the address of a page; what is nothing is left out of its query."""
    path = "/".join((BASE, *parts))
    pairs = [(name, str(value)) for name, value in query.items() if value not in (None, "")]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def table_address(identifier: Identifier, page: str = "overview", **query: object) -> str:
    """The address of a page of a table."""
    return address("t", joined(identifier), page, **query)


def namespace_address(identifier: Identifier, **query: object) -> str:
    """The address of a namespace; the root is the catalog itself."""
    if not identifier:
        return address("catalog", **query)
    return address("n", joined(identifier), "overview", **query)


def is_local(target: str) -> bool:
    """Tell whether an address leads to the console and nowhere else."""
    return (target == BASE or target.startswith((BASE + "/", BASE + "?"))) and not any(
        character in target for character in "\\\r\n"
    )
