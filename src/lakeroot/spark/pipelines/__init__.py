"""Pipelines: sources, steps, tables with checks, one publication of all of them, and jobs."""

from lakeroot.spark.pipelines.afterwards import JobResult
from lakeroot.spark.pipelines.checking import CheckFailedError
from lakeroot.spark.pipelines.definition import Check, Pipeline, Source, Step, Target
from lakeroot.spark.pipelines.files import load
from lakeroot.spark.pipelines.job_kinds import Job
from lakeroot.spark.pipelines.plans import plan, require_possible
from lakeroot.spark.pipelines.running import (
    PipelineResult,
    TableResult,
    finished,
    run,
    run_file,
)

__all__ = [
    "Check",
    "CheckFailedError",
    "Job",
    "JobResult",
    "Pipeline",
    "PipelineResult",
    "Source",
    "Step",
    "TableResult",
    "Target",
    "finished",
    "load",
    "plan",
    "require_possible",
    "run",
    "run_file",
]
