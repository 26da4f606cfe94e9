"""What the server itself refuses, before any catalog sees the request."""

from collections.abc import Mapping
from typing import ClassVar

from lakeroot.model.errors import LakerootError


class RefusalError(LakerootError):
    """A request that is answered by the server alone, with an HTTP status of its own."""

    status: ClassVar[int] = 400
    code = 13

    def __init__(
        self, what: str, why: str = "", fix: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(what, why, fix)
        self.headers = dict(headers or {})


class MalformedRequestError(RefusalError):
    """The bytes of the request are not what they claim to be."""


class RouteNotFoundError(RefusalError):
    """No route of this server has this path."""

    status = 404
    code = 0


class MethodNotAllowedError(RefusalError):
    """The path is a route, but not with this method."""

    status = 405
    code = 0


class RequestTimeoutError(RefusalError):
    """The client took too long to send its request."""

    status = 408


class BodyTooLargeError(RefusalError):
    """The body is larger than the server accepts."""

    status = 413


class WrongContentTypeError(RefusalError):
    """The body is of a kind that this route does not take."""

    status = 415


class TooManyRequestsError(RefusalError):
    """The caller has used up its share; `Retry-After` says when to come back."""

    status = 429
    code = 21


class OverloadedError(RefusalError):
    """The server is busy with other requests; `Retry-After` says when to come back."""

    status = 503
    code = 17


class UnknownOutcomeError(RefusalError):
    """A change took too long to answer: it may or may not have happened."""

    status = 504
    code = 17
