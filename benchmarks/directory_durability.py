"""What it costs that a commit waits for the disk: the same commits with and without, in turns."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from lance_namespace import CreateNamespaceRequest

from benchmarks.report import Row, asking, interleaved
from lakeroot import DeltaCatNamespace, DirectoryNamespace

TITLE = "Durability (`durable`, on unless switched off)"
PEER = "without"


def run(*, quick: bool) -> Iterable[Row]:
    rounds = 20 if quick else 100
    kinds = {"directory": DirectoryNamespace, "metastore": DeltaCatNamespace}
    for where, parent in _places().items():
        for kind, opened in kinds.items():
            root = Path(tempfile.mkdtemp(prefix="lakeroot-durable-", dir=parent))
            try:
                waiting = opened(root=str(root / "waiting"), durable="true")
                hasty = opened(root=str(root / "hasty"), durable="false")
                requests = [CreateNamespaceRequest(id=[f"n{n:04d}"]) for n in range(rounds)]
                taken = interleaved(
                    asking(waiting.create_namespace, requests),
                    asking(hasty.create_namespace, requests),
                    rounds=rounds,
                )
                yield Row(f"{kind}: create_namespace", where, *taken, unit="ms")
            finally:
                shutil.rmtree(root, ignore_errors=True)


def _places() -> dict[str, str]:
    """Give a real disk and, where there is one, a directory in memory."""
    memory = Path("/dev/shm")
    return {"disk": "."} | ({"memory": str(memory)} if memory.is_dir() else {})
