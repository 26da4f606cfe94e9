"""Committing changed rows after versions of others that they may pass.

A merge takes minutes, and a stream appends to its table each second: begun anew whenever there is
a newer version, it would never end. What only appends or indexes might as well have come later, so
the change goes on top of it; beside anything else it is computed again.
"""

from collections.abc import Mapping
from typing import Any

import lance

from lakeroot.model.errors import ConcurrentModificationError, NotFoundError
from lakeroot.spark.commits import commit, require_read
from lakeroot.spark.opening import newest_at
from lakeroot.spark.write_tasks import WritePlan
from lakeroot.tables.meanwhile import ROUNDS, may_pass


def commit_passing(
    plan: WritePlan, read: lance.LanceDataset, operation: Any, properties: Mapping[str, str]
) -> lance.LanceDataset:
    """Commit a change right after the version it has read, or after others that might come later.

    Beside other changes it is a ConcurrentModificationError, and nothing has changed then.
    """
    branch, onto = plan.options.branch, read
    for _ in range(ROUNDS):
        require_read(plan.table, onto, branch)
        try:
            return commit(
                plan.table,
                onto,
                operation,
                read_version=read.version,
                properties=properties,
                strict=True,
                branch=branch,
            )
        except ConcurrentModificationError:
            newer = _newer(plan, onto)
            if newer is None:
                raise
            onto = newer
    raise ConcurrentModificationError(f"Others append to table {plan.table.ref} all the time")


def _newer(plan: WritePlan, onto: lance.LanceDataset) -> lance.LanceDataset | None:
    """Give the newest version, if a change may go on top of it; nothing, if it may not."""
    try:
        newest = newest_at(plan.table, plan.options.branch)
    except NotFoundError:
        return None  # The table has another place by now.
    return newest if newest.version != onto.version and may_pass(newest, onto) else None
