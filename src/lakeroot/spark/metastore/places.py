"""Find the metastore that a catalog is."""

from collections.abc import Mapping
from typing import Any, Final

from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.spark.catalogs import DIRECTORY

_METASTORE: Final = "lakeroot.DeltaCatNamespace"
_STORAGE: Final = "storage."


def metastore_at(impl: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Say where a metastore is, as the functions on its tables take it; refuse other catalogs."""
    from lakeroot.lake.opening import implementation

    given = dict(properties)
    root = given.pop("root", "")
    # Whoever gives a directory need not say what is in it.
    found = implementation(root, given)[0] if root and impl == DIRECTORY else impl
    if not root or found != _METASTORE:
        raise UnsupportedOperationError(
            f"{root or 'The catalog'} is no metastore",
            "only a metastore has tables of deltas",
            "Give the directory of a metastore",
        )
    storage = {
        key.removeprefix(_STORAGE): value
        for key, value in given.items()
        if key.startswith(_STORAGE)
    }
    return {"root": root, "storage_options": storage or None}
