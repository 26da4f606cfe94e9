"""A Lance table, read for an Iceberg client."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import lance
from lance_namespace import (
    DescribeTableRequest,
    DescribeTableVersionRequest,
    LanceNamespace,
    ListTableVersionsRequest,
)
from lance_namespace.errors import LanceNamespaceError

from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Table
from lakeroot.server.iceberg.catalog import Catalog, as_uri
from lakeroot.server.iceberg.properties import shown
from lakeroot.storage.contract import View
from lakeroot.tables.handle import steadily
from lakeroot.tables.iceberg import (
    Description,
    ManagedBy,
    Snapshot,
    iceberg_schema,
    lance_field_ids,
    table_metadata,
)

TABLE_UUID: Final = "iceberg.table-uuid"
METADATA_LOCATION: Final = "metadata_location"
TABLE_TYPE: Final = "table_type"
_PRIVATE: Final = frozenset({TABLE_UUID, METADATA_LOCATION})
Mode = Literal["all", "refs"]


@dataclass(frozen=True, slots=True)
class FoundTable:
    """What the catalog says of a table, before its data is opened."""

    identifier: Identifier
    location: str
    properties: Mapping[str, str]
    storage_options: Mapping[str, str]
    managed: bool
    declared_only: bool

    @property
    def is_ordinary(self) -> bool:
        """Tell whether this is an ordinary Iceberg table, not a Lance table."""
        return METADATA_LOCATION in self.properties

    @property
    def uuid(self) -> str:
        """The identity of the table: given at its creation, else derived from where it is."""
        given = self.properties.get(TABLE_UUID)
        return given or str(uuid.uuid5(uuid.NAMESPACE_URL, self.location))

    @property
    def public_properties(self) -> dict[str, str]:
        """The properties without those that are the server's own."""
        return shown({k: v for k, v in self.properties.items() if k not in _PRIVATE})


def find(catalog: Catalog, identifier: Identifier) -> FoundTable:
    """Look a table up; raises what the catalog raises if there is none."""
    answer = catalog.namespace.describe_table(
        DescribeTableRequest(id=list(identifier), check_declared=True)
    )
    return FoundTable(
        identifier,
        as_uri(answer.location),
        dict(answer.properties or {}),
        dict(answer.storage_options or {}),
        bool(answer.managed_versioning),
        bool(answer.is_only_declared),
    )


def kind_of(view: View | None, identifier: Identifier) -> dict[str, str]:
    """What a list says of a table besides its name, so that nobody must load it to know."""
    record = None if view is None else view.get(identifier)
    if not isinstance(record, Table):
        return {}
    return {TABLE_TYPE: "iceberg" if METADATA_LOCATION in record.properties else "lance"}


def dataset_of(catalog: Catalog, table: FoundTable, version: int | None = None) -> Any:
    """Open the data of a table."""
    options = {**catalog.storage_options, **table.storage_options} or None
    if table.managed:
        return lance.dataset(
            namespace_client=catalog.namespace,
            table_id=list(table.identifier),
            version=version,
            storage_options=options,
        )
    return lance.dataset(table.location, version=version, storage_options=options)


def describe(catalog: Catalog, table: FoundTable) -> Description:
    """Everything Iceberg's metadata is built from."""
    managed_by = ManagedBy.IMPL if table.managed else ManagedBy.STORAGE
    newest = [] if table.declared_only else _newest_versions(catalog, table.identifier)
    if not newest:  # nothing is committed yet, though a writer may have put files there
        return Description(
            table.location, table.uuid, managed_by, properties=table.public_properties
        )
    dataset = dataset_of(catalog, table)
    tags = {
        name: entry["version"]
        for name, entry in steadily(dataset.tags.list).items()
        if entry.get("branch") is None
    }
    times = _version_times(catalog, table.identifier, newest, {*tags.values(), dataset.version})
    fields = lance_field_ids(dataset.lance_schema.fields())
    return Description(
        table.location,
        table.uuid,
        managed_by,
        iceberg_schema(dataset.schema, fields),
        [
            Snapshot(
                version,
                times[version],
                "append" if version == 1 else "overwrite",
                summary=_summary(dataset) if version == dataset.version else {},
            )
            for version in sorted(times)
        ],
        tags,
        table.public_properties,
        times[dataset.version],
    )


def metadata_of(catalog: Catalog, table: FoundTable, mode: Mode = "all") -> dict[str, Any]:
    """The TableMetadata of a Lance table."""
    return table_metadata(describe(catalog, table), mode=mode, newest=catalog.settings.snapshots)


def manifest_of(namespace: LanceNamespace, identifier: Identifier, version: int) -> str:
    """The address of the file that holds a version: what Iceberg calls the metadata location."""
    found = _described(namespace, identifier, version)
    return str(found.get("manifest_path")) if found else ""


def _summary(dataset: Any) -> dict[str, str]:
    fragments = dataset.get_fragments()
    return {
        "total-records": str(dataset.count_rows()),
        "total-data-files": str(sum(len(f.data_files()) for f in fragments)),
        "total-delete-files": "0",
    }


def _newest_versions(catalog: Catalog, identifier: Identifier) -> list[Any]:
    request = ListTableVersionsRequest(
        id=list(identifier), limit=catalog.settings.snapshots, descending=True
    )
    return list(catalog.namespace.list_table_versions(request).versions)


def _version_times(
    catalog: Catalog, identifier: Identifier, newest: list[Any], named: set[int]
) -> dict[int, int]:
    """When each version that is shown was made: the newest ones, the tagged, the opened one."""
    opened = max(named)
    times = {
        entry.version: entry.timestamp_millis or 0
        for entry in newest
        if entry.version <= opened  # nobody may see a version newer than the one that is opened
    }
    for version in named - times.keys():
        found = _described(catalog.namespace, identifier, version)
        if found is not None:
            times[version] = found.get("timestamp_millis") or 0
    times.setdefault(opened, 0)
    return times


def _described(
    namespace: LanceNamespace, identifier: Identifier, version: int
) -> dict[str, Any] | None:
    # A plain dict: pylance's namespaces refuse a model here.
    asked: Any = DescribeTableVersionRequest(id=list(identifier), version=version).model_dump(
        exclude_none=True
    )
    try:
        answer: Any = namespace.describe_table_version(asked)
    except LanceNamespaceError as problem:
        if int(problem.code) == 11:
            return None
        raise
    found = answer if isinstance(answer, dict) else answer.model_dump()
    version_found: dict[str, Any] = found["version"]
    return version_found
