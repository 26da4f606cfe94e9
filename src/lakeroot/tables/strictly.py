"""Committing a change that Lance would rebase over others that it must not pass.

Lance rebases a transaction over whatever was committed meanwhile, where it sees no conflict. It
sees none between two merges that insert the same new key: the key would be there twice.
"""

from typing import Final

import lance
from lance import LanceDataset

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.objects import open_root, parse_root
from lakeroot.tables.handle import TableHandle, Workbench
from lakeroot.tables.made import transaction_of
from lakeroot.tables.next_version import CatalogDecides, FilesDecide, NextVersionOnly
from lakeroot.tables.versions import MAIN

ROUNDS: Final = 100
"""How often a commit is tried after versions that it may pass."""
# None of them changes rows, or looks for keys: each might as well have come later.
_PASSED: Final = frozenset({"Append", "Rewrite", "CreateIndex"})


def commit_strictly(
    handle: TableHandle, read: LanceDataset, transaction: lance.Transaction, branch: str | None
) -> LanceDataset:
    """Commit a change right after the version it has read, or after others that might come later.

    Lance refuses in any case what does not go together with them.
    """
    table, onto = Workbench(handle), read
    for _ in range(ROUNDS):
        client = _next_version(table, onto.version, branch)
        try:
            return LanceDataset.commit(
                onto,
                transaction,
                storage_options=table.options["storage_options"],
                # What is refused once is refused again, and Lance would pause in between.
                max_retries=0,
                namespace_client=client,
                table_id=list(handle.table_id) or ["table"],
                namespace_client_managed_versioning=True,
            )
        except Exception:
            if client.failure is not None:
                raise client.failure from None
            if not client.refused:
                raise
        newest = table.open(branch=branch)
        if not may_pass(newest, onto):
            break
        onto = newest
    raise ConcurrentModificationError(
        "Another writer was first",
        f"version {read.version} was read, and what was committed since may have the same keys",
        "Merge again",
    )


def _next_version(table: Workbench, base: int, branch: str | None) -> NextVersionOnly:
    handle = table.handle
    branch = None if branch == MAIN else branch
    root = parse_root(table.location, handle.storage_options)  # Lance names whole paths.
    files = open_root(root)
    arbiter: CatalogDecides | FilesDecide
    if handle.managed:
        arbiter = CatalogDecides(handle.namespace_client, handle.table_id, branch)
    else:
        arbiter = FilesDecide(root.uri, files, branch)
    return NextVersionOnly(root.uri, files, base, arbiter, branch)


def may_pass(newest: LanceDataset, onto: LanceDataset) -> bool:
    """Tell whether everything that came after a version is as good as if it came later still."""
    numbers = range(onto.version + 1, newest.version + 1)
    if not numbers:
        return False
    try:
        if newest.checkout_version(onto.version).get_version() != onto.get_version():
            return False  # It is another table by now.
        made = [transaction_of(newest, number) for number in numbers]
    except (OSError, ValueError):
        return False  # They were cleaned up.
    return all(one is not None and type(one.operation).__name__ in _PASSED for one in made)
