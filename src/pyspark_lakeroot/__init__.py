"""The place where Spark looks for data sources: any installed module called ``pyspark_*``."""

from lakeroot.spark.source import LakerootSource as DefaultSource

__all__ = ["DefaultSource"]
