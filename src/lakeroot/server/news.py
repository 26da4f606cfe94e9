"""What the workers tell the process that started them, in files of a directory they share."""

import json
from pathlib import Path
from threading import Event
from typing import Final

from lakeroot.model.errors import InvalidInputError, LakerootError

_LOOK_EVERY_SECONDS: Final = 0.05


class News:
    """Whether the catalog could be opened: the first worker that knows says so."""

    def __init__(self, folder: Path) -> None:
        self._opened = folder / "opened"
        self._failed = folder / "failed"

    def opened(self) -> None:
        """Tell that a worker has the catalog open."""
        self._opened.touch()

    def failed(self, problem: Exception | None) -> None:
        """Tell why a worker cannot open it."""
        said = {"what": f"{type(problem).__name__}: {problem}", "why": "", "fix": ""}
        if isinstance(problem, LakerootError):
            said = {"what": problem.what, "why": problem.why, "fix": problem.fix}
        fresh = self._failed.with_suffix(".new")
        fresh.write_text(json.dumps(said))
        fresh.replace(self._failed)

    def wait(self, over: Event) -> LakerootError | None:
        """Wait until one worker knows, or nobody cares any more; gives what is wrong."""
        while not over.wait(_LOOK_EVERY_SECONDS):
            if self._failed.exists():
                return InvalidInputError(**json.loads(self._failed.read_text()))
            if self._opened.exists():
                return None
        return None
