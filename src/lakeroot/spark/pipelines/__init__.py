"""Pipelines: sources, steps, tables with checks, and one publication of all of them."""

from lakeroot.spark.pipelines.definition import Check, Pipeline, Source, Step, Target, load
from lakeroot.spark.pipelines.running import PipelineResult, TableResult, plan, run, run_file

__all__ = [
    "Check",
    "Pipeline",
    "PipelineResult",
    "Source",
    "Step",
    "TableResult",
    "Target",
    "load",
    "plan",
    "run",
    "run_file",
]
