"""Lance tables in an Iceberg REST catalog as a Lance namespace, built from string properties."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, cast

from lance_namespace import (
    CreateTableResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DescribeTableRequest,
    DescribeTableResponse,
)
from lance_namespace.errors import TableNotFoundError

from lakeroot.catalog import Catalog
from lakeroot.catalog.old_versions import KEPT_AT_LEAST
from lakeroot.catalog.repairing import mend_leftovers, mend_versions
from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier, identifier_of
from lakeroot.model.records import Table
from lakeroot.model.spreading import Spread, here
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.border import translated
from lakeroot.namespace.caring import CaredNamespace
from lakeroot.namespace.jobs import runner_of
from lakeroot.storage.findings import Finding
from lakeroot.storage.garbage import Collected
from lakeroot.storage.iceberg_rest.checking import OWN_KINDS, check
from lakeroot.storage.iceberg_rest.collecting import collect
from lakeroot.storage.iceberg_rest.config import read_config
from lakeroot.storage.iceberg_rest.entries import Entry
from lakeroot.storage.iceberg_rest.observing import schema_mark
from lakeroot.storage.iceberg_rest.store import IcebergRestStore
from lakeroot.storage.lance_dir.removing import REMOVABLE
from lakeroot.storage.spans import GRACE, RETENTION
from lakeroot.tables.handle import TableHandle
from lakeroot.tables.versions import VERSIONS

_OWN: Final = ("author", "vend_input_storage_options")


class IcebergNamespace(CaredNamespace):
    """An Iceberg REST catalog as a Lance namespace.

    Properties: ``endpoint``, ``warehouse``, ``prefix``, ``root``, ``managed_by`` (``storage`` or
    ``impl``), ``token`` or ``credential`` (with ``scope`` and ``oauth2-server-uri``) or
    ``auth.type``, ``ssl.*``, ``connect_timeout``, ``read_timeout``, ``max_retries`` and more, see
    the guide; ``jobs`` with ``jobs.*``; ``storage.*`` for the storage of the tables.
    """

    def __init__(self, **properties: Any) -> None:
        self._properties = dict(properties)
        self._schema_marks: dict[Identifier, str] = {}
        self._shown: set[str] = set()
        with translated():
            rest, self.job_runner = runner_of(type(self), properties)
            given = {key: str(value) for key, value in rest.items() if key not in _OWN}
            self.store = IcebergRestStore(read_config(given))
        vends = str(properties.get("vend_input_storage_options", "true")).lower() == "true"
        author = str(properties.get("author", ""))
        super().__init__(Catalog(self.store, author), vends_storage_options=vends)

    def namespace_id(self) -> str:
        """Name this namespace and where it is; never with credentials."""
        config = self.store.config
        return f"IcebergNamespace {{ endpoint: {config.endpoint!r}, {config.warehouse!r} }}"

    def __repr__(self) -> str:
        return f"<IcebergNamespace {self.store.config.endpoint} {self.store.config.warehouse}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (type(self), self._properties)

    def sync_table(self, names: list[str]) -> bool:
        """Bring what the catalog says of a table in step with it; tell whether it was not."""
        with translated():
            return self.store.sync(identifier_of(names))

    def sync_tables(self, under: list[str] | None = None) -> list[list[str]]:
        """Bring every table of a namespace, or of all, in step; give those that were not."""
        with translated():
            found = self.store.entries.all_names(identifier_of(under))
        return [names for names in map(list, found) if self.sync_table(names)]

    def check(
        self,
        grace: timedelta = GRACE,
        under: Sequence[str] | None = None,
        *,
        spread: Spread = here,
    ) -> list[Finding]:
        """Find what is wrong with the tables of a namespace, or with all; change nothing."""
        return self._check(grace, identifier_of(under), spread)

    def gc(
        self,
        older_than: timedelta = RETENTION,
        *,
        dry_run: bool = False,
        old_versions: bool = False,
        keep: int = KEPT_AT_LEAST,
        under: Sequence[str] | None = None,
        spread: Spread = here,
    ) -> Collected:
        """Delete what no table of the catalog, or of a namespace, can reach, after seven days.

        The rest is as in any catalog.
        """
        kept = keep if old_versions else None
        names = identifier_of(under)
        return self._gc(older_than, names, dry_run=dry_run, keep=kept, spread=spread)

    def _found(self, grace: timedelta, under: Identifier, spread: Spread) -> list[Finding]:
        return check(self.store, grace, under, spread)

    def _mend(self, catalog: Catalog, one: Finding) -> bool:
        if one.code in OWN_KINDS:
            return self.store.sync(one.identifier)
        if one.code in REMOVABLE:
            return mend_leftovers(catalog, one)
        return mend_versions(catalog, one)

    def _collected(
        self, older_than: timedelta, under: Identifier, *, dry_run: bool, spread: Spread
    ) -> Collected:
        return collect(self.store, older_than, under=under, dry_run=dry_run, spread=spread)

    def _cleaning(self) -> dict[str, Any]:
        return {"opened": _by_its_files, "afterwards": _forget_gone}

    def handle(self, table: Table, storage_options: Mapping[str, str] | None = None) -> TableHandle:
        """Make a handle on a table, with what the catalog lends to open it."""
        entry = self.store.entries.get(table.identifier)
        return TableHandle(
            entry.location,
            {**entry.storage_options, **(storage_options or {})} or None,
            namespace_client=self if entry.is_managed else None,
            table_id=table.identifier,
            managed=entry.is_managed,
        )

    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Reserve a name and a location for a table that has no data yet."""
        response = super().declare_table(request)
        return self._made(response, request, vend=_field(request, "vend_credentials"))

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """Describe a table: where it is, who arbitrates it and, if asked, what is in it.

        One that pylance has filled since it was declared gets its schema and version shown.
        """
        response = super().describe_table(request)
        entry = self._entry(_names(request))
        self._show_first_version(entry)
        return self._told(response, entry, vend=_field(request, "vend_credentials"))

    def _show_first_version(self, entry: Entry) -> None:
        if (
            entry.is_managed
            or entry.definition.version is not None
            or entry.location in self._shown
        ):
            return
        with contextlib.suppress(LakerootError):
            if self.store.files_of(entry).has_any(VERSIONS):
                self._shown.add(entry.location)  # who may not change entries tries only once
                self._keep_in_step(entry.identifier)

    def create_table(self, request: Any, request_data: bytes) -> CreateTableResponse:
        """Create a table with its first rows, by mode Create, ExistOk or Overwrite."""
        response = super().create_table(request, request_data)
        self._keep_in_step(_names(request))
        return self._made(response, request, vend=None)

    def create_table_version(self, request: Any) -> Any:
        """Create a version from a staged manifest; of two writers, one is refused."""
        mark = self._schema_mark(request)
        response = super().create_table_version(request)
        if mark != self._schema_marks.get(_names(request)):
            self._keep_in_step(_names(request))
            self._schema_marks[_names(request)] = mark
        return response

    def _schema_mark(self, request: Any) -> str:
        """Look whether the staged manifest brings another schema than the one before."""
        with contextlib.suppress(LakerootError):
            table = self.catalog.table(_names(request))
            staged = str(_field(request, "manifest_path")).rpartition("/")[2]
            return schema_mark(self.store.files(table).get(f"{VERSIONS}/{staged}") or b"")
        return ""

    def _keep_in_step(self, identifier: Identifier) -> None:
        """Show the table as it is now to those who only read the catalog; best effort."""
        if not self.store.client.server.is_native:
            with contextlib.suppress(LakerootError):
                self.store.sync(identifier)

    def _entry(self, identifier: Identifier) -> Entry:
        """Give the entry of a table that can be used."""
        with translated():
            entry = self.store.entries.get(identifier)
            _ = entry.is_managed
        return entry

    def _made(self, response: Any, request: Any, *, vend: bool | None) -> Any:
        """Say of a new table what only its entry knows; one that is gone was made all the same.

        Whoever is told that there is no such table would take it for never made.
        """
        try:
            entry = self._entry(_names(request))
        except TableNotFoundError:
            response.location = response.location or None
            return response
        return self._told(response, entry, vend=vend)

    def _told(self, response: Any, entry: Entry, *, vend: bool | None) -> Any:
        """Say what only the entry of the table knows."""
        response.location = entry.location
        response.storage_options = self._lent(entry, wanted=vend)
        if "managed_versioning" in type(response).model_fields:
            response.managed_versioning = entry.is_managed or None
        return response

    def _lent(self, entry: Entry, *, wanted: bool | None) -> dict[str, str] | None:
        may_have = self.vends_storage_options and wanted is not False
        return dict(entry.storage_options) if entry.storage_options and may_have else None


