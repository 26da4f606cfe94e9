"""The border where the exceptions of a disk become the catalog's errors."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from lakeroot.model.errors import (
    InternalError,
    InvalidInputError,
    LakerootError,
    PermissionDeniedError,
)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn what a disk raises while ``doing`` into an error with a code and advice."""
    try:
        yield
    except OSError as error:
        raise translation(error, doing) from error


def translation(error: OSError, doing: str) -> LakerootError:
    """Find the catalog's word for an error of a disk."""
    what = what_failed(doing)
    if isinstance(error, PermissionError):
        return may_not(what)
    reason = error.strerror or type(error).__name__
    if error.errno == errno.EROFS:
        return PermissionDeniedError(what, "it is read-only", "Use a root that can be written")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InternalError(what, reason, "Free some space, then try again: nothing was changed")
    if error.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.ENOTDIR, errno.EISDIR):
        return InvalidInputError(what, reason)
    return InternalError(what, reason)


def what_failed(doing: str) -> str:
    """Say what did not work."""
    return f"The storage failed while {doing}"


def may_not(what: str) -> PermissionDeniedError:
    """Say that something is not permitted, in a bucket as on a disk."""
    return PermissionDeniedError(
        what, "this process may not do that there", "Check the permissions of the root"
    )
