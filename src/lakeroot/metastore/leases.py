"""Leases: the announcement of a transaction that writes data files, and its sign of life.

It is written before the first data file, so a file of a dead writer can be told from one that is
about to be committed. Age is measured by the storage's clock alone: the time of a file just written
against the time of the lease. A lease that is judged wrongly costs a transaction, never data,
because a transaction that is declared dead is fenced in the commit log and cannot commit.
"""

import time
from typing import Final

import msgpack

from lakeroot.metastore import naming
from lakeroot.metastore.log import CommitLog
from lakeroot.metastore.txnlogs import opening
from lakeroot.model.errors import LakerootError

LEASE_MS: Final = 10 * 60 * 1000


class Lease:
    """The lease of one transaction. Nothing is written until a data file is about to be."""

    def __init__(self, log: CommitLog, txn_id: str, message: str | None) -> None:
        self._log = log
        self._txn_id = txn_id
        self._message = message
        self._renewed: float | None = None
        self._beat = 0
        self.files: list[str] = []

    def renew(self) -> None:
        """Show that the transaction is alive; cheap if it was shown a short while ago."""
        now = time.monotonic()
        if self._renewed is not None and (now - self._renewed) * 1000 < LEASE_MS / 4:
            return
        self._beat += 1
        tree = opening(self._txn_id, self._log.catalog_root, self._message)
        tree["lease"] = {"beat": self._beat, "ttl_ms": LEASE_MS}
        self._log.objects.put(self._path, msgpack.packb(tree))
        self._renewed = now

    def announce(self, path: str) -> None:
        """Say that a data file is about to be written."""
        self.renew()
        self.files.append(path)

    def release(self) -> None:
        """End the lease of a transaction that has committed."""
        if self._renewed is not None:
            self._quietly([self._path])
            self._renewed = None

    def abandon(self) -> None:
        """End the lease of a transaction that failed, and remove the files it wrote."""
        self._quietly(self.files)
        self.files.clear()
        self.release()

    @property
    def _path(self) -> str:
        return naming.running_path(self._log.layout, self._txn_id)

    def _quietly(self, paths: list[str]) -> None:
        try:
            self._log.objects.delete(paths)
        except LakerootError:
            return  # vacuum removes what is left
