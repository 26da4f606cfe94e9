"""Identifiers: the names from the root (not included) down to an object.

An identifier is a tuple of names. The root namespace is the empty tuple. Nothing in Lakeroot
decides anything on a joined string: ``("a$b",)`` and ``("a", "b")`` are different objects, and
the first is not even a valid name. Strings are for people (`show`) and for formats that store them.
"""

import re
from collections.abc import Iterable
from typing import Final

from lakeroot.model.errors import InvalidInputError

Identifier = tuple[str, ...]

ROOT: Final[Identifier] = ()
DELIMITER: Final = "$"
LONGEST_NAME_BYTES: Final = 255
_PLAIN: Final = re.compile("[A-Za-z0-9_-]+")
_FORBIDDEN: Final = frozenset("$/\\")


def identifier_of(names: Iterable[object] | None) -> Identifier:
    """Read an identifier from a request: a list of strings; none or an empty list is the root."""
    if names is None:
        return ROOT
    if isinstance(names, str | bytes):
        raise InvalidInputError(
            f"An identifier is a list of names, not the string {names!r}",
            fix=f"Pass it as a list, such as {str(names).split(DELIMITER)!r}",
        )
    identifier = tuple(names)
    for name in identifier:
        if not isinstance(name, str):
            raise InvalidInputError(
                f"An identifier is a list of strings; {name!r} is a {type(name).__name__}"
            )
    return identifier  # type: ignore[return-value]  # every name was just seen to be a string


def problem_with_name(name: str) -> str | None:
    """Say why a name may not be given to a new object, or nothing if it may."""
    if _PLAIN.fullmatch(name) is not None and len(name) <= LONGEST_NAME_BYTES:
        return None  # most often
    if not name:
        return "a name cannot be empty"
    if name in (".", ".."):
        return f"{name!r} is a path, not a name"
    for character in name:
        if character in _FORBIDDEN:
            return f"a name cannot contain {character!r}"
        if ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0:
            return f"a name cannot contain the control character U+{ord(character):04X}"
        if 0xD800 <= ord(character) < 0xE000:
            return "a name must be valid Unicode; it holds half of a surrogate pair"
    size = len(name.encode())
    if size > LONGEST_NAME_BYTES:
        return f"a name has at most {LONGEST_NAME_BYTES} bytes of UTF-8; this one has {size}"
    return None


def validate_new(identifier: Identifier) -> None:
    """Refuse an identifier that a new object may not have."""
    for name in identifier:
        problem = problem_with_name(name)
        if problem is not None:
            raise InvalidInputError(f"The name {name!r} is not allowed", problem)


def is_valid(identifier: Identifier) -> bool:
    """Tell whether a new object could have this identifier."""
    return all(problem_with_name(name) is None for name in identifier)


def show(identifier: Identifier) -> str:
    """Write an identifier for a person, in error messages and logs: ``prod.users``.

    A name that holds a dot, a quote or a space is quoted, so that two identifiers never look alike.
    """
    if not identifier:
        return "the root namespace"
    return ".".join(
        name if name and not set(name) & set('." \n\t') else '"' + name.replace('"', '""') + '"'
        for name in identifier
    )


def parse_dotted(text: str) -> Identifier:
    """Read an identifier as a person writes it: the inverse of `show`."""
    names: list[str] = []
    rest = text
    while True:
        name, rest = _first_name(rest, text)
        names.append(name)
        if not rest:
            return tuple(names)
        rest = rest[1:]


def _first_name(text: str, whole: str) -> tuple[str, str]:
    if not text.startswith('"'):
        name, dot, rest = text.partition(".")
        if not name or '"' in name:
            raise InvalidInputError(
                f"{whole!r} is not a name",
                fix='Write namespace.table, and quote a part that holds a dot: ns."a.b"',
            )
        return name, dot + rest
    end = 1
    while True:
        end = text.find('"', end)
        if end < 0:
            raise InvalidInputError(f"{whole!r} is not a name", "a quote is not closed")
        if text[end : end + 2] != '""':
            break
        end += 2
    rest = text[end + 1 :]
    if rest and not rest.startswith("."):
        raise InvalidInputError(f"{whole!r} is not a name", "something follows a closing quote")
    return text[1:end].replace('""', '"'), rest
