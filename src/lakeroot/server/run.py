"""Starting and stopping the server."""

import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import lance_namespace
import uvicorn
from lance_namespace import LanceNamespace
from uvicorn.supervisors import Multiprocess

from lakeroot.model.errors import InvalidInputError, LakerootError
from lakeroot.server.application import Application, Face
from lakeroot.server.backend import Backend
from lakeroot.server.calls import Caller
from lakeroot.server.deferred import DeferredFace
from lakeroot.server.health import Health
from lakeroot.server.iceberg.oauth import OAuthFace
from lakeroot.server.iceberg.openapi import iceberg_document
from lakeroot.server.identity.authentication import Authentication
from lakeroot.server.identity.cookies import SESSION
from lakeroot.server.lance.face import LanceFace
from lakeroot.server.lance.openapi import lance_document
from lakeroot.server.logs import AccessLog, AuditLog
from lakeroot.server.metrics import Metrics
from lakeroot.server.problems import clean
from lakeroot.server.protocol import ImpatientProtocol
from lakeroot.server.settings import Settings
from lakeroot.server.tracing import tracing
from lakeroot.server.vending import Vending

_DOCUMENTS: Final = {
    "/openapi.json": lance_document,
    "/iceberg-openapi.json": iceberg_document,
}


def build(settings: Settings, shared: Path | None = None) -> Application:
    """Make the application of one worker process: it opens the catalog and every log for itself."""
    caller = Caller(min(settings.limits.concurrency, 64))
    backend = Backend(
        _open(settings),
        caller,
        settings.limits,
        AuditLog(settings.audit_log) if settings.audit_log else None,
        Vending(
            _storage_options(settings), settings.vend_storage_options, settings.credential_vendor
        ),
    )
    metrics = Metrics(shared)
    authentication = Authentication(settings.access_file, caller)
    faces: list[Face] = [
        LanceFace(backend),
        DeferredFace("iceberg", "/iceberg/", lambda: _iceberg(settings, backend, shared)),
        OAuthFace(backend, authentication),
        DeferredFace("console", "/console", lambda: _console(backend), cookie=SESSION),
        DeferredFace("door", "/console/-/", lambda: _door(backend, authentication), public=True),
        Health(backend, metrics, _DOCUMENTS),
    ]
    log = AccessLog(settings.access_log, settings.log_format) if settings.log_requests else None
    traced = tracing() if settings.traces else None
    return Application(faces, backend, authentication, metrics, log, traced)


def _iceberg(settings: Settings, backend: Backend, shared: Path | None) -> Face:
    from lakeroot.server.iceberg.catalog import Catalog
    from lakeroot.server.iceberg.face import IcebergFace
    from lakeroot.server.iceberg.idempotency import Idempotency

    catalog = Catalog(backend.namespace, backend.vending, settings.iceberg)
    return IcebergFace(backend, catalog, Idempotency(shared))


def _console(backend: Backend) -> Face:
    from lakeroot.server.console.face import ConsoleFace

    return ConsoleFace(backend)


def _door(backend: Backend, authentication: Authentication) -> Face:
    from lakeroot.server.console.door import ConsoleDoor

    return ConsoleDoor(backend, authentication)


def _storage_options(settings: Settings) -> dict[str, str]:
    return {
        name.removeprefix("storage."): value
        for name, value in settings.properties.items()
        if name.startswith("storage.")
    }


def _open(settings: Settings) -> LanceNamespace:
    try:
        return lance_namespace.connect(settings.impl, dict(settings.properties))
    except ValueError as problem:  # how `connect` reports whatever the constructor raised
        if isinstance(problem.__context__, LakerootError):
            raise problem.__context__ from None
        raise InvalidInputError("The catalog cannot be opened", clean(str(problem))) from problem


@dataclass(frozen=True)
class _Worker:
    """Makes the application in a worker process; a value, so that it can be sent there."""

    settings: Settings
    shared: Path | None = None
    built: Application | None = None

    def __call__(self) -> Application:
        return self.built or build(self.settings, self.shared)


def serve(settings: Settings, listens: Callable[[str], None] | None = None) -> None:
    """Serve the catalog until the process is asked to stop; requests in flight are finished.

    `listens` is told the address as soon as clients can connect to it.
    """
    settings.check()
    # Built before anything listens, so that whoever starts the server sees what is wrong.
    worker = _Worker(settings, built=build(settings))
    listening = _listen(settings)
    try:
        if listens is not None:
            listens(_address(settings, listening))
        if settings.workers == 1:
            uvicorn.Server(_config(worker)).run(sockets=[listening])
        else:
            _serve_with_workers(settings, listening)
    finally:
        listening.close()


def _serve_with_workers(settings: Settings, listening: socket.socket) -> None:
    shared = Path(tempfile.mkdtemp(prefix="lakeroot-metrics-"))
    try:
        config = _config(_Worker(settings, shared))
        Multiprocess(config, sockets=[listening]).run()
    finally:
        shutil.rmtree(shared, ignore_errors=True)


@contextmanager
def serving(settings: Settings) -> Iterator[str]:
    """Serve the catalog from a thread of this process, and give its address."""
    settings.check()
    worker = _Worker(settings, built=build(settings))
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
