"""The paths of the Iceberg REST protocol: prefix, separators, and the encoding of names."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import Identifier, show

UNIT_SEPARATOR: Final = "\x1f"


@dataclass(frozen=True, slots=True)
class Routes:
    """Where things are on one server."""

    prefix: str = ""
    separator: str = "%1F"

    def at(self, path: str) -> str:
        """Give the path below `/v1/`, with the server's prefix."""
        return f"{self.prefix}/{path}" if self.prefix else path

    def namespace(self, identifier: Identifier) -> str:
        """Give the path of a namespace."""
        return self.at(f"namespaces/{self.encode(identifier)}")

    def tables(self, namespace: Identifier) -> str:
        """Give the path of the tables of a namespace."""
        return f"{self.namespace(namespace)}/tables"

    def table(self, identifier: Identifier) -> str:
        """Give the path of a table."""
        *namespace, name = identifier
        return f"{self.tables(tuple(namespace))}/{quote(_addressable(name), safe='')}"

    def encode(self, identifier: Identifier) -> str:
        """Write a namespace as one segment of a path."""
        separator = self.separator
        # Servers take the unit separator besides their own; a name may hold the other one.
        if any(unquote(separator) in name for name in identifier):
            separator = "%1F"
        return separator.join(quote(_addressable(name), safe="") for name in identifier)


def parent_parameter(identifier: Identifier) -> str:
    """Write a namespace as the value of `?parent=`; the query encodes it once."""
    return UNIT_SEPARATOR.join(_addressable(name) for name in identifier)


def _addressable(name: str) -> str:
    """Refuse a name that would mean something else as a part of a path."""
    if not name or name in (".", "..") or UNIT_SEPARATOR in name or not _is_text(name):
        raise InvalidInputError(
            f"An Iceberg catalog cannot hold anything called {show((name,))}",
            "the name cannot be written in a path",
        )
    return name


def _is_text(name: str) -> bool:
    """Tell whether a name can be written as UTF-8; half of a surrogate pair cannot."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
