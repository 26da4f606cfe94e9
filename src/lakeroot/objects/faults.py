"""The border where a storage's own exceptions become the catalog's errors."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from obstore import exceptions as store_errors

from lakeroot.model.errors import (
    InternalError,
    InvalidInputError,
    LakerootError,
    PermissionDeniedError,
    ServiceUnavailableError,
    UnauthenticatedError,
    UnsupportedOperationError,
)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn what a disk or a bucket raises while ``doing`` into an error with a code and advice."""
    try:
        yield
    except (OSError, store_errors.BaseError) as error:
        raise translation(error, doing) from error


def translation(error: Exception, doing: str) -> LakerootError:
    """Find the catalog's word for a storage error."""
    what = f"The storage failed while {doing}"
    match error:
        case store_errors.UnauthenticatedError():
            return UnauthenticatedError(
                what, "it does not accept these credentials", "Check the `storage.*` properties"
            )
        case PermissionError() | store_errors.PermissionDeniedError():
            return PermissionDeniedError(
                what, "this process may not do that there", "Check the permissions of the root"
            )
        case store_errors.NotSupportedError():
            return UnsupportedOperationError(what, "this storage has no such operation")
        case store_errors.InvalidPathError() | store_errors.UnknownConfigurationKeyError():
            return InvalidInputError(what, _first_line(error))
        case OSError():
            return _disk_fault(error, what)
        case _:
            return ServiceUnavailableError(
                what, _first_line(error), "Check that the storage can be reached, then try again"
            )


def _disk_fault(error: OSError, what: str) -> LakerootError:
    reason = error.strerror or type(error).__name__
    if error.errno == errno.EROFS:
        return PermissionDeniedError(what, "it is read-only", "Use a root that can be written")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InternalError(what, reason, "Free some space, then try again: nothing was changed")
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTDIR, errno.EISDIR):
        return InvalidInputError(what, reason)
    return InternalError(what, reason)


def _first_line(error: Exception) -> str:
    # The rest of such a message is the Rust debug form of the error, with configuration in it.
    return str(error).partition("\n")[0]
