"""The memory store: the smallest catalog that is obviously right, and so the specification.

Every other store is tested against this one. It keeps names in dictionaries and nothing else;
the data of its tables lies under a root like everybody's.
"""

from lakeroot.storage.memory.store import MemoryStore

__all__ = ["MemoryStore"]
