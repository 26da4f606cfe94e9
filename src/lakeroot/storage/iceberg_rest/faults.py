"""What a catalog server's answer means, as the errors of Lakeroot."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakeroot.model.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    LakerootError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from lakeroot.model.identifiers import Identifier, show

EXPIRED: Final = 419


class OutcomeUnknownError(ServiceUnavailableError):
    """The request may or may not have been carried out: its answer never came."""


class Kind(Enum):
    """What a request is about; it decides what 404 and 409 mean."""

    CONFIG = "the configuration"
    NAMESPACE = "namespace"
    TABLE = "table"
    COMMIT = "a commit to table"


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about, for the words of an error."""

    kind: Kind
    identifier: Identifier = ()

    def __str__(self) -> str:
        if self.kind is Kind.CONFIG:
            return str(self.kind.value)
        return f"{self.kind.value} {show(self.identifier)}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: a status, and the body as bytes."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def is_success(self) -> bool:
        """Servers answer 200 or 204 at will, so every 2xx is a success."""
        return 200 <= self.status < 300

    @property
    def is_unchanged(self) -> bool:
        """Whether the server says that what we know is still so, which only some are asked."""
        return self.status == 304

    def header(self, name: str) -> str | None:
        """Find a header; their names have no case."""
        return next((v for k, v in self.headers.items() if k.lower() == name.lower()), None)

    def json(self, target: Target) -> dict[str, object]:
        """Parse the body, which must be a JSON object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ServiceUnavailableError(
                f"The catalog's answer about {target} cannot be read",
                f"it is not a JSON object but {self.body[:80]!r}",
                "Check that the endpoint is an Iceberg REST catalog, then try again",
            )
        return value


def failure(answer: Answer, target: Target) -> LakerootError:
    """Turn an answer that is not a success into the error it means."""
    error_type, message = _told(answer.body)
    why = f"the catalog says: {message}" if message else f"the catalog answered {answer.status}"
    special = _by_type(error_type, why, target)
    if special is not None and answer.status < 500:
        return special
    match answer.status:
        case 404:
            return _not_found(target, why)
        case 409:
            return _conflict(target, why)
        case 405 | 406 | 501:
            return UnsupportedOperationError(f"This catalog cannot do that to {target}", why)
        case status if status >= 500 or status == 408:
            return ServiceUnavailableError(
                f"The catalog failed while answering about {target}", why, "Try again later"
            )
        case _:
            return _refusal(answer.status, target, why)


def _refusal(status: int, target: Target, why: str) -> LakerootError:
    what = f"The catalog refused the request for {target}"
    if status == 401:
        return UnauthenticatedError(what, why, "Check `token` or `credential`")
    if status == EXPIRED:
        return UnauthenticatedError(
            what, f"the token has expired; {why}", "Get a new token, or use `credential`"
        )
    if status == 403:
        return PermissionDeniedError(what, why, "Ask the catalog's owner for the permission")
    if status == 429:
        return ThrottlingError(what, why, "Try again later")
    if status < 400:
        return ServiceUnavailableError(
            what, f"it redirects elsewhere ({status})", "Give the final address as `endpoint`"
        )
    return InvalidInputError(what, why)


def _by_type(error_type: str, why: str, target: Target) -> LakerootError | None:
    """The type of an error says more than its status, where there is one."""
    match error_type:
        case "NoSuchNamespaceException":
            name = target.identifier if target.kind is Kind.NAMESPACE else target.identifier[:-1]
            return NamespaceNotFoundError(f"There is no namespace {show(name)}", why)
        case "NoSuchTableException" | "NoSuchIcebergTableException":
            return TableNotFoundError(f"There is no table {show(target.identifier)}", why)
        case "NamespaceNotEmptyException":
            return NamespaceNotEmptyError(
                f"The namespace {show(target.identifier)} is not empty",
                why,
                "Drop what it holds first",
            )
        case "CommitFailedException":
            return ConcurrentModificationError(
                f"Somebody else changed table {show(target.identifier)} first",
                why,
                "Read it again and repeat",
            )
        case _:
            return None


def _not_found(target: Target, why: str) -> LakerootError:
    match target.kind:
        case Kind.CONFIG:
            return ServiceUnavailableError(
                "No Iceberg REST catalog answers at the endpoint",
                why,
                "Check `endpoint` and `warehouse`",
            )
        case Kind.NAMESPACE:
            return NamespaceNotFoundError(f"There is no namespace {show(target.identifier)}", why)
        case _:
            return TableNotFoundError(f"There is no table {show(target.identifier)}", why)


def _conflict(target: Target, why: str) -> LakerootError:
    name = show(target.identifier)
    match target.kind:
        case Kind.NAMESPACE:
            return NamespaceAlreadyExistsError(f"There is already a namespace {name}", why)
        case Kind.TABLE:
            return TableAlreadyExistsError(f"There is already a table {name}", why)
        case Kind.COMMIT:
            return ConcurrentModificationError(
                f"Somebody else changed table {name} first", why, "Read it again and repeat"
            )
        case _:
            return InternalError(f"The catalog answered 409 about {target}", why)


def told_by(body: bytes) -> str:
    """Read the message of an error, whatever its shape, for a person."""
    return _told(body)[1] or body[:200].decode(errors="replace") or "nothing"


def _told(body: bytes) -> tuple[str, str]:
    """Read the type and message of an error, in the shape of Iceberg or of OAuth2."""
    try:
        error = json.loads(body)
    except ValueError:
        return "", ""
    if not isinstance(error, dict):
        return "", ""
    inner = error.get("error")
    if isinstance(inner, dict):
        return str(inner.get("type") or ""), str(inner.get("message") or "")[:500]
    if isinstance(inner, str):
        return inner, str(error.get("error_description") or inner)[:500]
    return "", ""
