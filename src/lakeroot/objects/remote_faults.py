"""The border where the exceptions of a bucket become the catalog's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from obstore import exceptions as store_errors

from lakeroot.model.errors import (
    InvalidInputError,
    LakerootError,
    ServiceUnavailableError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from lakeroot.objects.faults import may_not, translation, what_failed


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn what a bucket raises while ``doing`` into an error with a code and advice."""
    try:
        yield
    except OSError as error:
        raise translation(error, doing) from error
    except store_errors.BaseError as error:
        raise _translation(error, what_failed(doing)) from error


def _translation(error: store_errors.BaseError, what: str) -> LakerootError:
    match error:
        case store_errors.UnauthenticatedError():
            return UnauthenticatedError(
                what, "it does not accept these credentials", "Check the `storage.*` properties"
            )
        case store_errors.PermissionDeniedError():
            return may_not(what)
        case store_errors.NotSupportedError():
            return UnsupportedOperationError(what, "this storage has no such operation")
        case store_errors.InvalidPathError() | store_errors.UnknownConfigurationKeyError():
            return InvalidInputError(what, _first_line(error))
        case _:
            return ServiceUnavailableError(
                what, _first_line(error), "Check that the storage can be reached, then try again"
            )


def _first_line(error: Exception) -> str:
    # The rest of such a message is the Rust debug form of the error, with configuration in it.
    return str(error).partition("\n")[0]
