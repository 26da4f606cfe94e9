"""Committing a change that Lance would rebase over others that it must not pass.

Lance rebases a transaction over whatever was committed meanwhile, where it sees no conflict. It
sees none between two merges that insert the same new key: the key would be there twice.
"""

import lance
from lance import LanceDataset

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.objects import open_root, parse_root
from lakeroot.tables.handle import TableHandle, Workbench
from lakeroot.tables.meanwhile import ROUNDS, is_still, made_by, may_pass
from lakeroot.tables.next_version import CatalogDecides, FilesDecide, NextVersionOnly
from lakeroot.tables.versions import MAIN


def commit_strictly(
    handle: TableHandle, read: LanceDataset, transaction: lance.Transaction, branch: str | None
) -> LanceDataset:
    """Commit a change right after the version it has read, or after others that might come later.

    Lance refuses in any case what does not go together with them.
    """
    table, onto, refused = Workbench(handle), read, 0
    for _ in range(ROUNDS):
        newest = table.open(branch=branch)
        mine = made_by(transaction, newest, onto)
        if mine is not None:
            return newest.checkout_version(mine)  # Its answer was lost.
        if newest.version == refused or not may_pass(newest, onto):
            break
        onto = newest
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
            if client.failure is not None and is_still(table.open(branch=branch), onto):
                raise client.failure from None
            if client.failure is None and not client.refused:
                raise
        refused = onto.version
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
