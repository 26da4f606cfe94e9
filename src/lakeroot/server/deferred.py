"""A face whose libraries are loaded when it is first needed, so that the server starts quickly."""

import asyncio
from collections.abc import Callable
from threading import Lock

from lakeroot.model.errors import LakerootError
from lakeroot.server.application import Face
from lakeroot.server.wire import Request, Response


class DeferredFace:
    """Stands for a face until the first request for it comes."""

    def __init__(
        self,
        name: str,
        prefix: str,
        load: Callable[[], Face],
        *,
        public: bool = False,
        cookie: str | None = None,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.public = public
        self.cookie = cookie
        self._load = load
        self._face: Face | None = None
        self._lock = Lock()

    async def answer(self, request: Request) -> Response:
        """Answer with the face that this one stands for."""
        face = self._face
        if face is None:
            face = await asyncio.to_thread(self._loaded)
        return await face.answer(request)

    def explain(self, error: LakerootError, request: Request) -> Response:
        """Explain with the face that this one stands for."""
        return self._loaded().explain(error, request)

    def _loaded(self) -> Face:
        with self._lock:
            if self._face is None:
                self._face = self._load()
            return self._face
