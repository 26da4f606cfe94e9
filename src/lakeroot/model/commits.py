"""A commit is data: what must hold, and what changes. Verbs build it, a store applies it.

Every change carries its own conditions (a new namespace needs its parent and a free name; see
`lakeroot.model.rules`), checked inside the store's atomic step, so that they cannot be raced.
`Unchanged` and `NewestVersion` are for callers that decided something on what they read, a record
or the rows of a table, and want to be sure of it.
"""

from collections.abc import Mapping

from msgspec import Struct, field

from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Record, TableVersion


class Unchanged(Struct, frozen=True):
    """The object is still as the caller read it (or still absent)."""

    identifier: Identifier
    record: Record | None


class NewestVersion(Struct, frozen=True):
    """The newest version that the catalog keeps of a table is still this one; 0 if it has none."""

    identifier: Identifier
    version: int


Requirement = Unchanged | NewestVersion


class CreateNamespace(Struct, frozen=True):
    """Add a namespace."""

    identifier: Identifier
    properties: Mapping[str, str] = field(default_factory=dict)


class AlterNamespace(Struct, frozen=True):
    """Replace the properties of a namespace, the root included."""

    identifier: Identifier
    properties: Mapping[str, str]


class DropNamespace(Struct, frozen=True):
    """Remove an empty namespace."""

    identifier: Identifier


class DeclareTable(Struct, frozen=True):
    """Reserve a name and a location for a table that has no data yet."""

    identifier: Identifier
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)


class RegisterTable(Struct, frozen=True):
    """Give a name to a table that is already at a location."""

    identifier: Identifier
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)


class AlterTable(Struct, frozen=True):
    """Replace the properties of a table."""

    identifier: Identifier
    properties: Mapping[str, str]


class DeregisterTable(Struct, frozen=True):
    """Take the name away and leave the data, for good or until it is collected as garbage."""

    identifier: Identifier
    to_trash: bool = False


class DropTable(Struct, frozen=True):
    """Take the name away, then delete the data."""

    identifier: Identifier


class RenameTable(Struct, frozen=True):
    """Give a table another name, in the same namespace or another; its data does not move."""

    identifier: Identifier
    new_identifier: Identifier


class CreateTableVersions(Struct, frozen=True):
    """Add versions to a table whose versions the catalog keeps (an external manifest store)."""

    identifier: Identifier
    versions: tuple[TableVersion, ...]
    branch: str | None = None


class PointTableVersions(Struct, frozen=True):
    """Replace what is known of versions that exist: their manifests are in their final place."""

    identifier: Identifier
    versions: tuple[TableVersion, ...]
    branch: str | None = None


class DeleteTableVersions(Struct, frozen=True):
    """Forget versions of a table whose versions the catalog keeps."""

    identifier: Identifier
    versions: tuple[int, ...]
    branch: str | None = None


class ManageTableVersions(Struct, frozen=True):
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


class Commit(Struct, frozen=True):
    """Changes that happen together or not at all, in this order."""

    changes: tuple[Change, ...]
    requires: tuple[Requirement, ...] = ()
    message: str = ""
    author: str = ""


class Committed(Struct, frozen=True):
    """Where a commit went: the version of the whole catalog that holds it."""

    version: int
    timestamp_ms: int
