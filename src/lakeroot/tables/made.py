"""Which transaction of Lance made a version."""

from typing import Any

import lance
from lance import LanceDataset


def transaction_of(dataset: LanceDataset, version: int) -> lance.Transaction | None:
    """Read the transaction behind a version; nothing if its writer kept none.

    Lance raises what it raises once it is cleaned up.
    """
    return dataset.read_transaction(version)


def _give_defaults(made: Any) -> None:
    """Let pylance show a compaction that took indexes along.

    It makes a value for each of them out of two of the five things that the value asks for, and
    fails with a TypeError. The other three are of no use to whoever reads.
    """
    if made.__init__.__defaults__ is None:
        made.__init__.__defaults__ = ("", b"", 0)


_give_defaults(lance.LanceOperation.RewrittenIndex)
