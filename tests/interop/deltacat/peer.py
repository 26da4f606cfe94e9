"""Released deltacat as a process that answers questions about a catalog."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("driver.py")


class DeltaCat:
    """A running deltacat at a catalog. `make interop` says in which environment it lives."""

    def __init__(self, root: Path) -> None:
        python = os.environ["LAKEROOT_DELTACAT_PYTHON"]
        self._process = subprocess.Popen(
            [python, str(DRIVER), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answer()

    def __enter__(self) -> "DeltaCat":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    def ask(self, verb: str, *arguments: Any) -> Any:
        """Ask deltacat to do something; what it raises is raised here."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([verb, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["value"]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                return json.loads(line[1:])
        raise RuntimeError(f"deltacat ended with {self._process.wait()}")
