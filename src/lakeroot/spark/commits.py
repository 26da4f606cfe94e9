"""Publish a change of one table: a Lance transaction, committed once, recognised by its job.

Lance rebases a transaction over whatever was committed meanwhile, where it sees no conflict. It
cannot see that two upserts inserted the same new key. A *strict* commit therefore takes exactly
the next version after the one the job has read, or none.
"""

from collections.abc import Mapping
from typing import Any

import lance
from lance_namespace import (
    DescribeTableVersionResponse,
    LanceNamespace,
    ListTableVersionsResponse,
    TableVersion,
)

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.objects import Objects, open_root, parse_root
from lakeroot.spark.catalogs import Located, renewed
from lakeroot.spark.failures import explained
from lakeroot.tables.made import transaction_of
from lakeroot.tables.versions import (
    NamingScheme,
    manifest_name,
    naming_scheme,
    staged_manifest,
    versions_directory,
)

JOB = "lakeroot.job"
MESSAGE = "__lance_commit_message"
# How far back a job looks for its own earlier commit; a job is retried soon or never.
HISTORY_SEARCHED = 1000


def files_of(table: Located) -> Objects:
    """Open the files of a table."""
    return open_root(parse_root(table.location, renewed(table).store_options))


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
) -> lance.LanceDataset:
    """Commit an operation, or a transaction of Lance, and return the new version.

    A lost race is a ConcurrentModificationError, and nothing has changed then.
    """
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
    versions: NextVersionOnly | None = None
    if strict:
        versions = NextVersionOnly(table, read_version, branch)
        arguments |= _managed_by(versions, table)
    elif table.managed and table.ref.catalog is not None:
        arguments |= _managed_by(table.ref.catalog.connect(), table)
    try:
        return lance.LanceDataset.commit(base, transaction, **arguments)
    except (OSError, RuntimeError, ValueError) as error:
        if versions is not None and versions.refused:
            raise ConcurrentModificationError(
                f"Table {table.ref} changed while the job ran",
                f"the job has read version {read_version}, and a newer one was committed",
                "Run it again",
            ) from None
        raise explained(f"Table {table.ref} cannot be committed", error) from error


def _managed_by(client: LanceNamespace, table: Located) -> dict[str, Any]:
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


class NextVersionOnly(LanceNamespace):
    """Hand Lance exactly one version number to commit: the next one, if it is still free.

    Lance asks a client of managed versions to publish a staged manifest. This one publishes it
    the way every Lance writer does, with one put-if-absent under the final name (or through the
    catalog, if the catalog manages versions), and refuses any number but the next.
    """

    def __init__(self, table: Located, base: int, branch: str | None = None) -> None:
        self.table = table
        self.base = base
        self.branch = branch
        self.refused = False

    def namespace_id(self) -> str:
        """Name this client."""
        return f"next-version-only:{self.table.location}"

    def create_table_version(self, request: Any) -> Any:
        """Publish the staged manifest if it is of the next version and the number is free."""
        number = request["version"]
        scheme = naming_scheme(request.get("naming_scheme"))
        staged = staged_manifest(
            self.table.location,
            request["manifest_path"],
            version=number,
            scheme=scheme,
            branch=self.branch,
        )
        files = files_of(self.table)
        if number != self.base + 1 or not self._publish(request, files, staged):
            self.refused = True
            files.delete([staged.path])
            raise ConcurrentModificationError(f"Version {number} is not the next one any more")
        return {"version": self._version(number, scheme)}

    def _publish(self, request: Any, files: Objects, staged: Any) -> bool:
        if self.table.managed and self.table.ref.catalog is not None:
            try:
                self.table.ref.catalog.connect().create_table_version(request)
            except Exception as error:
                if isinstance(explained("", error), ConcurrentModificationError):
                    return False
                raise
            return True
        return files.move_if_absent(staged.path, staged.final_path)

    def list_table_versions(self, request: Any) -> ListTableVersionsResponse:
        """Answer that the version the job has read is the newest."""
        scheme = self._scheme_of(self.base)
        version = TableVersion(**self._version(self.base, scheme or NamingScheme.V2))
        return ListTableVersionsResponse(versions=[version])

    def describe_table_version(self, request: Any) -> Any:
        """Find a version on disk."""
        number = request["version"]
        number = self.base if number is None else number
        scheme = self._scheme_of(number)
        if scheme is None:
            raise ConcurrentModificationError(f"There is no version {number}")
        found = self._version(number, scheme)
        if isinstance(request, dict):
            return {"version": found}
        return DescribeTableVersionResponse(version=TableVersion(**found))

    def _scheme_of(self, number: int) -> NamingScheme | None:
        files = files_of(self.table)
        directory = versions_directory(self.branch)
        for scheme in (NamingScheme.V2, NamingScheme.V1):
            if files.exists(f"{directory}/{manifest_name(number, scheme)}"):
                return scheme
        return None

    def _version(self, number: int, scheme: NamingScheme) -> dict[str, Any]:
        name = f"{versions_directory(self.branch)}/{manifest_name(number, scheme)}"
        return {"version": number, "manifest_path": f"{_key(self.table.location)}/{name}"}


def _key(location: str) -> str:
    """Write a location as object stores name it: no scheme, no bucket, no leading slash."""
    root = parse_root(location)
    return root.uri.strip("/") if root.is_local else root.uri.partition("://")[2].partition("/")[2]
