"""OpenTelemetry traces, when they are switched on: one span for each request.

Where the spans go is configured as for any other program, by OpenTelemetry's own settings.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from lakeroot.model.errors import InvalidInputError

Finish = Callable[[str, str, int], None]
Tracing = Callable[[str, Mapping[str, str]], AbstractContextManager[Finish]]


def tracing() -> Tracing:
    """Trace every request, as a part of the caller's own trace if it sends one."""
    try:
        from opentelemetry import propagate, trace
    except ImportError as problem:
        raise InvalidInputError(
            "Traces need OpenTelemetry", fix="Install opentelemetry-sdk and an exporter"
        ) from problem
    tracer = trace.get_tracer("lakeroot.server")

    @contextmanager
    def span(method: str, headers: Mapping[str, str]) -> Iterator[Finish]:
        context = propagate.extract(headers)
        with tracer.start_as_current_span(
            method, context=context, kind=trace.SpanKind.SERVER
        ) as current:

            def finish(operation: str, target: str, status: int) -> None:
                current.update_name(operation)
                current.set_attribute("http.request.method", method)
                current.set_attribute("http.response.status_code", status)
                current.set_attribute("lakeroot.object", target)
                if status >= 500:
                    current.set_status(trace.StatusCode.ERROR)

            yield finish

    return span
