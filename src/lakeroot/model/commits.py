"""A commit is data: what must hold, and what changes. Verbs build it, a store applies it.

Every change carries its own conditions (a new namespace needs its parent and a free name; see
`lakeroot.model.rules`), checked inside the store's atomic step, so that they cannot be raced.
`Unchanged` is for callers that decided something on a record they read and want to be sure of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Record, TableVersion


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The object is still as the caller read it (or still absent)."""

    identifier: Identifier
    record: Record | None


Requirement = Unchanged


@dataclass(frozen=True, slots=True)
class CreateNamespace:
    """Add a namespace."""

    identifier: Identifier
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterNamespace:
    """Replace the properties of a namespace, the root included."""

    identifier: Identifier
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DropNamespace:
    """Remove an empty namespace."""

    identifier: Identifier


@dataclass(frozen=True, slots=True)
class DeclareTable:
    """Reserve a name and a location for a table that has no data yet."""

    identifier: Identifier
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisterTable:
    """Give a name to a table that is already at a location."""

    identifier: Identifier
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterTable:
    """Replace the properties of a table."""

    identifier: Identifier
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeregisterTable:
    """Take the name away and leave the data, for good or until it is collected as garbage."""

    identifier: Identifier
    to_trash: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    """Take the name away, then delete the data."""

    identifier: Identifier


@dataclass(frozen=True, slots=True)
class RenameTable:
    """Give a table another name, in the same namespace or another; its data does not move."""

    identifier: Identifier
    new_identifier: Identifier


@dataclass(frozen=True, slots=True)
class CreateTableVersions:
    """Add versions to a table whose versions the catalog keeps (an external manifest store)."""

    identifier: Identifier
    versions: tuple[TableVersion, ...]
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class PointTableVersions:
    """Replace what is known of versions that exist: their manifests are in their final place."""

    identifier: Identifier
    versions: tuple[TableVersion, ...]
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteTableVersions:
    """Forget versions of a table whose versions the catalog keeps."""

    identifier: Identifier
    versions: tuple[int, ...]
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class ManageTableVersions:
    """Make the catalog the arbiter of its tables' versions, or stop it being that."""

    enabled: bool
    identifier: Identifier = ()


Change = (
    CreateNamespace
    | AlterNamespace
    | DropNamespace
    | DeclareTable
    | RegisterTable
    | AlterTable
    | DeregisterTable
    | DropTable
    | RenameTable
    | CreateTableVersions
    | PointTableVersions
    | DeleteTableVersions
    | ManageTableVersions
)


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes that happen together or not at all, in this order."""

    changes: tuple[Change, ...]
    requires: tuple[Requirement, ...] = ()
    message: str = ""
    author: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a commit went: the version of the whole catalog that holds it."""

    version: int
    timestamp_ms: int
