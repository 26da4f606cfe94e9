"""HTTP/1.1 over httptools, with a clock on slow clients and a short way for simple requests.

Everything that HTTP asks of a server is uvicorn's. A request that arrives in one piece, on a
connection where nothing else is going on, is offered to the application's short way first
(`lakeroot.server.lane`); if that does not take it, uvicorn never knows that it was asked.
"""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

if TYPE_CHECKING:
    from lakeroot.server.wire import Request, Response

_LARGEST_PIECE: Final = 64 << 10
_LARGEST_HEAD: Final = 64 << 10
_TOO_LARGE: Final = "The headers of the request are too large."
_SHORT_WAY: Final = b"/v1/"


class _Exchange:
    """A request that was taken and is not answered yet, as uvicorn looks at one."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self, message_event: asyncio.Event) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.message_event = message_event
        self.response_complete = False


class ImpatientProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers take too long to arrive."""

    _clock: asyncio.TimerHandle | None = None
    _begun = False
    _reading = False
    _held: bytes | None = None
    """The body, so far, of a request that waits for the end of the piece it arrived in."""
    _active = 0.0
    _unfinished = _fields = 0
    """How many bytes of the head of a request came in pieces, and how many its headers have."""
    url = b""
    _nothing = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Read a piece of what the client sends."""
        # A timer for every request costs more than to look, when it rings, what happened since.
        timer, self.timeout_keep_alive_task = self.timeout_keep_alive_task, None
        self._reading = True
        super().data_received(data)
        self._reading = False
        if self._held is not None:
            self._go_the_ordinary_way()
        if self._begun:
            self._start_clock()
            self._unfinished += len(data)
            if self._unfinished > _LARGEST_HEAD:
                self.send_400_response(_TOO_LARGE)
        if not self._begun:
            self.timeout_keep_alive_task = timer or self._new_timer(self.timeout_keep_alive)
        elif timer is not None:
            timer.cancel()

    def _is_busy(self) -> bool:
        """Tell whether a request of this connection is not answered yet."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _new_timer(self, seconds: float) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def on_message_begin(self) -> None:
        """The first bytes of a request are here; the rest of its headers must follow."""
        super().on_message_begin()
        self._begun = True
        self._unfinished = self._fields = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header is here."""
        super().on_header(name, value)
        self._fields += len(name) + len(value)
        if self._fields + len(self.url) > _LARGEST_HEAD:
            raise ValueError(_TOO_LARGE)  # ends the parsing, which ends the connection

    def send_400_response(self, msg: str) -> None:
        """Tell why a connection is closed whose request cannot be understood."""
        if max(self._unfinished, self._fields + len(self.url)) <= _LARGEST_HEAD:
            super().send_400_response(msg)
            return
        self.transport.write(
            STATUS_LINE[431]
            + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            + f"content-length: {len(_TOO_LARGE)}\r\n\r\n{_TOO_LARGE}".encode()
        )
        self.transport.close()

    def on_headers_complete(self) -> None:
        """The headers are here."""
        self._begun = False
        if self._clock is not None:
            self._stop_clock()
        if self._may_go_the_short_way():
            self._held = b""
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body is here."""
        if self._held is None:
            super().on_body(body)
        else:
            self._held += body
            if len(self._held) > _LARGEST_PIECE:
                self._go_the_ordinary_way()

    def on_message_complete(self) -> None:
        """The request is here whole."""
        body = self._held
        if body is None:
            super().on_message_complete()
        elif self._is_taken(body):
            self._held = None
        else:
            self._go_the_ordinary_way()
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left to wait for."""
        self._stop_clock()
        self._held = None
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """The time that a connection may lie idle is over, counted from when it last began."""
        self.timeout_keep_alive_task = None
        if self._is_busy() or self._begun:
            return
        left = self._active + self.timeout_keep_alive - monotonic()
        if left <= 0:
            super().timeout_keep_alive_handler()
        else:
            self.timeout_keep_alive_task = self._new_timer(left)

    def _may_go_the_short_way(self) -> bool:
        return (
            self.url.startswith(_SHORT_WAY)
            and not self._is_busy()
            and not self.expect_100_continue
            and not self.flow.write_paused
            and getattr(self.app, "lane", None) is not None
            and b"#" not in self.url
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
        )

    def _go_the_ordinary_way(self) -> None:
        """Let uvicorn have the request, as far as it is here."""
        body, self._held = self._held, None
        super().on_headers_complete()
        if body:
            super().on_body(body)

    def _is_taken(self, body: bytes) -> bool:
        # The lane was there when the headers were, and an application never loses it.
        app: Any = self.app
        lane = app.lane
        path, _, query = self.url.partition(b"?")
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["method"] = self.parser.get_method().decode("ascii")
        scope["raw_path"] = path
        scope["query_string"] = query
        exchange = _Exchange(self._nothing)
        before: Any = self.cycle
        self.cycle = exchange  # type: ignore[assignment]
        taken: bool = lane.take(scope, body, lambda *answer: self._reply(exchange, *answer))
        if not taken:
            self.cycle = before
        return taken

    def _reply(self, exchange: _Exchange, request: "Request", response: "Response") -> None:
        """Write an answer whole; it is small."""
        exchange.response_complete = True
        if self.transport.is_closing():
            return
        headers = response.headers
        parts = [STATUS_LINE[response.status]]
        for name, value in self.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        parts.append(
            b"x-request-id: %b\r\ncontent-length: %d\r\n"
            % (request.id.encode(), len(response.body))
        )
        if response.content_type is not None:
            parts.append(b"content-type: %b\r\n" % response.content_type.encode())
        for field, text in headers.items():
            clean = text.replace("\r", " ").replace("\n", " ")
            parts.append(f"{field.lower()}: {clean}\r\n".encode("latin-1", "replace"))
        closes = not exchange.keep_alive or headers.get("Connection") == "close"
        if not exchange.keep_alive and "Connection" not in headers:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", response.body)
        self.transport.write(b"".join(parts))
        if closes:
            self.transport.close()
        self._rest()

    def _rest(self) -> None:
        """Nothing is going on any more, unless the next request is waiting."""
        if self.pipeline or (self.timeout_keep_alive_task is None and not self._reading):
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1
        self._active = monotonic()

    def _start_clock(self) -> None:
        if self._clock is None:
            # The application factory is a value that carries the settings of this server.
            seconds = self.config.app.settings.limits.header_seconds  # type: ignore[union-attr]
            self._clock = self.loop.call_later(seconds, self._too_late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_late(self) -> None:
        self._clock = None
        if not self.transport.is_closing():
            self.transport.close()
