"""HTTP/1.1 over httptools, with a clock on clients that open a connection and send nothing."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class ImpatientProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers take too long to arrive."""

    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._start_clock()

    def on_message_begin(self) -> None:
        """The first bytes of a request are here; the rest of its headers must follow."""
        super().on_message_begin()
        self._start_clock()

    def on_headers_complete(self) -> None:
        """The headers are here."""
        self._stop_clock()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left to wait for."""
        self._stop_clock()
        super().connection_lost(exc)

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
