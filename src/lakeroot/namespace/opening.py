"""Opening the store of a directory catalog from string properties.

Nothing of the Lance ecosystem is imported here: a command that only lists names opens a catalog
in a fraction of the time that those libraries take to load.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lakeroot.model.errors import InvalidInputError
from lakeroot.namespace.properties import STORAGE, Properties
from lakeroot.objects import parse_root
from lakeroot.storage.lance_dir import DirectorySettings, LanceDirStore

# The reference looks at the manifest for root tables only with the first of these; we always do.
_WITHOUT_EFFECT: Final = ("dir_listing_to_manifest_migration_enabled", "ops_metrics_enabled")


def open_directory(given: Mapping[str, Any]) -> tuple[LanceDirStore, str, bool]:
    """Open the store of a directory catalog; say who writes, and whether keys are handed out."""
    properties = Properties(given)
    place = properties.required("root", "/my/lake")
    settings = DirectorySettings(
        manifest_enabled=properties.switch("manifest_enabled", default=True),
        dir_listing_enabled=properties.switch("dir_listing_enabled", default=True),
        inline_optimization_enabled=properties.switch("inline_optimization_enabled", default=False),
        table_version_management=properties.switch("table_version_management", default=False),
        commit_retries=properties.number("commit_retries", 100),
        durable=properties.switch("durable", default=True),
    )
    author = properties.text("author")
    vends = properties.switch("vend_input_storage_options", default=True)
    root = parse_root(place, properties.below(STORAGE))
    properties.ignore(_WITHOUT_EFFECT)
    properties.refuse(
        "table_version_tracking_enabled", "use `table_version_management`, which also arbitrates"
    )
    properties.finish()
    if root.is_local and Path(root.uri).is_file():
        # Nothing is below a file, and a catalog where nothing is would be an empty one.
        raise InvalidInputError(
            f"The root {root.uri} is a file, not a directory",
            fix="Give the directory that holds the catalog",
        )
    return LanceDirStore(root, settings), author, vends
