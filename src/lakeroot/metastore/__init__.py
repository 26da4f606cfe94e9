"""The DeltaCAT storage model as a library: records, layouts, transactions and deltas of files."""

from lakeroot.metastore.manifests import Manifest, ManifestEntry, ManifestMeta, manifest_of
from lakeroot.metastore.metastore import Metastore
from lakeroot.metastore.naming import Layout
from lakeroot.metastore.records import (
    Delta,
    Namespace,
    Partition,
    Stream,
    Table,
    TableVersion,
)
from lakeroot.metastore.schemas import Schema, schema_of
from lakeroot.metastore.states import CommitState, DeltaType, LifecycleState
from lakeroot.metastore.transaction import Transaction
from lakeroot.metastore.view import View

__all__ = [
    "CommitState",
    "Delta",
    "DeltaType",
    "Layout",
    "LifecycleState",
    "Manifest",
    "ManifestEntry",
    "ManifestMeta",
    "Metastore",
    "Namespace",
    "Partition",
    "Schema",
    "Stream",
    "Table",
    "TableVersion",
    "Transaction",
    "View",
    "manifest_of",
    "schema_of",
]
