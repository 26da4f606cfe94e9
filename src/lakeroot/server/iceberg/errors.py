"""Errors as Iceberg clients know them: a type, a status, and the texts they look for."""

from typing import Final

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier
from lakeroot.server.refusals import RefusalError

_BY_CODE: Final[dict[int, tuple[int, str]]] = {
    0: (406, "UnsupportedOperationException"),
    1: (404, "NoSuchNamespaceException"),
    2: (409, "AlreadyExistsException"),
    3: (409, "NamespaceNotEmptyException"),
    4: (404, "NoSuchTableException"),
    5: (409, "AlreadyExistsException"),
    8: (404, "NotFoundException"),
    9: (409, "AlreadyExistsException"),
    11: (404, "NotFoundException"),
    14: (409, "CommitFailedException"),
    15: (403, "ForbiddenException"),
    16: (401, "NotAuthorizedException"),
    17: (503, "ServiceUnavailableException"),
    18: (500, "InternalServerError"),
    21: (429, "TooManyRequestsException"),
}
_BAD_REQUEST: Final = (400, "BadRequestException")


class IcebergError(LakerootError):
    """An error with the type and the status that an Iceberg client acts on."""

    def __init__(self, status: int, kind: str, message: str, code: int = 13) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code  # type: ignore[misc]  # one class stands for many codes here


def bad_request(message: str) -> IcebergError:
    """The request cannot be carried out, now or later."""
    return IcebergError(400, "BadRequestException", message)


def unprocessable(message: str) -> IcebergError:
    """The request contradicts itself."""
    return IcebergError(422, "UnprocessableEntityException", message)


def unsupported(message: str) -> IcebergError:
    """This catalog has no such thing."""
    return IcebergError(406, "UnsupportedOperationException", message, 0)


def commit_failed(message: str) -> IcebergError:
    """Somebody else was first; the client refreshes and tries again."""
    return IcebergError(409, "CommitFailedException", message, 14)


def no_such_table(identifier: Identifier) -> IcebergError:
    """No table has this name."""
    text = f"Table does not exist: {dotted(identifier)}"
    return IcebergError(404, "NoSuchTableException", text, 4)


def no_such_view(identifier: Identifier) -> IcebergError:
    """No view has this name; this catalog keeps none."""
    text = f"View does not exist: {dotted(identifier)}"
    return IcebergError(404, "NoSuchViewException", text, 4)


def no_such_namespace(identifier: Identifier) -> IcebergError:
    """No namespace has this name."""
    text = f"Namespace does not exist: {dotted(identifier)}"
    return IcebergError(404, "NoSuchNamespaceException", text, 1)


def table_exists(identifier: Identifier) -> IcebergError:
    """The name of the new table is taken."""
    text = f"Table already exists: {dotted(identifier)}"
    return IcebergError(409, "AlreadyExistsException", text, 5)


def namespace_exists(identifier: Identifier) -> IcebergError:
    """The name of the new namespace is taken."""
    text = f"Namespace already exists: {dotted(identifier)}"
    return IcebergError(409, "AlreadyExistsException", text, 2)


def not_empty(identifier: Identifier) -> IcebergError:
    """The namespace still holds something."""
    text = f"Namespace {dotted(identifier)} is not empty"
    return IcebergError(409, "NamespaceNotEmptyException", text, 3)


def dotted(identifier: Identifier) -> str:
    """Write an identifier the way Iceberg's messages do."""
    return ".".join(identifier)


def status_and_kind(error: LakerootError) -> tuple[int, str]:
    """The status and the type of any error."""
    if isinstance(error, IcebergError):
        return error.status, error.kind
    status, kind = _BY_CODE.get(error.code, _BAD_REQUEST)
    if isinstance(error, RefusalError):
        kinds = {404: "NotFoundException", 504: "CommitStateUnknownException"}
        default = kind if error.status in (429, 503) else "BadRequestException"
        return error.status, kinds.get(error.status, default)
    return status, kind
