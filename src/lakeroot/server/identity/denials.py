"""How a caller is told no: never in a way that shows what they may not know."""

from lakeroot.model.errors import (
    NamespaceNotFoundError,
    PermissionDeniedError,
    TableNotFoundError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.server.identity.access import Access, Role


class Denial(Exception):  # noqa: N818  a mark on the errors below, never raised alone
    """Marks an error as a denial, so that it is counted and audited as one."""


class ForbiddenError(PermissionDeniedError, Denial):
    """The caller knows of the object but may not do this with it."""


class HiddenNamespaceError(NamespaceNotFoundError, Denial):
    """The caller may not know whether this namespace exists."""


class HiddenTableError(TableNotFoundError, Denial):
    """The caller may not know whether this table exists."""


def require_namespace(access: Access, identifier: Identifier, role: Role) -> None:
    """Let the caller act on a namespace, or raise the denial that fits."""
    if access.allows(identifier, role):
        return
    if access.sees(identifier):
        raise _forbidden(identifier, role)
    raise HiddenNamespaceError(f"There is no namespace {show(identifier)}")


def require_sight(access: Access, identifier: Identifier) -> None:
    """Let the caller look at a namespace in which something is granted to them."""
    if not access.sees(identifier):
        raise HiddenNamespaceError(f"There is no namespace {show(identifier)}")


def require_table(access: Access, identifier: Identifier, role: Role) -> None:
    """Let the caller act on a table, or raise the denial that fits."""
    if access.allows(identifier, role):
        return
    if access.role_on(identifier) is not None:
        raise _forbidden(identifier, role)
    raise HiddenTableError(f"There is no table {show(identifier)}")


def require_creation(access: Access, identifier: Identifier, role: Role) -> None:
    """Let the caller create an object; the refusal is the same whether the name is taken or not."""
    if not access.allows(identifier, role):
        raise _forbidden(identifier, role)


def _forbidden(identifier: Identifier, role: Role) -> ForbiddenError:
    return ForbiddenError(
        f"You may not do this with {show(identifier)}",
        f"it needs the role {role.name.lower()}",
    )
