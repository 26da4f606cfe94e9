"""Say what goes wrong between Spark's driver and an Iceberg catalog."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableNotFoundError,
    UnauthenticatedError,
)
from lakeroot.spark.failures import explained

CATALOG = "Check what pyiceberg is told of the catalog: `type`, `uri`, `warehouse`, `token`"


@contextmanager
def iceberg_asked(what: str, fix: str = "") -> Iterator[None]:
    """Turn what pyiceberg and its catalogs raise into errors a person can act on."""
    try:
        yield
    except LakerootError:
        raise
    except Exception as error:
        raise _said(what, error, fix) from error


def _said(what: str, error: Exception, fix: str) -> LakerootError:
    from pyiceberg import exceptions as iceberg
    from requests.exceptions import RequestException

    why = first_line(error)
    if isinstance(error, (iceberg.NoSuchTableError, iceberg.NoSuchNamespaceError)):
        return TableNotFoundError(what, why, "Check the name, and the catalog")
    if isinstance(error, (iceberg.UnauthorizedError, iceberg.OAuthError)):
        return UnauthenticatedError(what, why, CATALOG)
    if isinstance(error, iceberg.ForbiddenError):
        return PermissionDeniedError(what, why)
    if isinstance(error, (RequestException, iceberg.ServiceUnavailableError)):
        return ServiceUnavailableError(what, why, CATALOG)
    if isinstance(error, (ValueError, iceberg.NotInstalledError, iceberg.NoSuchIdentifierError)):
        return InvalidInputError(what, why, fix)
    return explained(what, error)


def first_line(error: Exception) -> str:
    """Give what an error says first, or its class if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
