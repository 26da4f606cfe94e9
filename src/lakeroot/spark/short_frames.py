"""Frames that are sure to have few rows: those come to the driver for less than a task costs."""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as st

_MOST_BYTES: Final = 1 << 20
# What Spark says of their size is true: numbers, rows that the plan holds, or fewer of these.
_COUNTED: Final = {"Range", "LocalRelation", "Project", "Filter", "LocalLimit", "GlobalLimit"}
_OF_ONE_WIDTH: Final = (st.NumericType, st.BooleanType, st.DateType)


def brought(frame: DataFrame) -> pa.Table | None:
    """Bring the rows of a frame; nothing if they may be many, or of any width.

    Over Connect, where nobody can ask for the plan, they stay where they are.
    """
    kinds = [field.dataType for field in frame.schema.fields]
    if not hasattr(frame, "_jdf") or not all(isinstance(kind, _OF_ONE_WIDTH) for kind in kinds):
        return None
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    if not _is_counted(plan) or int(str(plan.stats().sizeInBytes())) > _MOST_BYTES:
        return None
    return frame.toArrow()


def _is_counted(plan: Any) -> bool:
    below = plan.children()
    return plan.nodeName() in _COUNTED and all(
        _is_counted(below.apply(number)) for number in range(below.size())
    )
