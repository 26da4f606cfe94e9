"""Committing changed rows after versions of others that they may pass.

A merge takes minutes, and a stream appends to its table each second: begun anew whenever there is
a newer version, it would never end. What only appends, compacts or indexes might as well have come
later, so the change goes on top of it; beside anything else it is computed again.
"""

from collections.abc import Mapping
from typing import Any

import lance

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.spark.commits import commit
from lakeroot.spark.opening import newest_at
from lakeroot.spark.write_tasks import WritePlan
from lakeroot.tables.strictly import ROUNDS, may_pass


def commit_passing(
    plan: WritePlan, read: lance.LanceDataset, operation: Any, properties: Mapping[str, str]
) -> lance.LanceDataset:
    """Commit a change right after the version it has read, or after others that might come later.

    Beside other changes it is a ConcurrentModificationError, and nothing has changed then.
    """
    onto = read
    for _ in range(ROUNDS):
        try:
            return commit(
                plan.table,
                onto,
                operation,
                read_version=read.version,
                properties=properties,
                strict=True,
                branch=plan.options.branch,
            )
        except ConcurrentModificationError:
            newest = newest_at(plan.table, plan.options.branch)
            if not may_pass(newest, onto):
                raise
            onto = newest
    raise ConcurrentModificationError(f"Others append to table {plan.table.ref} all the time")
