"""Publish a change of one table: a Lance transaction, committed once, recognised by its job.

Lance rebases a transaction over whatever was committed meanwhile, where it sees no conflict. It
cannot see that two upserts inserted the same new key. A *strict* commit therefore takes exactly
the next version after the one that it is based on, or none.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import lance

from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NotFoundError,
    TableNotFoundError,
)
from lakeroot.spark.catalogs import Located, TableRef, files_of, look_up, renewed
from lakeroot.spark.failures import explained
from lakeroot.tables.made import transaction_of

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace

    from lakeroot.tables.next_version import NextVersionOnly

JOB = "lakeroot.job"
# What a job has done: a write, a merge, ...; earlier releases did not note it.
VERB = "lakeroot.verb"
MESSAGE = "__lance_commit_message"
# How far back a job looks for its own earlier commit; a job is retried soon or never.
HISTORY_SEARCHED = 1000
# Whom to tell of the tables that commits of this process have changed.
_WATCHERS: list[Callable[[TableRef], None]] = []


def watch(watcher: Callable[[TableRef], None]) -> None:
    """Have somebody told of every table whose newest version may be another."""
    if watcher not in _WATCHERS:
        _WATCHERS.append(watcher)


def tell(ref: TableRef) -> None:
    """Tell whoever watches that a table has changed."""
    for watcher in _WATCHERS:
        watcher(ref)


def require_named(table: Located) -> None:
    """Refuse to commit to a table that lost its name while the job ran, and would hide the rows.

    A dropped table may lie in the trash, where a commit would succeed and nobody would look.
    """
    if table.ref.catalog is None:
        return
    try:
        now = look_up(table.ref)
    except NotFoundError:
        # Nothing that is to be tried again: a merge would make the table anew.
        raise TableNotFoundError(
            f"Table {table.ref} was dropped or renamed while the job ran",
            "nothing was written",
            "Run it again, if the rows are still wanted",
        ) from None
    if now.location.rstrip("/") != table.location.rstrip("/"):
        raise _made_anew(table)


def require_read(table: Located, read: lance.LanceDataset, branch: str | None = None) -> None:
    """Refuse to change a table other than the one that was read, which had its name and place.

    The files that a change speaks of went with the old one. A commit asks for a number alone, and
    the new table may have reached it.
    """
    require_named(table)
    if table.managed:
        return
    place = renewed(table)
    version = (None if branch == "main" else branch, read.version)
    try:
        newest = lance.dataset(place.location, storage_options=place.storage_options)
        found = newest.checkout_version(version)
    except (OSError, ValueError) as error:
        meant = explained(f"Table {table.ref} cannot be opened", error)
        if isinstance(meant, NotFoundError):
            raise _made_anew(table) from error
        raise meant from error
    if found.get_version()["timestamp"] != read.get_version()["timestamp"]:
        raise _made_anew(table)


def _made_anew(table: Located) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"Table {table.ref} was dropped and made anew while the job ran",
        "nothing was written",
        "Run it again, if the rows are still wanted",
    )


def commit(
    table: Located,
    base: lance.LanceDataset | str,
    operation: Any,
    *,
    read_version: int,
    properties: Mapping[str, str],
    strict: bool = False,
    branch: str | None = None,
    stable_row_ids: bool | None = None,
    is_aside: bool = False,
) -> lance.LanceDataset:
    """Commit an operation, or a transaction of Lance, and return the new version.

    A lost race is a ConcurrentModificationError, and nothing has changed then. What is written
    aside has no name yet.
    """
    if not is_aside:
        require_named(table)
    transaction = _transaction(operation, read_version, properties)
    fresh = renewed(table)
    if fresh is not table and isinstance(base, lance.LanceDataset):
        # The tasks took longer than the keys lasted with which the base was opened.
        opened = lance.dataset(fresh.location, storage_options=fresh.storage_options)
        base = opened.checkout_version((None if branch == "main" else branch, base.version))
    arguments: dict[str, Any] = {"storage_options": fresh.storage_options}
    if read_version == 0:
        # A first version must be the first: with retries, Lance would replace another writer's.
        arguments["max_retries"] = 0
    if stable_row_ids is not None:
        arguments["enable_stable_row_ids"] = stable_row_ids
    onto = read_version if isinstance(base, str) else base.version
    versions = _next_only(table, onto, branch) if strict else None
    if versions is not None:
        # What is refused once is refused again, and Lance would pause for seconds in between.
        arguments |= {"max_retries": 0, **_managed_by(versions, table)}
    elif table.managed and table.ref.catalog is not None:
        arguments |= _managed_by(table.ref.catalog.connect(), table)
    try:
        return lance.LanceDataset.commit(base, transaction, **arguments)
    except (OSError, RuntimeError, ValueError) as error:
        if versions is not None and versions.refused:
            raise ConcurrentModificationError(
                f"Table {table.ref} changed while the job ran",
                f"the job knows version {onto}, and a newer one was committed",
                "Run it again",
            ) from None
        raise explained(f"Table {table.ref} cannot be committed", error) from error
    finally:
        # Also of one that failed: it lost a race, or it is there and only its answer was lost.
        tell(table.ref)


def _next_only(table: Located, base: int, branch: str | None) -> "NextVersionOnly":
    # Imported here, because tasks import this module and commit nothing: they need no client.
    from lakeroot.tables.next_version import CatalogDecides, FilesDecide, NextVersionOnly

    files = files_of(table)
    arbiter: CatalogDecides | FilesDecide = FilesDecide(table.location, files, branch)
    if table.managed and table.ref.catalog is not None:
        client = table.ref.catalog.connect()
        arbiter = CatalogDecides(client, table.ref.identifier, branch)
    return NextVersionOnly(table.location, files, base, arbiter, branch)


def _managed_by(client: "LanceNamespace", table: Located) -> dict[str, Any]:
    return {
        "namespace_client": client,
        "table_id": list(table.ref.identifier) or ["table"],
        "namespace_client_managed_versioning": True,
    }


def _transaction(
    operation: Any, read_version: int, properties: Mapping[str, str]
) -> lance.Transaction:
    if isinstance(operation, lance.Transaction):
        mine = {**(operation.transaction_properties or {}), **properties}
        return lance.Transaction(
            operation.read_version, operation.operation, operation.uuid, transaction_properties=mine
        )
    return lance.Transaction(read_version, operation, transaction_properties=dict(properties))


def find_job(
    dataset: lance.LanceDataset, key: str, value: str, *, newer_than: int = 0
) -> int | None:
    """Find the version that a job has committed, among the newest versions."""
    return find_commit(dataset, {key: value}, newer_than=newer_than)


def find_named(dataset: lance.LanceDataset, table: TableRef, job: str, verb: str) -> int | None:
    """Find the version of a job that a user has named; refuse a name that did something else.

    It would be taken for done, and nothing would happen.
    """
    version = find_job(dataset, JOB, job)
    did = None if version is None else (properties_of(dataset, version) or {}).get(VERB)
    if did not in (None, verb):
        raise InvalidInputError(
            f"Job {job!r} of table {table} was another change",
            f"version {version} was made by a {did} under this id",
            f"Give the {verb} a job id of its own",
        )
    return version


def find_commit(
    dataset: lance.LanceDataset, said: Mapping[str, str], *, newer_than: int = 0
) -> int | None:
    """Find the newest version whose commit has said all of this of itself."""
    oldest = max(newer_than, dataset.version - HISTORY_SEARCHED)
    for version in range(dataset.version, oldest, -1):
        properties = properties_of(dataset, version)
        if properties is None:
            return None
        if said.items() <= properties.items():
            return version
    return None


def properties_of(dataset: lance.LanceDataset, version: int) -> Mapping[str, str] | None:
    """Return the properties of the transaction behind a version; nothing once it is cleaned up."""
    try:
        transaction = transaction_of(dataset, version)
    except (OSError, ValueError):
        return None
    return (transaction.transaction_properties or {}) if transaction is not None else {}
