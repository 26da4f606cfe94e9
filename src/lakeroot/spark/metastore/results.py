"""What changes of a table of a metastore have done."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowsResult:
    """What a change of rows has done; in a dry run, what it would do.

    `rows` were given: how many others they delete or replace, nobody counts. `partitions` were
    touched. `deltas` of them got one, for readers to merge; the others were
    written anew. Without a `transaction` nothing was to be changed.
    """

    transaction: str | None = None
    rows: int = 0
    partitions: int = 0
    deltas: int = 0
    files: int = 0
    already_done: bool = False


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a compaction has done: how many partitions it wrote anew, and files of the table."""

    transaction: str | None = None
    partitions: int = 0
    files_before: int = 0
    files: int = 0
    already_done: bool = False
