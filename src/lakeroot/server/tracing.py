"""OpenTelemetry traces, when they are switched on: one span for each request.

Where the spans go is configured as for any other program, by OpenTelemetry's own variables: those
who embed the server and have set up a provider keep it; else one is set up here, as `OTEL_*` say.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from lakeroot.model.errors import InvalidInputError

Finish = Callable[[str, str, int], None]

_EXPORTERS: Final = {
    "http/protobuf": ("opentelemetry.exporter.otlp.proto.http", "-http"),
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc", "-grpc"),
}


class Tracing:
    """Traces every request, as a part of the caller's own trace if it sends one."""

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate, trace
        except ImportError as problem:
            raise _missing("opentelemetry-sdk") from problem
        self._api, self._propagate = trace, propagate
        self._own: Any = None
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            self._own = _provider()
            if self._own is not None:
                trace.set_tracer_provider(self._own)
        self._tracer = trace.get_tracer("lakeroot.server")

    @contextmanager
    def __call__(self, method: str, headers: Mapping[str, str]) -> Iterator[Finish]:
        """Be around one request; what is given is called with how it ended."""
        api = self._api
        context = self._propagate.extract(headers)
        with self._tracer.start_as_current_span(
            method, context=context, kind=api.SpanKind.SERVER
        ) as current:

            def finish(operation: str, target: str, status: int) -> None:
                current.update_name(operation)
                current.set_attribute("http.request.method", method)
                current.set_attribute("http.response.status_code", status)
                current.set_attribute("lakeroot.object", target)
                if status >= 500:
                    current.set_status(api.StatusCode.ERROR)

            yield finish

    def flush(self) -> None:
        """Send what is not sent yet, if it was set up here."""
        if self._own is not None:
            self._own.force_flush()


def _provider() -> Any:
    """A provider as the standard variables describe it; nothing if they switch it off."""
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as problem:
        raise _missing("opentelemetry-sdk") from problem
    exporter = _exporter()
    if exporter is None:
        return None
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "lakeroot"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _exporter() -> Any:
    wanted = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() or "otlp"
    if wanted == "none" or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if wanted == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter()
    protocol = (
        os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )
    if wanted != "otlp" or protocol not in _EXPORTERS:
        name, value = (
            ("OTEL_TRACES_EXPORTER", wanted)
            if wanted != "otlp"
            else ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        )
        raise InvalidInputError(
            f"Traces cannot be sent: {name} is {value!r}",
            fix="Choose otlp (by http/protobuf or grpc), console or none",
        )
    module, suffix = _EXPORTERS[protocol]
    try:
        return import_module(f"{module}.trace_exporter").OTLPSpanExporter()
    except ImportError as problem:
        raise _missing(f"opentelemetry-exporter-otlp-proto{suffix}") from problem


def _missing(package: str) -> InvalidInputError:
    return InvalidInputError(
        "Traces need OpenTelemetry",
        f"there is no package {package}",
        "Install it, or `pip install 'lakeroot[traces]'` for OTLP over HTTP",
    )
