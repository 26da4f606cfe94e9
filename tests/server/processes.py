"""The real command in a process of its own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = str(Path(sys.executable).parent / "lakeroot")
_ADDRESS = re.compile(r" at (https?://\S+)")
_REPOSITORY = str(Path(__file__).parents[2])


@dataclass
class Served:
    """A server that is up, and what it says."""

    process: subprocess.Popen[str]
    url: str = ""
    said: list[str] = field(default_factory=list)


def lakeroot(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False
    )


@contextmanager
def served(*arguments: str, **properties: str) -> Iterator[Served]:
    """Run `lakeroot serve` on a free port; stopped, if it has not been, at the end."""
    given = [part for key, value in properties.items() for part in ("-P", f"{key}={value}")]
    process = subprocess.Popen(
        [COMMAND, *given, "serve", *arguments, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": _REPOSITORY},
    )
    running = Served(process)
    listens = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            running.said.append(line)
            found = _ADDRESS.search(line)
            if found and not running.url:
                running.url = found[1]
                listens.set()
        listens.set()

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    try:
        assert listens.wait(300)
        assert running.url, "".join(running.said)
        yield running
    finally:
        process.terminate()
        process.wait(300)
        reader.join(300)
