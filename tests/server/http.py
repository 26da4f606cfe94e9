"""The smallest HTTP client that can also say what no library would."""

import json
import socket
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection to a server, with headers of its own."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.address = (parts.hostname, parts.port)
        self.headers = headers or {}
        self._connection = HTTPConnection(*self.address, timeout=120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = {"content-type": "application/json"} if data is not None else {}
        try:
            return self._once(method, path, data, {**kind, **self.headers, **(headers or {})})
        except (HTTPException, ConnectionError):
            self._connection.close()
            return self._once(method, path, data, {**kind, **self.headers, **(headers or {})})

    def _once(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def get(self, path: str, **more: Any) -> Answer:
        return self.call("GET", path, **more)

    def post(self, path: str, body: object = None, **more: Any) -> Answer:
        return self.call("POST", path, body, **more)

    def raw(self, sent: bytes) -> bytes:
        """Send bytes as they are on a new connection, and read until the server closes it."""
        with socket.create_connection(self.address, timeout=30) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))
