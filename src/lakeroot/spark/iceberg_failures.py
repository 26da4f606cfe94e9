"""Say what goes wrong between Spark's driver and an Iceberg catalog."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableNotFoundError,
    UnauthenticatedError,
)
from lakeroot.spark.failures import explained

CATALOG = "Check what pyiceberg is told of the catalog: `type`, `uri`, `warehouse`, `token`"
_NAMES = (
    "Check the name, and the catalog; one in an SQL database has tables only under its own name,"
    " which the key `catalog` gives"
)
_REQUEST_TIMEOUT = 408  # from a gateway, it may mean the catalog behind it


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
        return TableNotFoundError(what, why, _NAMES)
    if isinstance(error, (iceberg.UnauthorizedError, iceberg.OAuthError)):
        return UnauthenticatedError(what, why, CATALOG)
    if isinstance(error, iceberg.ForbiddenError):
        return PermissionDeniedError(what, why)
    if isinstance(error, (iceberg.CommitFailedException, iceberg.ValidationException)):
        return ConcurrentModificationError(what, why, "Run the job again")
    if isinstance(error, iceberg.BadRequestError):
        return InvalidInputError(what, why)
    if isinstance(error, (RequestException, iceberg.ServiceUnavailableError)):
        return ServiceUnavailableError(what, why, CATALOG)
    if isinstance(error, (ValueError, iceberg.NotInstalledError, iceberg.NoSuchIdentifierError)):
        return InvalidInputError(what, why, fix)
    return explained(what, error)


def is_refused(error: Exception) -> bool:
    """Tell whether a commit that raised has not happened and will not.

    Whatever else a commit raises leaves that open. Server errors, gateways' among them, time-outs
    and lost connections say nothing of what the catalog has done, or is still doing.
    """
    from pyiceberg import exceptions as iceberg

    refusals = (
        iceberg.CommitFailedException,
        iceberg.ValidationException,
        iceberg.NoSuchTableError,
        iceberg.NoSuchNamespaceError,
        iceberg.TableAlreadyExistsError,
        NotImplementedError,
    )
    if isinstance(error, refusals):
        return True
    # pyiceberg has classes for some answers only, and chains the answer itself.
    answer = getattr(error.__cause__, "response", None)
    if answer is None:
        return _is_unsent(error)
    status: int = answer.status_code
    return 400 <= status < 500 and status != _REQUEST_TIMEOUT


def _is_unsent(error: Exception) -> bool:
    """Tell whether there was no connection that a request could have been sent through."""
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import ConnectTimeout
    from urllib3.exceptions import NewConnectionError

    if isinstance(error, ConnectTimeout):
        return True
    given = error.args[0] if error.args else None
    reason = getattr(given, "reason", None)
    return isinstance(error, NoConnection) and isinstance(reason, NewConnectionError)


def first_line(error: Exception) -> str:
    """Give what an error says first, or its class if it says nothing."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
