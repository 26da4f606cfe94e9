"""The words of the storage model: states, kinds and formats, with the values kept on disk."""

from enum import StrEnum
from typing import Final

UNPARTITIONED_SCHEME_ID: Final = "deadbeef-7277-49a4-a195-fdc8ed235d42"
UNSORTED_SCHEME_ID: Final = "deadbeef-7277-49a4-a195-fdc8ed235d42"
NATIVE_FORMAT: Final = "deltacat"
LANCE_FORMAT: Final = "lance"
LAST_ORDERED_POSITION: Final = 2**32 - 1


class Operation(StrEnum):
    """What a transaction did to an object or a name."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"


class LifecycleState(StrEnum):
    """How far a table version is in its life."""

    CREATED = "created"
    UNRELEASED = "unreleased"
    ACTIVE = "active"
    BETA = "beta"
    DEPRECATED = "deprecated"
    DELETED = "deleted"


class CommitState(StrEnum):
    """Whether a stream or partition is being prepared, is the current one, or has been replaced."""

    STAGED = "staged"
    COMMITTED = "committed"
    DEPRECATED = "deprecated"


class DeltaType(StrEnum):
    """What the rows of a delta do: ``add`` is an append without a place in the order."""

    ADD = "add"
    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"


class EntryType(StrEnum):
    """What a file of a manifest holds."""

    DATA = "data"
    POSITIONAL_DELETE = "positional_delete"
    EQUALITY_DELETE = "equality_delete"


class ContentType(StrEnum):
    """The format of a data file."""

    PARQUET = "application/parquet"
    FEATHER = "application/feather"
    ORC = "application/orc"
    AVRO = "application/avro"
    JSON = "application/json"
    BINARY = "application/octet-stream"
    CSV = "text/csv"
    PSV = "text/psv"
    TSV = "text/tsv"
    UNESCAPED_TSV = "application/x-amzn-unescaped-tsv"


class SortOrder(StrEnum):
    """The direction of a sort key."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class NullOrder(StrEnum):
    """Where a sort key puts nulls."""

    AT_START = "at_start"
    AT_END = "at_end"


class SchemaConsistency(StrEnum):
    """What happens to a value whose type is not the type of its field."""

    NONE = "none"
    COERCE = "coerce"
    VALIDATE = "validate"


class SchemaEvolution(StrEnum):
    """Whether writes may change the schema of a table."""

    MANUAL = "manual"
    AUTO = "auto"
    DISABLED = "disabled"


class ReadOptimization(StrEnum):
    """Whether writes leave merging to readers (``none``) or do it themselves (``max``)."""

    NONE = "none"
    MODERATE = "moderate"
    MAX = "max"