def _by_its_files(catalog: Catalog, table: Table) -> TableHandle:
    entry = _store_of(catalog).entries.get(table.identifier)
    return TableHandle(entry.location, dict(entry.storage_options) or None)


def _forget_gone(catalog: Catalog, table: Table) -> None:
    """Show no version of a table that was cleaned up just now; best effort."""
    with contextlib.suppress(LakerootError):
        _store_of(catalog).forget_gone(table.identifier)


def _store_of(catalog: Catalog) -> IcebergRestStore:
    return cast("IcebergRestStore", catalog.store)


def _then_in_step(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Make an operation that changes a table show the change in the catalog too."""

    @functools.wraps(operation)
    def call(self: IcebergNamespace, request: Any, *arguments: Any) -> Any:
        response = operation(self, request, *arguments)
        self._keep_in_step(_names(request))
        return response

    return call


for _name in (
    "insert_into_table",
    "merge_insert_into_table",
    "update_table",
    "delete_from_table",
    "restore_table",
    "alter_table_add_columns",
    "alter_table_alter_columns",
    "alter_table_drop_columns",
):
    setattr(IcebergNamespace, _name, _then_in_step(getattr(LakerootNamespace, _name)))


def _names(request: Any) -> Identifier:
    return identifier_of(_field(request, "id"))


def _field(request: Any, name: str) -> Any:
    return request.get(name) if isinstance(request, Mapping) else getattr(request, name, None)


def _reopened(kind: type[IcebergNamespace], properties: dict[str, Any]) -> IcebergNamespace:
    return kind(**properties)
