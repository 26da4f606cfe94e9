"""Lance tables in a metastore: a catalog in the DeltaCAT storage model.

A namespace is a namespace, a table is a table whose stream has the format ``lance``, and the delta
at a position of that stream is the version of that number. There is one level of namespaces.
"""

from lakeroot.storage.deltacat.store import DeltaCatStore

__all__ = ["DeltaCatStore"]
