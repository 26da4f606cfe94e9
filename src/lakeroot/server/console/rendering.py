"""From a page to bytes: HTML through templates that escape everything, or JSON."""

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from lakeroot.lake.moments import show_time
from lakeroot.model.identifiers import show
from lakeroot.server.console import addresses, drawing
from lakeroot.server.wire import JSON, Response

HTML: Final = "text/html; charset=utf-8"
SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NONE: Final = "\N{EN DASH}"
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")


def html(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """Fill a template."""
    text = _templates().get_template(template).render(values)
    return Response(status, text.encode("utf-8", "replace"), HTML, dict(SECURITY))


def as_json(data: object, status: int = 200) -> Response:
    """Write the JSON twin of a page."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    return Response(status, text.encode("utf-8", "replace"), JSON, dict(SECURITY))


@cache
def assets() -> dict[str, tuple[bytes, str]]:
    """Every file that pages ask for, by name, with its kind."""
    folder = files("lakeroot.server.console") / "assets"
    found = {}
    for file in folder.iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _KINDS:
            found[file.name] = (file.read_bytes(), _KINDS[suffix])
    return found


def asset_address(name: str) -> str:
    """The address of a file; it changes with the content, so browsers may keep what they have."""
    digest = hashlib.sha256(assets()[name][0]).hexdigest()[:12]
    return f"{addresses.BASE}/-/assets/{name}?v={digest}"


def count(value: int | None) -> str:
    """Write a number with its thousands apart."""
    return _NONE if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Write a number of bytes for people."""
    if value is None:
        return _NONE
    power = 0 if value < 1000 else min(int(math.log10(value) // 3), len(_UNITS) - 1)
    return f"{value:,} bytes" if power == 0 else f"{value / 1000**power:.3g} {_UNITS[power]}"


def machine_time(timestamp_ms: int) -> str:
    """Write a time for programs."""
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC).isoformat(timespec="seconds")


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("lakeroot.server.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count, size=size, when=show_time, machine_time=machine_time, dotted=_dotted
    )
    environment.globals.update(
        asset=asset_address,
        address=addresses.address,
        table_address=_table_address,
        namespace_address=_namespace_address,
        sketch=drawing.sketch,
        line=drawing.line,
        lanes=drawing.lanes,
    )
    return environment


def _dotted(names: list[str]) -> str:
    return show(tuple(names))


def _table_address(names: list[str], page: str = "overview", **query: object) -> str:
    return addresses.table_address(tuple(names), page, **query)


def _namespace_address(names: list[str], **query: object) -> str:
    return addresses.namespace_address(tuple(names), **query)
