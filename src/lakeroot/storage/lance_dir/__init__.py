"""The Lance Directory Namespace: a directory or a bucket is the catalog.

V1 finds tables by looking (`directory`); V2 keeps them in a Lance table, ``__manifest``, whose
every version is a state of the whole catalog (`version_file`, `rows`, `state`); `commits` adds
the next version; `store` is the two together behind the contract.
"""

from lakeroot.storage.lance_dir.settings import DirectorySettings
from lakeroot.storage.lance_dir.store import LanceDirStore

__all__ = ["DirectorySettings", "LanceDirStore"]
