"""The border where the exceptions of a bucket become the catalog's errors."""

import re
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

# S3 says in XML what is wrong; to obstore, a list that is refused is like any other failure.
_REFUSED = re.compile(r"status code: 403\b")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NO_BUCKET = "NoSuchBucket"
_BAD_KEYS = {
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
}


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
    said = _CODE.search(str(error))
    code = said[1] if said else ""
    if code in _BAD_KEYS:
        return _not_accepted(what, f" ({code})")
    if code == _NO_BUCKET:
        return InvalidInputError(
            what, "there is no such bucket", "Make the bucket, or check the root"
        )
    match error:
        case store_errors.UnauthenticatedError():
            return _not_accepted(what)
        case store_errors.PermissionDeniedError():
            return may_not(what)
        case store_errors.GenericError() if _REFUSED.search(_first_line(error)):
            return may_not(what)
        case store_errors.NotSupportedError():
            return UnsupportedOperationError(what, "this storage has no such operation")
        case store_errors.InvalidPathError() | store_errors.UnknownConfigurationKeyError():
            return InvalidInputError(what, _first_line(error))
        case _:
            return ServiceUnavailableError(
                what, _first_line(error), "Check that the storage can be reached, then try again"
            )


def _not_accepted(what: str, code: str = "") -> UnauthenticatedError:
    return UnauthenticatedError(
        what, f"it does not accept these credentials{code}", "Check the `storage.*` properties"
    )


def _first_line(error: Exception) -> str:
    # The rest of such a message is the Rust debug form of the error, with configuration in it.
    return str(error).partition("\n")[0]
