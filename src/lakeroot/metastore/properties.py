"""Table properties: the settings of a table, with the defaults of the storage model."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from lakeroot.metastore.states import ReadOptimization, SchemaConsistency, SchemaEvolution
from lakeroot.model.errors import InvalidInputError

READ_OPTIMIZATION: Final = "read_optimization_level"
RECORDS_PER_COMPACTED_FILE: Final = "records_per_compacted_file"
APPENDED_RECORDS_TRIGGER: Final = "appended_record_count_compaction_trigger"
APPENDED_FILES_TRIGGER: Final = "appended_file_count_compaction_trigger"
APPENDED_DELTAS_TRIGGER: Final = "appended_delta_count_compaction_trigger"
HASH_BUCKETS: Final = "default_compaction_hash_bucket_count"
SCHEMA_EVOLUTION: Final = "schema_evolution_mode"
SCHEMA_CONSISTENCY: Final = "default_schema_consistency_type"
READER_TYPES: Final = "supported_reader_types"

DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        READ_OPTIMIZATION: ReadOptimization.MAX.value,
        RECORDS_PER_COMPACTED_FILE: 4_000_000,
        APPENDED_RECORDS_TRIGGER: 64_000_000,
        APPENDED_FILES_TRIGGER: 1000,
        APPENDED_DELTAS_TRIGGER: 100,
        HASH_BUCKETS: 8,
        SCHEMA_EVOLUTION: SchemaEvolution.AUTO.value,
        SCHEMA_CONSISTENCY: SchemaConsistency.NONE.value,
        READER_TYPES: [
            "numpy",
            "pandas",
            "polars",
            "pyarrow",
            "pyarrow_parquet",
            "daft",
            "ray_dataset",
        ],
    }
)

_CHOICES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        READ_OPTIMIZATION: frozenset(choice.value for choice in ReadOptimization),
        SCHEMA_EVOLUTION: frozenset(choice.value for choice in SchemaEvolution),
        SCHEMA_CONSISTENCY: frozenset(choice.value for choice in SchemaConsistency),
    }
)
_COUNTS: Final = frozenset(
    {
        RECORDS_PER_COMPACTED_FILE,
        APPENDED_RECORDS_TRIGGER,
        APPENDED_FILES_TRIGGER,
        APPENDED_DELTAS_TRIGGER,
        HASH_BUCKETS,
    }
)


def with_defaults(properties: Mapping[str, Any] | None) -> dict[str, Any]:
    """Complete the properties of a new table, after checking the ones that were given."""
    for name, value in (properties or {}).items():
        allowed = _CHOICES.get(name)
        if allowed is not None and value not in allowed:
            raise InvalidInputError(
                f"The table property {name} cannot be {value!r}",
                fix=f"Use one of {', '.join(sorted(allowed))}",
            )
        if name in _COUNTS and not (isinstance(value, int) and value > 0):
            raise InvalidInputError(
                f"The table property {name} cannot be {value!r}", "it is a count"
            )
    return {**DEFAULTS, **(properties or {})}


def setting(properties: Mapping[str, Any] | None, name: str) -> Any:
    """Read one property; a table that does not say has the default."""
    return (properties or {}).get(name, DEFAULTS[name])
