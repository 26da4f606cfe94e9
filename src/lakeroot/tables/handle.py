"""A table to work on: where it is, how to open it, and who arbitrates its commits."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeVar

from lance import LanceDataset, Session

from lakeroot.model.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    LakerootError,
    TableBranchNotFoundError,
    TableNotFoundError,
    TableVersionNotFoundError,
)
from lakeroot.model.identifiers import show
from lakeroot.objects.roots import parse_root
from lakeroot.tables.faults import OutOfTimeError, RefGoneError, translated, translation
from lakeroot.tables.versions import LAST_VERSION, MAIN, VERSIONS, versions_directory

Result = TypeVar("Result")

ATTEMPTS: Final = 6
LOOKS: Final = 4
"""How often a managed table is opened while its newest version is being deleted."""
_LOOKS_AT_REFS: Final = 10
_CATALOG_SPOKE: Final = ("Namespace error", "Python error in")
_UNKNOWN_OUTCOME: Final = ("Wrapped error: Commit result", "Commit result")


@dataclass(frozen=True, slots=True)
class TableHandle:
    """One table: its location and, when a catalog arbitrates its commits, that catalog.

    A managed handle commits every change through `namespace_client`, so that the catalog decides
    between writers. The storage options may hold credentials and are never shown.
    """

    location: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    session: Session | None = field(default=None, repr=False, compare=False)
    namespace_client: Any = field(default=None, repr=False, compare=False)
    table_id: tuple[str, ...] = ()
    managed: bool = False
    attempts: int = ATTEMPTS
    """How often a change is computed; once, if the catalog shows the table as it was anyway."""

    def __post_init__(self) -> None:
        if self.managed and (self.namespace_client is None or not self.table_id):
            raise InvalidInputError(
                "A managed table needs a catalog to commit through",
                fix="Give the handle a namespace client and the identifier of the table",
            )


class Workbench:
    """One operation on one table: opens what the operation asks for.

    A managed table is opened with a witness between Lance and the catalog: Lance reports most
    failures of a catalog as an unknown outcome, and the witness knows what was really said.
    """

    def __init__(self, handle: TableHandle) -> None:
        self.handle = handle
        # Lance reads `file://` addresses more loosely than paths, so it is given paths.
        local = handle.location.startswith("file:")
        self.location = parse_root(handle.location).uri if local else handle.location
        self.witness = _Witness(handle.namespace_client) if handle.managed else None
        self._opened: LanceDataset | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Give the arguments that let pylance reach the storage and commit through the catalog."""
        handle = self.handle
        options: dict[str, Any] = {"storage_options": _plain(handle.storage_options)}
        if handle.managed:
            options |= {
                "namespace_client": self.witness,
                "table_id": list(handle.table_id),
                "namespace_client_managed_versioning": True,
            }
        return options

    def open(
        self, *, version: int | None = None, tag: str | None = None, branch: str | None = None
    ) -> LanceDataset:
        """Open the latest version of the table, or the one that was asked for."""
        if tag is not None and (version is not None or branch is not None):
            raise InvalidInputError(
                "A tag names a version by itself", fix="Leave out the version and the branch"
            )
        if branch == MAIN:
            branch = None
        if branch is not None:
            versions_directory(branch)
        if version is not None:
            _refuse_impossible(version)
        if branch is not None:
            return self._open_branch(branch, version)
        if tag is not None:
            return steadily(lambda: self._open().checkout_version(tag))
        self._opened = self._open_newest() if version is None else self._open_version(version)
        return self._opened

    def meaning_of(self, error: LakerootError, doing: str) -> LakerootError:
        """Give what the catalog said, if that is what Lance failed of."""
        said = None if self.witness is None else self.witness.said(str(error.__cause__ or ""))
        if said is None:
            return error
        meant = translation(said, doing)
        meant.__cause__ = said
        return meant

    def is_gone(self) -> bool:
        """Tell whether there is no table any more where one was opened, or another one."""
        if self._opened is None:
            return False
        try:
            with translated("Opening the table"):
                now = self._open()
        except TableNotFoundError:
            return True
        except LakerootError:
            return False
        if now.version < self._opened.version:
            return True
        try:
            with translated("Opening the table"):
                return _files(self._open(self._opened.version)) != _files(self._opened)
        except LakerootError:
            # Old versions are cleaned away.
            return False

    def exists(self) -> bool:
        """Tell whether there is a table with at least one version."""
        try:
            with translated("Opening the table"):
                self._open()
        except TableNotFoundError:
            return False
        return True

    def has_begun(self, branch: str) -> bool:
        """Tell whether there are versions of a branch, also if the table does not have it yet."""
        try:
            place = versions_directory(branch).removesuffix(VERSIONS)
            if not place:
                return False
            with translated("Opening the branch"):
                options = _plain(self.handle.storage_options)
                LanceDataset(f"{self.location.rstrip('/')}/{place}", storage_options=options)
        except LakerootError:
            return False
        return True

    def _open(self, version: int | None = None) -> LanceDataset:
        return LanceDataset(
            self.location, version=version, session=self.handle.session, **self.options
        )

    def _open_newest(self) -> LanceDataset:
        """Open the newest version; look again if it was deleted after the catalog had told it."""
        looks = LOOKS if self.handle.managed else 1
        for _ in range(looks - 1):
            try:
                return self._open()
            except Exception as error:
                meant = translation(error, "Opening the table")
                is_gone = isinstance(meant, TableNotFoundError | InvalidTableStateError)
                if not is_gone or not self._has_versions():
                    raise
        return self._open()

    def _has_versions(self) -> bool:
        """Tell whether the catalog knows a newest version, and that it is in its place."""
        newest = {"id": list(self.handle.table_id), "limit": 1, "descending": True}
        try:
            with translated("Looking for the newest version"):
                return bool(self.handle.namespace_client.list_table_versions(newest)["versions"])
        except LakerootError:
            return False

    def _open_version(self, version: int) -> LanceDataset:
        try:
            with translated("Opening the table"):
                return self._open(version)
        except (TableNotFoundError, TableVersionNotFoundError):
            # Lance does not tell a missing version from a missing table.
            self._open()
            raise _no_version(version) from None

    def _open_branch(self, branch: str, version: int | None) -> LanceDataset:
        main = self._open()
        if branch not in steadily(main.branches.list):
            raise TableBranchNotFoundError(
                f"The table has no branch {branch!r}",
                fix="List the branches of the table to see those it has",
            )
        try:
            with translated("Opening the branch"):
                found = main.checkout_version((branch, version))
        except (TableNotFoundError, TableVersionNotFoundError):
            raise _no_version(version, branch) from None
        said = None if self.witness is None else self.witness.refusal_of("list_table_versions")
        if said is not None:
            # Lance has looked at the files instead, where there may be what came later.
            raise translation(said, "Opening the branch") from said
        return found


