"""What the Iceberg face may be told."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IcebergSettings:
    """What the Iceberg face offers beyond the specification, for tables that do not say."""

    mirror: bool = False
    scan_planning: bool = False
    snapshots: int = 100
