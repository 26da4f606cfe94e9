"""The ASGI application: what happens to every request, whichever face answers it."""

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from lakeroot.model.errors import LakerootError, UnauthenticatedError
from lakeroot.server.backend import Backend, audited
from lakeroot.server.deadlines import Deadlines
from lakeroot.server.identity.authentication import Authentication
from lakeroot.server.identity.cookies import credentials
from lakeroot.server.identity.denials import Denial
from lakeroot.server.limits import Gate, Rates
from lakeroot.server.logs import AccessLog
from lakeroot.server.metrics import Metrics
from lakeroot.server.problems import as_error
from lakeroot.server.refusals import (
    MalformedRequestError,
    OverloadedError,
    RefusalError,
    RequestTimeoutError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from lakeroot.server.tracing import Tracing
from lakeroot.server.wire import Receive, Request, Response, Send

if TYPE_CHECKING:
    from lakeroot.server.lane import Lane

_GOOD_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_ONCE: Final = ("authorization", "content-length", "content-type", "x-api-key", "host")
_PIECE: Final = 1 << 20
_KEEP_UP_SECONDS: Final = 1.0


class Face(Protocol):
    """One protocol spoken by the server, under one prefix of its paths."""

    name: str
    prefix: str
    public: bool
    cookie: str | None
    """The cookie in which this face, and no other, takes a token."""

    async def answer(self, request: Request) -> Response:
        """Answer a request, or raise."""

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Say in this protocol what went wrong."""


class Application:
    """Gives every request an id, a caller, limits, an answer in the right shape, and a log line."""

    def __init__(
        self,
        faces: Sequence[Face],
        backend: Backend,
        authentication: Authentication,
        metrics: Metrics,
        access_log: AccessLog | None,
        tracing: Tracing | None = None,
    ) -> None:
        self._faces = sorted(faces, key=lambda face: len(face.prefix), reverse=True)
        self.backend = backend
        self.authentication = authentication
        self.metrics = metrics
        self._access_log = access_log
        self._tracing = tracing
        self.lane: Lane | None = None
        """The short way for requests that can be answered in place, where there is one."""
        self._prefix = secrets.token_hex(6)  # unique to this process, so its numbers are too
        self._numbers = count()
        self.deadlines = Deadlines()
        self._helpers: list[asyncio.Task[None]] = []
        limits = backend.limits
        self.gate = Gate(limits.concurrency)
        self._rates = Rates(limits.requests_per_second, limits.burst)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1002})

    async def _http(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        start = perf_counter()
        request, fault = self.new_request(scope, receive)
        face = self._face_for(request.path)
        self.metrics.in_flight += 1
        try:
            if self._tracing is None:
                response = await self._answer(face, request, fault)
            else:
                with self._tracing(request.method, request.headers) as finish:
                    response = await self._answer(face, request, fault)
                    finish(request.operation, request.target, response.status)
            await self._send(request, response, send)
        except TimeoutError:
            return  # the client does not read its answer; the connection is closed
        finally:
            self.metrics.in_flight -= 1
        self.note(face, request, response.status, perf_counter() - start)

    def new_request(
        self, scope: Mapping[str, Any], receive: Receive
    ) -> tuple[Request, RefusalError | None]:
        """Give a request its id; also tells what is wrong with its headers."""
        headers, fault = _headers(scope["headers"])
        given = headers.get("x-request-id")
        request_id = (
            given
            if given and _GOOD_REQUEST_ID.match(given)
            else f"{self._prefix}-{next(self._numbers):x}"
        )
        return Request(scope, receive, request_id=request_id, headers=headers), fault

    async def _answer(self, face: Face, request: Request, fault: RefusalError | None) -> Response:
        try:
            _raise(fault)
            if face.public:
                return await face.answer(request)
            self.gate.enter()
            task = self.deadlines.start(request, self.backend.limits.request_seconds)
            try:
                request.access = await self.authentication.access(
                    credentials(request.headers, face.cookie)
                )
                if self._rates.limited:
                    self._rates.take(request.access.principal + request.client)
                return await face.answer(request)
            finally:
                self.deadlines.stop(task)
                self.gate.leave()
        except asyncio.CancelledError:
            if not request.overdue:
                raise
            task.uncancel()
            return self.too_slow(face, request)
        except Exception as problem:  # noqa: BLE001  whatever it is, the caller gets an answer
            return self.refusal(face, request, problem)

    def refusal(self, face: Face, request: Request, problem: BaseException) -> Response:
        """Count what went wrong, and say it."""
        self._note_refusal(request, problem)
        return face.explain(as_error(problem, request.id), request)

    def too_slow(self, face: Face, request: Request) -> Response:
        """Say that there was no time left for a request."""
        return face.explain(_too_slow(request), request)

    async def _send(self, request: Request, response: Response, send: Send) -> None:
        body = response.body
        headers = [(b"x-request-id", request.id.encode())]
        if response.status not in (204, 304):
            headers.append((b"content-length", str(len(body)).encode()))
        if response.content_type is not None:
            headers.append((b"content-type", response.content_type.encode()))
        for name, value in response.headers.items():
            headers.append((name.lower().encode(), value.encode("latin-1", "replace")))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if request.method == "HEAD" or len(body) <= _PIECE:
            await send({"type": "http.response.body", "body": body})
            return
        view = memoryview(body)
        for at in range(0, len(view), _PIECE):
            async with asyncio.timeout(self.backend.limits.idle_seconds):
                piece = bytes(view[at : at + _PIECE])
                more = at + _PIECE < len(view)
                await send({"type": "http.response.body", "body": piece, "more_body": more})

    def _face_for(self, path: str) -> Face:
        for face in self._faces:
            if path.startswith(face.prefix):
                return face
        return self._faces[-1]

    def note(self, face: Face, request: Request, status: int, seconds: float) -> None:
        """Count an answered request, and log it."""
        self.metrics.count(face.name, request.operation, status, seconds)
        if self._access_log is not None:
            self._access_log.write(
                {
                    "request": request.id,
                    "client": request.client,
                    "principal": request.access.principal,
                    "method": request.method,
                    "face": face.name,
                    "operation": request.operation,
                    "object": request.target,
                    "status": status,
                    "ms": round(seconds * 1000, 3),
                }
            )

    def _note_refusal(self, request: Request, problem: BaseException) -> None:
        if isinstance(problem, OverloadedError):
            self.metrics.refuse("concurrency")
        elif isinstance(problem, TooManyRequestsError):
            self.metrics.refuse("rate")
        elif isinstance(problem, Denial | UnauthenticatedError):
            reason = "denied" if isinstance(problem, Denial) else "unauthenticated"
            self.metrics.refuse(reason)
            if self.backend.audit is not None:
                self.backend.audit.write(reason, audited(request))

    def start(self) -> None:
        """Begin what goes on beside the requests."""
        self._helpers = [
            asyncio.create_task(self._keep_up()),
            asyncio.create_task(self.deadlines.watch()),
        ]

    async def stop(self) -> None:
        """End it, when the last request is answered, and write what is not written yet."""
        for helper in self._helpers:
            helper.cancel()
        self.metrics.publish()
        if self._access_log is not None:
            self._access_log.flush()
        await asyncio.to_thread(self.backend.caller.close)
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.flush)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _keep_up(self) -> None:
        """Tell the other workers what was counted, and see whether the access file changed."""
        while True:
            await asyncio.sleep(_KEEP_UP_SECONDS)
            self.metrics.publish()
            self.authentication.refresh()


def _headers(raw: Sequence[tuple[bytes, bytes]]) -> tuple[dict[str, str], RefusalError | None]:
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in raw}
    if len(found) == len(raw):
        return found, None
    names = Counter(name.decode("latin-1") for name, _ in raw)
    repeated = next((name for name in _ONCE if names[name] > 1), None)
    if repeated is None:
        return found, None
    return found, MalformedRequestError(f"The header {repeated} was given more than once")


def _raise(fault: RefusalError | None) -> None:
    if fault is not None:
        raise fault


def _too_slow(request: Request) -> RefusalError:
    if request.receiving:
        return RequestTimeoutError(
            "The body did not arrive in time", headers={"Connection": "close"}
        )
    if request.changes:
        return UnknownOutcomeError(
            "The change took too long to wait for",
            "it may still happen",
            "Look at the object before trying again",
        )
    return OverloadedError("The answer took too long", headers={"Retry-After": "5"})
