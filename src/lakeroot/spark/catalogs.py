"""Say which table is meant, in values that travel to any process: a catalog and a name.

A namespace client does not pickle, so what travels is how to build it: the implementation and its
string properties. Every process builds its own, once, if it needs one at all: most tasks never ask
a catalog, and importing the clients would take a new worker longer than everything else.
"""

import difflib
import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeroot.model.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.objects import Objects, open_root, parse_root
from lakeroot.spark.failures import translated

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace

DIRECTORY = "lakeroot.DirectoryNamespace"
# The storage option in which a catalog says when the keys beside it expire.
EXPIRES = "expires_at_millis"
_RENEWED_BEFORE_S = 300


@dataclass(frozen=True, slots=True)
class Catalog:
    """A catalog, by the implementation of its client and the properties to build it with."""

    impl: str
    # Properties may hold credentials: they stay out of plans, logs and error messages.
    properties: tuple[tuple[str, str], ...] = field(repr=False)

    @classmethod
    def of(cls, impl: str, properties: Mapping[str, str]) -> "Catalog":
        """Describe a catalog by its implementation and properties."""
        return cls(impl, tuple(sorted(properties.items())))

    @classmethod
    def at(cls, root: str, properties: Mapping[str, str] | None = None) -> "Catalog":
        """Describe the directory catalog at a root."""
        return cls.of(DIRECTORY, {"root": root, **(properties or {})})

    @classmethod
    def named(cls, profile_name: str, properties: Mapping[str, str] | None = None) -> "Catalog":
        """Describe the catalog of a profile; its file is read where this runs: on the driver."""
        from lakeroot.lake.opening import implementation
        from lakeroot.lake.profiles import profile

        found = {**profile(profile_name), **(properties or {})}
        return cls.of(*implementation(found.pop("root", "."), found))

    def connect(self) -> "LanceNamespace":
        """Return this process's client of the catalog."""
        return _connect(self)


@functools.lru_cache(maxsize=32)
def _connect(catalog: Catalog) -> "LanceNamespace":
    import lance_namespace

    try:
        return lance_namespace.connect(catalog.impl, dict(catalog.properties))
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InvalidInputError(
            f"The catalog implementation {catalog.impl!r} cannot be built",
            str(error),
            "Check `impl` (a registered name or a dotted class) and its properties",
        ) from error


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table as its user names it: in a catalog, or by location with no catalog at all."""

    catalog: Catalog | None
    identifier: Identifier
    location: str | None = None
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return show(self.identifier) if self.location is None else self.location


@dataclass(frozen=True, slots=True)
class Located:
    """A table that was looked up: where it lies, and how to reach it."""

    ref: TableRef
    location: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    managed: bool = False
    only_declared: bool = False

    @property
    def store_options(self) -> dict[str, str]:
        """Give what opens the files themselves; when the keys expire is for Lance and for us."""
        return {key: value for key, value in (self.storage_options or {}).items() if key != EXPIRES}


def locate(ref: TableRef) -> Located:
    """Look a table up in its catalog; of one that is not there, say which has a name like it."""
    try:
        return look_up(ref)
    except TableNotFoundError as error:
        raise TableNotFoundError(error.what, error.why, error.fix or _alike(ref)) from error


def _alike(ref: TableRef) -> str:
    from lance_namespace import ListTablesRequest

    if ref.catalog is None:
        return ""
    *inside, name = ref.identifier
    try:
        tables = ref.catalog.connect().list_tables(ListTablesRequest(id=inside)).tables
    except Exception:  # noqa: BLE001  # That the table is not there is what was to be said.
        return ""
    return did_you_mean(name, tables, inside)


def did_you_mean(name: str, names: Sequence[str], inside: Sequence[str] = ()) -> str:
    """Suggest the one of some names that is most like one that is not there, if any is like it."""
    near = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {show((*inside, near[0]))}?" if near else ""


def look_up(ref: TableRef) -> Located:
    """Look up a table that may well not be there, and say no more than that."""
    if ref.location is not None:
        return Located(ref, ref.location, dict(ref.options) or None)
    if ref.catalog is None:
        raise InvalidInputError(
            f"No catalog was given for table {ref}",
            fix="Set the option `root` (a directory), `impl` with its properties, or `location`",
        )
    from lance_namespace import DescribeTableRequest

    client = ref.catalog.connect()
    request = DescribeTableRequest(id=list(ref.identifier), check_declared=True)
    try:
        with translated(f"Table {ref} cannot be looked up"):
            answer = client.describe_table(request)
    except NamespaceNotFoundError as error:
        name = show(ref.identifier[:-1])
        raise NamespaceNotFoundError(
            error.what,
            error.why,
            f"Check the name and the catalog; `lakeroot ns create {name}`, or CREATE NAMESPACE in"
            " SQL, creates it",
        ) from error
    return located_from(ref, answer)


def located_from(ref: TableRef, answer: Any) -> Located:
    """Read the answer of describe_table or declare_table."""
    if not answer.location:
        raise InvalidTableStateError(
            f"Table {ref} has no location", "the catalog describes it without one"
        )
    return Located(
        ref,
        answer.location,
        {**dict(ref.options), **(answer.storage_options or {})} or None,
        bool(answer.managed_versioning),
        bool(getattr(answer, "is_only_declared", False)),
    )


def files_of(table: Located) -> Objects:
    """Open the files of a table."""
    return open_root(parse_root(table.location, renewed(table).store_options))


def expires(table: Located) -> bool:
    """Tell whether a table was lent keys that expire, and can be lent new ones."""
    return table.ref.catalog is not None and EXPIRES in (table.storage_options or {})


def renewed(table: Located) -> Located:
    """Look a table up again if its keys expire soon: a job may outlive those it began with."""
    if not expires(table):
        return table
    left = int((table.storage_options or {})[EXPIRES]) / 1000 - time.time()
    return table if left > _RENEWED_BEFORE_S else locate(table.ref)


def exists(ref: TableRef) -> Located | None:
    """Return the table if there is one with data in it, or nothing."""
    try:
        found = look_up(ref)
        if ref.location is not None:
            # No catalog says whether there is a table: only its files can.
            from lakeroot.spark.opening import open_table

            open_table(found)
    except TableNotFoundError:
        return None
    return None if found.only_declared else found


def parse_name(text: str) -> Identifier:
    """Read ``ns.table``; a name that holds a dot is quoted with backticks or double quotes."""
    names: list[str] = []
    rest = text
    while True:
        quote = rest[:1]
        if quote in ("`", '"'):
            name, rest = _quoted(text, rest, quote)
        else:
            name, dot, tail = rest.partition(".")
            rest = dot + tail
        if not name:
            raise InvalidInputError(f"{text!r} is not the name of a table", "a name in it is empty")
        names.append(name)
        if not rest:
            return tuple(names)
        if rest[0] != ".":
            raise InvalidInputError(
                f"{text!r} is not the name of a table", f"{rest!r} follows a quoted name"
            )
        rest = rest[1:]


def _quoted(text: str, rest: str, quote: str) -> tuple[str, str]:
    """Split a quoted name off the front; a doubled quote inside stands for one."""
    name = ""
    position = 1
    while position < len(rest):
        if rest[position] == quote:
            if rest[position + 1 : position + 2] != quote:
                return name, rest[position + 1 :]
            position += 1
        name += rest[position]
        position += 1
    raise InvalidInputError(f"{text!r} is not the name of a table", f"a {quote} is never closed")
