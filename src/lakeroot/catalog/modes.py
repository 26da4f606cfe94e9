"""How a verb behaves when the object is already there, or not there."""

from enum import StrEnum


class RegisterMode(StrEnum):
    """What to do when a table of the name is already registered."""

    CREATE = "create"
    OVERWRITE = "overwrite"


class DropMode(StrEnum):
    """What to do when the namespace to drop does not exist."""

    FAIL = "fail"
    SKIP = "skip"


class DropBehavior(StrEnum):
    """What to do when the namespace to drop is not empty."""

    RESTRICT = "restrict"
    CASCADE = "cascade"