@contextmanager
def working_on(handle: TableHandle, doing: str) -> Iterator[Workbench]:
    """Work on a table; whatever goes wrong comes out as an error of the catalog."""
    bench = Workbench(handle)
    try:
        with translated(doing):
            yield bench
    except LakerootError as error:
        meant = bench.meaning_of(error, doing)
        # A catalog looks at files as well; what Lance calls bad input, it says of no file.
        of_files = InternalError | InvalidTableStateError
        if meant is not error:
            of_files |= InvalidInputError
        if isinstance(meant, of_files) and bench.is_gone():
            raise ConcurrentModificationError(
                "The table was dropped meanwhile, or is another one now",
                meant.what,
                "Look at the table that is there now, then repeat the operation",
            ) from error
        if meant is not error:
            raise meant from meant.__cause__
        if isinstance(error, TableNotFoundError) and handle.table_id:
            raise TableNotFoundError(
                f"{show(handle.table_id)} has no rows to work on",
                "it is only declared: nothing was written to it, or its files are gone",
                "Create the table with its first rows",
            ) from error
        raise


def steadily(look: Callable[[], Result]) -> Result:
    """Look at tags or branches; again if one was deleted between its listing and its reading."""
    for _ in range(_LOOKS_AT_REFS - 1):
        try:
            return look()
        except Exception as error:
            if not isinstance(translation(error, ""), RefGoneError):
                raise
    return look()


def on_latest(
    handle: TableHandle,
    doing: str,
    branch: str | None,
    change: Callable[[LanceDataset], Result],
    patience: timedelta | None = None,
) -> Result:
    """Apply a change to the latest version, again from the start when another writer was first.

    Lance rebases most changes by itself; what it cannot rebase is a change of the same rows or of
    the whole table, and then the change must be computed again from what the table has become: a
    few times, or as long as somebody has patience.
    """
    attempt = 0
    end = None if patience is None else time.monotonic() + patience.total_seconds()
    while True:
        attempt += 1
        try:
            with working_on(handle, doing) as table:
                return change(table.open(branch=branch))
        except OutOfTimeError:
            # It was tried for as long as it may take.
            raise
        except ConcurrentModificationError:
            is_last = attempt >= handle.attempts if end is None else time.monotonic() >= end
            if is_last or handle.attempts == 1:
                raise
            time.sleep(random.uniform(0.0, 0.02 * 2 ** min(attempt, ATTEMPTS)))  # noqa: S311 - not a secret


class _Witness:
    """Passes every call on to a catalog's client and remembers the errors it raised."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._errors: dict[str, Exception] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        def call(*arguments: Any, **named: Any) -> Any:
            self._errors.pop(name, None)
            try:
                return method(*arguments, **named)
            except Exception as error:
                self._errors[name] = error
                raise

        return call

    def refusal_of(self, name: str) -> Exception | None:
        """Give the error of the last call of an operation, if that failed."""
        return self._errors.get(name)

    def said(self, message: str) -> Exception | None:
        """Find the error of the catalog that a message of Lance is about."""
        if message.startswith(_UNKNOWN_OUTCOME):
            return self._errors.get("create_table_version")
        if any(sign in message for sign in _CATALOG_SPOKE):
            return next(reversed(self._errors.values()), None)
        return None


def _refuse_impossible(version: int) -> None:
    if version < 0:
        raise InvalidInputError(
            f"{version} is not a version of a table", "versions are numbered from 1"
        )
    if not 1 <= version <= LAST_VERSION:
        raise _no_version(version)


def _no_version(version: int | None, branch: str | None = None) -> TableVersionNotFoundError:
    where = "" if branch is None else f" on branch {branch!r}"
    return TableVersionNotFoundError(
        f"The table has no version {version}{where}",
        fix="List the versions of the table to see those it has",
    )


def _files(dataset: LanceDataset) -> list[str]:
    return [file.path for part in dataset.get_fragments() for file in part.data_files()]


def _plain(options: Mapping[str, str] | None) -> dict[str, str] | None:
    return dict(options) if options else None
