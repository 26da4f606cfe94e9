"""Any exception as an error of the model, with nothing in it that a stranger should not read."""

import logging
import re
from typing import Final

from lance_namespace.errors import LanceNamespaceError
from pydantic import ValidationError

from lakeroot.model import errors
from lakeroot.model.errors import InternalError, InvalidInputError, LakerootError

_LOG: Final = logging.getLogger("lakeroot.server")
_RUST_PLACE: Final = re.compile(r",?\s*(?:/?[\w.@/-]*/)?(?:rust|src)/[\w./-]+\.rs:\d+(?::\d+)?")


def _all_errors() -> dict[int, type[LakerootError]]:
    found: dict[int, type[LakerootError]] = {}
    for kind in vars(errors).values():
        # The first class of a code is the general one; its subclasses say more than we know here.
        if isinstance(kind, type) and issubclass(kind, LakerootError) and "code" in vars(kind):
            found.setdefault(kind.code, kind)
    return found


_BY_CODE: Final = _all_errors()


def as_error(problem: BaseException, request_id: str) -> LakerootError:
    """Turn whatever a catalog raised into an error that may be shown to the caller."""
    if isinstance(problem, LakerootError):
        return _hide_internal(problem, request_id)
    if isinstance(problem, LanceNamespaceError):
        kind = _BY_CODE.get(int(problem.code), InternalError)
        return _hide_internal(kind(clean(str(problem))), request_id, problem)
    if isinstance(problem, NotImplementedError):
        return errors.UnsupportedOperationError("This catalog has no such operation")
    if isinstance(problem, ValidationError):
        return InvalidInputError("The request is not valid", _first_fault(problem))
    return _hide_internal(InternalError(""), request_id, problem)


def clean(message: str) -> str:
    """Take the places in native source code out of a message."""
    return _RUST_PLACE.sub("", message).strip()


def _hide_internal(
    error: LakerootError, request_id: str, cause: BaseException | None = None
) -> LakerootError:
    if error.code != InternalError.code:
        return error
    _LOG.error("request %s failed", request_id, exc_info=cause or error)
    return InternalError(
        "The server could not do this", f"the log has the reason under request {request_id}"
    )


def _first_fault(problem: ValidationError) -> str:
    fault = problem.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"{place}: {fault['msg']}" if place else str(fault["msg"])
