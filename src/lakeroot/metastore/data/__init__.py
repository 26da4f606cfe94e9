"""The rows of tables: deltas of data files, read and written with Arrow on one machine."""

from lakeroot.metastore.data.evolution import (
    AddField,
    ChangeField,
    RemoveField,
    RenameField,
    WidenField,
)
from lakeroot.metastore.data.given import inferred
from lakeroot.metastore.data.plan import (
    DataFile,
    PartitionPlan,
    Step,
    StepKind,
    TablePlan,
    plan_partition,
    plan_table,
)
from lakeroot.metastore.data.reads import read_partition, read_rows
from lakeroot.metastore.data.tables import TableWriter

__all__ = [
    "AddField",
    "ChangeField",
    "DataFile",
    "PartitionPlan",
    "RemoveField",
    "RenameField",
    "Step",
    "StepKind",
    "TablePlan",
    "TableWriter",
    "WidenField",
    "inferred",
    "plan_partition",
    "plan_table",
    "read_partition",
    "read_rows",
]
