"""Open the version of a table that a read asks for."""

import datetime as dt
import functools
import pickle
from dataclasses import dataclass
from typing import Any

import lance

from lakeroot.model.errors import (
    InvalidInputError,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
)
from lakeroot.spark.catalogs import Located, TableRef, expires, locate
from lakeroot.spark.failures import explained, nearest, translated
from lakeroot.spark.options import ReadOptions
from lakeroot.spark.types import Comparable, comparable
from lakeroot.tables.handle import steadily


def open_table(table: Located, version: Any = None) -> lance.LanceDataset:
    """Open a table at its newest version, or at the version, tag or branch given."""
    try:
        # Given the catalog itself, Lance renews keys that expire by asking it again.
        if table.ref.catalog is not None and (table.managed or expires(table)):
            dataset = lance.dataset(
                namespace_client=table.ref.catalog.connect(), table_id=list(table.ref.identifier)
            )
        else:
            dataset = lance.dataset(table.location, storage_options=table.storage_options)
    except (OSError, ValueError) as error:
        if "was not found" in str(error) or "Not found" in str(error):
            raise TableNotFoundError(
                f"Table {table.ref} has no data yet"
                if table.only_declared
                else f"There is no table at {table.location}",
                fix="Write it first, or check the name",
            ) from None
        raise explained(f"Table {table.ref} cannot be opened", error) from error
    return dataset if version is None else dataset.checkout_version(version)


@dataclass(frozen=True, slots=True)
class Opened:
    """A table opened at the version to read, and what travels to the tasks to open it there.

    A pickled dataset forgets its branch, so of a branch the main dataset travels.
    """

    table: Located
    dataset: lance.LanceDataset
    main: lance.LanceDataset
    # The branch that is read, or nothing for the main one.
    branch: str | None = None

    @property
    def packed(self) -> bytes:
        """Give what travels: the manifest is inside, so equal bytes are the very same version."""
        return pickle.dumps(self.main)

    @property
    def cut(self) -> Comparable:
        """Name the columns that Spark sees otherwise than Lance, and what both compare alike."""
        return comparable(self.dataset.schema)


def opened_for(ref: TableRef, options: ReadOptions) -> Opened:
    """Look a table up, and open the version that the options name."""
    table = locate(ref)
    dataset, branch = _opened(table, options)
    return Opened(table, dataset, dataset if branch is None else open_table(table), branch)


def newest_at(table: Located, branch: str | None) -> lance.LanceDataset:
    """Open the newest version of a table, or of a branch of it."""
    if branch in (None, "main"):
        return open_table(table)
    with translated(f"Branch {branch!r} of table {table.ref} cannot be opened"):
        return open_for(table, ReadOptions(branch=branch))


def open_for(table: Located, options: ReadOptions) -> lance.LanceDataset:
    """Open the version of a table that the options name."""
    return _opened(table, options)[0]


def _opened(table: Located, options: ReadOptions) -> tuple[lance.LanceDataset, str | None]:
    """Open the version that the options name, and say of which branch it is."""
    named = [
        name
        for name, value in (
            ("version", options.version),
            ("tag", options.tag),
            ("asOf", options.as_of),
        )
        if value is not None
    ]
    if len(named) > 1:
        raise InvalidInputError(
            f"The options {named[0]!r} and {named[1]!r} exclude each other", fix="Give one of them"
        )
    dataset = open_table(table)
    if options.tag is not None:
        return _at_tag(dataset, table, options.tag, options.branch)
    branch = None if options.branch == "main" else options.branch
    if branch is not None:
        dataset = _at_branch(dataset, table, branch)
    if options.as_of is not None:
        dataset = _at_time(dataset, table, options.as_of)
    if options.version is not None:
        dataset = _at_version(dataset, table, options)
    return dataset, branch


def _at_version(
    dataset: lance.LanceDataset, table: Located, options: ReadOptions
) -> lance.LanceDataset:
    try:
        return dataset.checkout_version((options.branch, options.version))
    except (OSError, ValueError):
        raise TableVersionNotFoundError(
            f"Table {table.ref} has no version {options.version}",
            f"its newest is {dataset.latest_version}; old ones may have been cleaned up",
        ) from None


def _at_tag(
    dataset: lance.LanceDataset, table: Located, tag: str, asked: str | None
) -> tuple[lance.LanceDataset, str | None]:
    """Open what a tag names: a version of a branch, so a branch beside it must be that one."""
    tags = steadily(dataset.tags.list)
    if tag not in tags:
        raise TableTagNotFoundError(f"Table {table.ref} has no tag {tag!r}", fix=nearest(tag, tags))
    # As tags of Lance say it, the main branch has no name.
    branch, version = tags[tag]["branch"], tags[tag]["version"]
    if asked is not None and asked != (branch or "main"):
        raise InvalidInputError(
            f"The tag {tag!r} of table {table.ref} is not of the branch {asked!r}",
            f"it names version {version} of {branch or 'main'!r}",
            "Leave the option 'branch' out, or name another tag",
        )
    return dataset.checkout_version((branch, version)), branch


def _at_branch(dataset: lance.LanceDataset, table: Located, branch: str) -> lance.LanceDataset:
    branches = steadily(dataset.branches.list)
    if branch not in branches:
        raise TableBranchNotFoundError(
            f"Table {table.ref} has no branch {branch!r}", fix=nearest(branch, branches)
        )
    return dataset.checkout_version((branch, None))


def _at_time(dataset: lance.LanceDataset, table: Located, moment: dt.datetime) -> Any:
    """Find the last version that was committed at or before a moment."""
    before = [
        version["version"]
        for version in dataset.versions()
        if _aware(version["timestamp"]) <= moment
    ]
    if not before:
        raise TableVersionNotFoundError(
            f"Table {table.ref} has no version as old as {moment.isoformat()}"
        )
    return dataset.checkout_version(max(before))


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo else moment.astimezone(dt.UTC)


@functools.lru_cache(maxsize=16)
def unpacked(key: tuple[str, str | None, int], dataset: bytes) -> lance.LanceDataset:
    """Open what was packed into a task, and keep it: Lance caches metadata and indexes in it."""
    opened = pickle.loads(dataset)  # noqa: S301  # the driver of this very job made it
    _, branch, version = key
    # A pickled dataset forgets its branch and looks for files in the main one, so of a branch
    # the main dataset travels, and the branch is checked out here.
    return opened if branch is None else opened.checkout_version((branch, version))


def open_named(table: Located) -> lance.LanceDataset:
    """Open the newest version of a table, looking it up again in its catalog."""
    return open_table(locate(table.ref))
