"""Every error a catalog can raise, with the code of the Lance Namespace specification.

    LakerootError                           18 (internal)
    ├── UnsupportedOperationError            0
    ├── NotFoundError
    │   ├── NamespaceNotFoundError           1
    │   ├── TableNotFoundError               4
    │   ├── TableIndexNotFoundError          6
    │   ├── TableTagNotFoundError            8
    │   ├── TransactionNotFoundError        10
    │   ├── TableVersionNotFoundError       11
    │   ├── TableColumnNotFoundError        12
    │   └── TableBranchNotFoundError        22
    ├── AlreadyExistsError
    │   ├── NamespaceAlreadyExistsError      2
    │   ├── TableAlreadyExistsError          5
    │   ├── TableIndexAlreadyExistsError     7
    │   ├── TableTagAlreadyExistsError       9
    │   └── TableBranchAlreadyExistsError   23
    ├── NamespaceNotEmptyError               3
    ├── InvalidInputError                   13
    │   ├── TableSchemaValidationError      20
    │   └── DirectoryTakenError             13
    ├── ConcurrentModificationError         14
    │   └── TableVersionAlreadyExistsError  14
    ├── PermissionDeniedError               15
    ├── UnauthenticatedError                16
    ├── ServiceUnavailableError             17
    ├── InternalError                       18
    ├── InvalidTableStateError              19
    └── ThrottlingError                     21

Codes are append-only: they cross the wire. An error has three parts for its reader: what
happened, why, and what to do about it.
"""

from typing import ClassVar


class LakerootError(Exception):
    """Something a catalog refuses or cannot do."""

    code: ClassVar[int] = 18

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what, why, fix)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return ". ".join(part.rstrip(".") for part in (self.what, self.why, self.fix) if part)


class UnsupportedOperationError(LakerootError):
    """This catalog, by its nature or configuration, has no such operation."""

    code = 0


class NotFoundError(LakerootError):
    """The thing that was named does not exist."""


class NamespaceNotFoundError(NotFoundError):
    """No namespace has this identifier."""

    code = 1


class TableNotFoundError(NotFoundError):
    """No table has this identifier."""

    code = 4


class TableIndexNotFoundError(NotFoundError):
    """The table has no index of this name."""

    code = 6


class TableTagNotFoundError(NotFoundError):
    """The table has no tag of this name."""

    code = 8


class TransactionNotFoundError(NotFoundError):
    """No transaction has this identifier."""

    code = 10


class TableVersionNotFoundError(NotFoundError):
    """The table has no such version."""

    code = 11


class TableColumnNotFoundError(NotFoundError):
    """The table has no such column."""

    code = 12


class TableBranchNotFoundError(NotFoundError):
    """The table has no branch of this name."""

    code = 22


class AlreadyExistsError(LakerootError):
    """The name is taken."""


class NamespaceAlreadyExistsError(AlreadyExistsError):
    """The name of the new namespace is taken."""

    code = 2


class TableAlreadyExistsError(AlreadyExistsError):
    """The name of the new table is taken."""

    code = 5


class TableIndexAlreadyExistsError(AlreadyExistsError):
    """The table already has an index of this name."""

    code = 7


class TableTagAlreadyExistsError(AlreadyExistsError):
    """The table already has a tag of this name."""

    code = 9


class TableBranchAlreadyExistsError(AlreadyExistsError):
    """The table already has a branch of this name."""

    code = 23


class NamespaceNotEmptyError(LakerootError):
    """The namespace still holds tables or namespaces."""

    code = 3


class InvalidInputError(LakerootError):
    """The request itself is wrong; repeating it cannot help."""

    code = 13


class TableSchemaValidationError(InvalidInputError):
    """The data does not fit the schema of the table."""

    code = 20


class DirectoryTakenError(InvalidInputError):
    """The directory for a new table still belongs to one that was dropped or deregistered."""


class ConcurrentModificationError(LakerootError):
    """Somebody else changed the same thing first."""

    code = 14


class TableVersionAlreadyExistsError(ConcurrentModificationError):
    """Another writer has already committed this version of the table."""


class VersionsNotKeptError(UnsupportedOperationError):
    """The catalog has stopped keeping versions of tables while somebody relied on it.

    It is somebody else's doing, but no conflict that goes away by trying again.
    """

    code = 14


class PermissionDeniedError(LakerootError):
    """The caller, or this process, may not do that."""

    code = 15


class UnauthenticatedError(LakerootError):
    """The caller did not prove who it is."""

    code = 16


class ServiceUnavailableError(LakerootError):
    """The storage or service behind the catalog does not answer."""

    code = 17


class InternalError(LakerootError):
    """The catalog itself failed; this is for its maintainers to read."""


class InvalidTableStateError(LakerootError):
    """The table exists but cannot do this in its present state."""

    code = 19


class ThrottlingError(LakerootError):
    """Too many requests; come back later."""

    code = 21
