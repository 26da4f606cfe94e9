"""The short way of a request that is here whole and can be answered in place.

A task, a scope and the messages of ASGI cost more than a read of a catalog in memory. Requests of
the kinds that are asked for most, and that arrive in one piece, are answered by one plain call;
whatever is not that simple goes the ordinary way, and is treated there as if this did not exist.
Both ways ask the same questions in the same order: who it is, how much is going on, what is asked,
whether it is allowed; and both end in the same metrics and logs.
"""

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from lakeroot.model.errors import UnauthenticatedError
from lakeroot.server.lance.face import LanceFace
from lakeroot.server.problems import as_error
from lakeroot.server.wire import Request, Response

if TYPE_CHECKING:
    from lakeroot.server.application import Application

Reply = Callable[[Request, Response], None]


class Lane:
    """Takes the requests of one face that can be answered in place."""

    def __init__(self, application: "Application", face: LanceFace) -> None:
        self._application = application
        self._face = face

    def take(self, scope: Mapping[str, Any], body: bytes, reply: Reply) -> bool:
        """Take a request, and reply to it now or later; tells whether it was taken."""
        start = perf_counter()
        application, face = self._application, self._face
        request, fault = application.new_request(scope, _never)
        if fault is not None or len(body) > application.backend.limits.json_bytes:
            return False  # told in the ordinary way
        try:
            access = application.authentication.known(request.headers)
        except UnauthenticatedError:
            return False
        if access is None:
            return False
        request.access = access
        later: Response | asyncio.Future[Any] | None
        application.metrics.in_flight += 1
        try:
            application.gate.enter()
            try:
                call = face.understood(request, body)
                later = None if call is None else face.at_once(request, call)
            finally:
                application.gate.leave()
        except Exception as problem:  # noqa: BLE001  whatever it is, the caller gets an answer
            later = application.refusal(face, request, problem)
        finally:
            application.metrics.in_flight -= 1
        if later is None:
            return False
        if isinstance(later, Response):
            reply(request, later)
            application.note(face, request, later.status, perf_counter() - start)
        else:
            self._wait(request, later, reply, start)
        return True

    def _wait(
        self, request: Request, work: "asyncio.Future[Any]", reply: Reply, start: float
    ) -> None:
        application, face = self._application, self._face
        application.metrics.in_flight += 1
        application.gate.in_flight += 1
        deadlines = application.deadlines
        deadlines.watch_over(work, request, application.backend.limits.request_seconds)

        def over(work: "asyncio.Future[Any]") -> None:
            deadlines.stop(work)
            application.gate.leave()
            application.metrics.in_flight -= 1
            try:
                if work.cancelled():
                    response = application.too_slow(face, request)
                elif (problem := work.exception()) is not None:
                    response = application.refusal(face, request, problem)
                else:
                    response = face.answered(request, work.result())
            except Exception as problem:  # noqa: BLE001  whatever it is, the caller gets an answer
                response = face.explain(as_error(problem, request.id), request)
            reply(request, response)
            application.note(face, request, response.status, perf_counter() - start)

        work.add_done_callback(over)


async def _never() -> Any:
    raise AssertionError("the body of this request is here already")
