"""Starting and stopping the server."""

import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.server.news import News
from lakeroot.server.protocol import ImpatientProtocol
from lakeroot.server.settings import Settings
from lakeroot.server.starting import Starting, without_http_client
from lakeroot.server.workers import supervisor

if TYPE_CHECKING:
    from lakeroot.server.application import Application


@dataclass(frozen=True)
class _Worker:
    """Makes the application of a process; a value, so that it can be sent to another one."""

    settings: Settings
    shared: Path | None = None
    made: Any = None

    def __call__(self) -> Any:
        if self.made is not None:
            return self.made
        starting = Starting(lambda: _built(self.settings, self.shared), self.settings)
        if self.shared is not None:
            news = News(self.shared)
            starting.opened = news.opened
            starting.give_up = lambda: news.failed(starting.problem)
        return starting


def _built(settings: Settings, shared: Path | None = None) -> "Application":
    """Load the libraries, which takes most of the time of a start, and open the catalog."""
    without_http_client()
    from lakeroot.server.building import build

    return build(settings, shared)


def serve(settings: Settings, listens: Callable[[str], None] | None = None) -> None:
    """Serve the catalog until the process is asked to stop; requests in flight are finished.

    `listens` is told the address as soon as the catalog is open.
    """
    settings.check()
    listening = _listen(settings)
    address = _address(settings, listening)

    def opened() -> None:
        if listens is not None:
            listens(address)

    try:
        if settings.workers == 1:
            _serve_alone(settings, listening, opened)
        else:
            _serve_with_workers(settings, listening, opened)
    finally:
        listening.close()


def _serve_alone(settings: Settings, listening: socket.socket, opened: Callable[[], None]) -> None:
    starting = Starting(lambda: _built(settings), settings)
    starting.opened = opened
    server = uvicorn.Server(_config(_Worker(settings, made=starting)))
    starting.give_up = lambda: setattr(server, "should_exit", True)
    server.run(sockets=[listening])
    if starting.problem is not None:
        raise starting.problem


def _serve_with_workers(
    settings: Settings, listening: socket.socket, opened: Callable[[], None]
) -> None:
    shared = Path(tempfile.mkdtemp(prefix="lakeroot-metrics-"))
    workers = supervisor(_config(_Worker(settings, shared)), [listening])
    problems: list[LakerootError] = []

    def watch() -> None:
        # Whoever starts the server sees what is wrong, though it is a worker that finds it.
        problem = News(shared).wait(workers.should_exit)
        if problem is not None:
            problems.append(problem)
            workers.should_exit.set()
        elif not workers.should_exit.is_set():
            opened()

    try:
        # Threads only after the workers are there: they may be copies of this process.
        workers.init_processes()
        threading.Thread(target=watch, daemon=True).start()
        workers.init_processes = lambda: None  # type: ignore[method-assign]
        workers.run()
    finally:
        shutil.rmtree(shared, ignore_errors=True)
    if problems:
        raise problems[0]


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """Serve the catalog from a thread of this process, and give its address."""
    from lakeroot.server.building import build

    settings.check()
    worker = _Worker(settings, made=build(settings))
    listening = _listen(settings)
    server = uvicorn.Server(_config(worker))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise InvalidInputError("The server did not start", "the log has the reason")
            thread.join(0.005)
        yield _address(settings, listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as problem:
        listening.close()
        raise InvalidInputError(
            f"The server cannot listen on {settings.host}:{settings.port}",
            problem.strerror or "",
            "Choose another address or port",
        ) from problem
    listening.listen(2048)
    listening.set_inheritable(True)
    return listening


def _address(settings: Settings, listening: socket.socket) -> str:
    scheme = "https" if settings.tls_certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listening.getsockname()[1]}"


def _config(worker: _Worker) -> uvicorn.Config:
    settings = worker.settings
    limits = settings.limits
    return uvicorn.Config(
        cast("Any", worker),
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=ImpatientProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=int(limits.keep_alive_seconds),
        timeout_graceful_shutdown=int(limits.request_seconds),
        # A worker that is slow to start on a busy machine must not be killed and started again.
        timeout_worker_healthcheck=60,
        h11_max_incomplete_event_size=64 << 10,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies) or None,
        ssl_certfile=str(settings.tls_certificate) if settings.tls_certificate else None,
        ssl_keyfile=str(settings.tls_key) if settings.tls_key else None,
    )
