"""Names for versions of one table: tags and branches, and going back to an older version."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance import LanceDataset

from lakeroot.model.errors import (
    InvalidInputError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableTagNotFoundError,
)
from lakeroot.tables.handle import TableHandle, on_latest, steadily, working_on
from lakeroot.tables.paging import Page, page
from lakeroot.tables.rows import Committed, committed
from lakeroot.tables.versions import MAIN

_LONGEST_NAME_BYTES = 200


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one version; no branch means the main branch."""

    version: int
    branch: str | None = None
    manifest_size: int = 0


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of versions that left another one; no parent branch means the main branch."""

    parent_version: int
    parent_branch: str | None = None
    created_at_s: int = 0
    manifest_size: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)


def create_tag(handle: TableHandle, tag: str, version: int, *, branch: str | None = None) -> None:
    """Give a version a name; a name that is taken is refused."""
    _check_new(tag)
    with working_on(handle, "Creating the tag") as table:
        target = table.open(version=version, branch=branch)
        table.open().tags.create(tag, (_lance_branch(branch), target.version))


def update_tag(handle: TableHandle, tag: str, version: int, *, branch: str | None = None) -> None:
    """Move a tag to another version."""
    _refuse_long(tag)
    with working_on(handle, "Updating the tag") as table:
        target = table.open(version=version, branch=branch)
        table.open().tags.update(tag, (_lance_branch(branch), target.version))


def delete_tag(handle: TableHandle, tag: str) -> None:
    """Forget a tag; the version it names stays."""
    _refuse_long(tag)
    with working_on(handle, "Deleting the tag") as table:
        dataset = table.open()
        steadily(lambda: dataset.tags.delete(tag))


def get_tag(handle: TableHandle, tag: str) -> Tag:
    """Find the version a tag names."""
    found = _tags(handle).get(tag)
    if found is None:
        raise TableTagNotFoundError(
            f"The table has no tag {tag!r}", fix="List the tags of the table to see those it has"
        )
    return found


def list_tags(
    handle: TableHandle, *, page_token: str | None = None, limit: int | None = None
) -> Page[Tag]:
    """List the tags of a table, one page of them, by name."""
    return page(_tags(handle), page_token, limit)


def create_branch(
    handle: TableHandle,
    name: str,
    *,
    from_branch: str | None = None,
    from_version: int | None = None,
) -> None:
    """Start a branch at a version, the latest unless one is named; a taken name is refused."""
    _check_new(name)
    with working_on(handle, "Creating the branch") as table:
        source = table.open(version=from_version, branch=from_branch)
        _refuse_taken(source, name)
        try:
            source.create_branch(name, (_lance_branch(from_branch), source.version))
        except Exception:
            # The first version of a branch is there before its name. Whoever finds it is told many
            # things by Lance: of a table that is there, or is not, or of a defect. None of them is
            # a cause, in which what the catalog said would be looked for.
            _refuse_taken(source, name)
            if table.has_begun(name):
                raise TableBranchAlreadyExistsError(
                    f"A branch {name!r} was begun, and the table does not have it yet",
                    "another client is creating or deleting it at this moment, or could not finish",
                    "List the branches in a moment; `lakeroot gc` removes what nobody finishes",
                ) from None
            raise


def _refuse_taken(dataset: LanceDataset, name: str) -> None:
    if name in steadily(dataset.branches.list):
        raise TableBranchAlreadyExistsError(f"The table already has a branch {name!r}")


def delete_branch(handle: TableHandle, name: str) -> None:
    """Delete a branch with its versions; the main branch cannot be deleted."""
    if name == MAIN:
        raise InvalidInputError("The main branch cannot be deleted", fix="Drop the table instead")
    with working_on(handle, "Deleting the branch") as table:
        dataset = table.open()
        if name not in steadily(dataset.branches.list):
            raise TableBranchNotFoundError(
                f"The table has no branch {name!r}",
                fix="List the branches of the table to see those it has",
            )

        def delete() -> None:
            # Lance can fail at the others also after it has deleted this one.
            if name in dataset.branches.list():
                dataset.branches.delete(name)

        steadily(delete)


def list_branches(
    handle: TableHandle, *, page_token: str | None = None, limit: int | None = None
) -> Page[Branch]:
    """List the branches of a table other than main, one page of them, by name."""
    with working_on(handle, "Listing branches") as table:
        found = {
            name: Branch(
                parent_version=branch["parent_version"],
                parent_branch=branch["parent_branch"],
                created_at_s=int(branch["create_at"]),
                manifest_size=branch["manifest_size"],
                metadata=dict(branch.get("metadata") or {}),
            )
            for name, branch in steadily(table.open().branches.list).items()
        }
    return page(found, page_token, limit)


def restore(handle: TableHandle, version: int, *, branch: str | None = None) -> Committed:
    """Make the rows of an older version the latest ones, as a new version."""
    with working_on(handle, "Restoring the version") as table:
        table.open(version=version, branch=branch)

    def bring_back(latest: LanceDataset) -> Committed:
        old = latest.checkout_version((_lance_branch(branch), version))
        old.restore()
        return Committed(*committed(old))

    return on_latest(handle, "Restoring the version", branch, bring_back)


def _tags(handle: TableHandle) -> dict[str, Tag]:
    with working_on(handle, "Listing tags") as table:
        return {
            name: Tag(tag["version"], tag["branch"], tag["manifest_size"])
            for name, tag in steadily(table.open().tags.list).items()
        }


def _lance_branch(branch: str | None) -> str | None:
    return None if branch == MAIN else branch


def _check_new(name: str) -> None:
    """Refuse names that Lance takes and then does not find: it encodes their files twice."""
    _refuse_long(name)
    if not name.isascii():
        raise InvalidInputError(
            f"The name {name!r} of a tag or branch is not valid",
            "it has letters that are not ASCII",
            "Use letters from a to z, digits, '.', '-' and '_'",
        )


def _refuse_long(name: str) -> None:
    if len(name.encode(errors="replace")) > _LONGEST_NAME_BYTES:
        raise InvalidInputError(
            f"The name {name[:20]!r}… is too long",
            f"a tag or branch has at most {_LONGEST_NAME_BYTES} bytes",
        )
