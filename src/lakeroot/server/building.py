"""The application of one worker process: the catalog, its faces, everything around them."""

from pathlib import Path
from typing import Final

import lance_namespace
from lance_namespace import LanceNamespace

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
from lakeroot.server.lane import Lane
from lakeroot.server.logs import AccessLog, AuditLog
from lakeroot.server.metrics import Metrics
from lakeroot.server.problems import clean
from lakeroot.server.settings import Settings
from lakeroot.server.tracing import Tracing
from lakeroot.server.vending import Vending

_DOCUMENTS: Final = {
    "/openapi.json": lance_document,
    "/iceberg-openapi.json": iceberg_document,
}


def build(settings: Settings, shared: Path | None = None) -> Application:
    """Make the application of one worker process: it opens the catalog and every log for itself."""
    caller = Caller(min(settings.limits.concurrency, 64))
    authentication = Authentication(settings.access_file, caller)
    audit = AuditLog(settings.audit_log) if settings.audit_log else None
    backend = Backend(
        _open(settings),
        caller,
        settings.limits,
        audit,
        Vending(
            _storage_options(settings), settings.vend_storage_options, settings.credential_vendor
        ),
    )
    metrics = Metrics(shared)
    lance = LanceFace(backend)
    faces: list[Face] = [
        lance,
        DeferredFace("iceberg", "/iceberg/", lambda: _iceberg(settings, backend, shared)),
        OAuthFace(backend, authentication),
        DeferredFace("console", "/console", lambda: _console(backend), cookie=SESSION),
        DeferredFace("door", "/console/-/", lambda: _door(backend, authentication), public=True),
        Health(backend, metrics, _DOCUMENTS),
    ]
    log = AccessLog(settings.access_log, settings.log_format) if settings.log_requests else None
    traced = Tracing() if settings.traces else None
    application = Application(faces, backend, authentication, metrics, log, traced)
    if traced is None and not settings.limits.requests_per_second:
        application.lane = Lane(application, lance)
    return application


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
        cause = problem.__context__ or problem
        if isinstance(cause, LakerootError):
            raise cause from None
        raise InvalidInputError("The catalog cannot be opened", clean(str(cause))) from problem
