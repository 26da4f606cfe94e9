"""Frames that are sure to have few rows: those come to the driver for less than a task costs."""

import math
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

_MOST_BYTES: Final = 1 << 20
# Numbers that are counted, rows that the plan holds, or fewer of these, with other columns.
_COUNTED: Final = {"Range", "LocalRelation", "Project", "Filter"}
_OF_ONE_WIDTH: Final = (st.NumericType, st.BooleanType, st.DateType)


def brought(frame: DataFrame) -> pa.Table | None:
    """Bring the rows of a frame; nothing if they may be many, or of any width.

    Over Connect, where nobody can ask for the plan, they stay where they are.
    """
    kinds = [field.dataType for field in frame.schema.fields]
    if not hasattr(frame, "_jdf") or not all(isinstance(kind, _OF_ONE_WIDTH) for kind in kinds):
        return None
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    return frame.toArrow() if _size(plan) <= _MOST_BYTES else None


def _size(plan: Any) -> float:
    """Tell how large the rows of a plan can be at most; endless, if that is not known.

    A filter may be expected to leave less than it does, so the largest of all that it stands on
    counts.
    """
    if plan.nodeName() not in _COUNTED:
        return math.inf
    own, below = int(str(plan.stats().sizeInBytes())), plan.children()
    return max([own, *(_size(below.apply(number)) for number in range(below.size()))])
