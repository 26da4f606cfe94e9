"""Several operations on tables in one commit of the catalog: all of them, or none.

What a batch deletes is worked out before it: of the versions that are there, those its ranges
cover. A version that it creates follows the newest of them and stays, in whatever order they are
asked for; so does whatever others commit meanwhile.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from lakeroot.catalog.catalog import Catalog, checked_properties, placed_again
from lakeroot.catalog.staged_versions import NewVersion, Staged
from lakeroot.catalog.version_commits import VersionCommits, require_possible
from lakeroot.catalog.versions import Deletion, TableVersions
from lakeroot.model.commits import Change, DeclareTable, DeregisterTable
from lakeroot.model.errors import InvalidInputError, TableNotFoundError, VersionsNotKeptError
from lakeroot.model.identifiers import Identifier, show, validate_new
from lakeroot.model.records import Table, TableVersion
from lakeroot.tables.versions import MAIN, VersionRange


class DeclareOperation(Struct, frozen=True):
    """Declare a table."""

    identifier: Identifier
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class DeleteVersionsOperation(Struct, frozen=True):
    """Delete versions of a table."""

    identifier: Identifier
    ranges: tuple[VersionRange, ...]


class DeregisterOperation(Struct, frozen=True):
    """Take a table's name away and leave its data."""

    identifier: Identifier


BatchOperation = DeclareOperation | NewVersion | DeleteVersionsOperation | DeregisterOperation
BatchResult = Table | TableVersion | int
"""A declared or deregistered table, a created version, or how many versions were deleted."""


class Batches:
    """Commits several operations together."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._versions = TableVersions(catalog)
        self._commits = VersionCommits(catalog)

    def commit(self, operations: Sequence[BatchOperation], message: str = "") -> list[BatchResult]:
        """Apply every operation, or none; give their results in the same order.

        Where files decide about versions, names are changed first, in one step, if the versions
        could be created; then the versions are created one by one, and others deleted.
        """
        if not operations:
            raise InvalidInputError("There is nothing to commit", fix="Give at least one operation")
        try:
            return self._placed(operations, message)
        except VersionsNotKeptError:
            return self._placed(operations, message)  # As in a catalog that does not keep them.

    def _placed(self, operations: Sequence[BatchOperation], message: str) -> list[BatchResult]:
        return placed_again(
            lambda: self._commit_all(operations, message),
            some_given=any(
                isinstance(one, DeclareOperation) and one.location is not None for one in operations
            ),
        )

    def _commit_all(self, operations: Sequence[BatchOperation], message: str) -> list[BatchResult]:
        changes: list[Change] = []
        staged: list[Staged] = []
        results: list[BatchResult | None] = []
        deletions: list[Deletion] = []
        declared: dict[Identifier, Table] = {}
        gone: set[Identifier] = set()
        for one in operations:
            if one.identifier in gone and not isinstance(one, DeclareOperation):
                raise TableNotFoundError(
                    f"There is no table {show(one.identifier)}",
                    "it is deregistered by an operation before this one, in the same batch",
                )
            result: BatchResult | None = None
            match one:
                case DeclareOperation():
                    change = self._declaration(one)
                    changes.append(change)
                    result = Table(change.identifier, change.location, change.properties)
                    declared[change.identifier] = result
                    gone.discard(change.identifier)
                case DeregisterOperation():
                    _require_untouched(one, (*deletions, *staged))
                    result = self._catalog.table(one.identifier)
                    changes.append(DeregisterTable(one.identifier))
                    gone.add(one.identifier)
                case DeleteVersionsOperation():
                    result = 0
                    # A table that the batch itself declares has no versions before it.
                    if one.identifier not in declared:
                        deletions.append(self._deletion(one, operations, deletions))
                        result = len(deletions[-1].numbers)
                case NewVersion():
                    staged.append(self._commits.stage(one, declared.get(one.identifier)))
            results.append(result)
        created = iter(self._commit(changes, staged, deletions, message))
        for deletion in deletions:
            deletion.discard()
        return [next(created) if result is None else result for result in results]

    def _declaration(self, one: DeclareOperation) -> DeclareTable:
        validate_new(one.identifier)
        store = self._catalog.store
        place = (
            store.place(one.identifier) if one.location is None else store.location_of(one.location)
        )
        return DeclareTable(one.identifier, place, checked_properties(one.properties))

    def _deletion(
        self,
        one: DeleteVersionsOperation,
        operations: Sequence[BatchOperation],
        before: Sequence[Deletion],
    ) -> Deletion:
        """Work out what goes: nothing that this batch creates, and nothing twice."""
        spared = {
            other.version
            for other in operations
            if isinstance(other, NewVersion)
            and other.identifier == one.identifier
            and other.branch in (None, MAIN)
        }
        for deletion in before:
            if deletion.table.identifier == one.identifier:
                spared.update(deletion.numbers, (row.version for row in deletion.rows))
        return self._versions.to_delete(one.identifier, one.ranges, spared=spared)

    def _commit(
        self,
        changes: list[Change],
        staged: list[Staged],
        deletions: list[Deletion],
        message: str,
    ) -> list[TableVersion]:
        for one in staged:
            if one.asked.branch not in (None, MAIN) and self._catalog.store.keeps_versions:
                raise InvalidInputError(
                    f"A version of the branch {one.asked.branch!r} of {show(one.table.identifier)} "
                    "cannot be part of a commit over several tables",
                    "its arbiter is the branch's own directory",
                )
        if self._catalog.store.keeps_versions:
            return self._commits.commit_staged(staged, changes, message, deletions)
        if changes:
            require_possible(staged)
            self._catalog.commit(*changes, message=message)
        return self._commits.create_versions([one.asked for one in staged]) if staged else []


def _require_untouched(one: DeregisterOperation, others: Sequence[Deletion | Staged]) -> None:
    """Refuse to deregister a table whose versions the same batch creates or deletes."""
    if any(other.table.identifier == one.identifier for other in others):
        raise InvalidInputError(
            f"A batch cannot create or delete versions of {show(one.identifier)} and deregister it",
            "manifests are put in place or deleted last, when the table has its name no more",
            "Create or delete the versions first",
        )
