"""The first seconds: the server answers at once, and the catalog as soon as it is open.

Loading the libraries of a catalog takes much longer than starting to listen. So the process says
that it is alive from the first moment, says that it is not ready yet, and lets every other request
wait for the catalog instead of finding nobody at home.
"""

import asyncio
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeroot.server.settings import Settings

if TYPE_CHECKING:
    from lakeroot.server.application import Application
    from lakeroot.server.lane import Lane

_LOG: Final = logging.getLogger("lakeroot.server")
_LISTENS_AFTER_SECONDS: Final = 0.02
_CLIENT: Final = "lance_namespace_urllib3_client"


class Starting:
    """Stands before the application from the first moment, and is all there is until it is made."""

    def __init__(self, build: Callable[[], "Application"], settings: Settings) -> None:
        self._build = build
        self._most = settings.limits.concurrency
        self._application: Application | None = None
        self._waiting = 0
        self._over = asyncio.Event()
        self.lane: Lane | None = None
        self.problem: Exception | None = None
        self.opened: Callable[[], None] = lambda: None
        self.give_up: Callable[[], None] = lambda: None

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        application = self._application
        if application is None:
            application = await self._wait(scope, send)
        if application is not None:
            await application(scope, receive, send)

    async def _wait(self, scope: Mapping[str, Any], send: Any) -> "Application | None":
        """Give the application when it is made; answer those who cannot wait for it."""
        path = scope.get("path", "")
        if path == "/healthz":
            await _answer(send, 200, b'{"status":"ok"}')
            return None
        if path == "/readyz" or self._waiting >= self._most:
            await _answer(send, 503, b'{"status":"starting"}')
            return None
        self._waiting += 1
        try:
            await self._over.wait()
        finally:
            self._waiting -= 1
        if self._application is None:
            await _answer(send, 503, b'{"status":"the catalog cannot be opened"}')
        return self._application

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        loop = asyncio.get_running_loop()
        # Not a thread of a pool: a server that is told to stop does not wait for it. And not before
        # the server listens: loading libraries leaves the interpreter to nobody for a long time.
        opening = threading.Thread(target=self._open, args=(loop,), daemon=True)
        loop.call_later(_LISTENS_AFTER_SECONDS, opening.start)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        if self._application is not None:
            await self._application.stop()
        await send({"type": "lifespan.shutdown.complete"})

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            application = self._build()
        except Exception as problem:  # noqa: BLE001  whoever started the server gets it
            _LOG.debug("the catalog cannot be opened", exc_info=True)
            self.problem = problem
            loop.call_soon_threadsafe(self._fail)
        else:
            loop.call_soon_threadsafe(self._start, application)

    def _start(self, application: "Application") -> None:
        application.start()
        self._application = application
        self.lane = application.lane
        self._over.set()
        self.opened()

    def _fail(self) -> None:
        self._over.set()
        self.give_up()


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def without_http_client() -> None:
    """Load the request models of Lance without the HTTP client that is published with them.

    Importing any part of the package makes the whole client, which takes longer than everything
    else. Here the package stays unmade until somebody asks for more than its modules.
    """
    spec = importlib.util.find_spec(_CLIENT) if _CLIENT not in sys.modules else None
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, importlib.util.module_from_spec(spec)

    def made(name: str) -> Any:
        if name.startswith("__") or "__getattr__" not in vars(package):
            raise AttributeError(f"module {_CLIENT!r} has no attribute {name!r}")
        del package.__dict__["__getattr__"]
        loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = made
    sys.modules[_CLIENT] = package
