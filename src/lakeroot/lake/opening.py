"""Opening a catalog by its address."""

from typing import TYPE_CHECKING, Any, Final

from lakeroot.catalog import Catalog
from lakeroot.lake.lake import Lake, Later
from lakeroot.lake.names import OwnNames, translated
from lakeroot.model.errors import InvalidInputError
from lakeroot.namespace.jobs import without_jobs
from lakeroot.namespace.opening import open_directory
from lakeroot.objects import open_root, parse_root

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace

_DIRECTORY: Final = "lakeroot.DirectoryNamespace"
_KINDS: Final = {
    "iceberg+http": "lakeroot.IcebergNamespace",
    "iceberg+https": "lakeroot.IcebergNamespace",
}


def open_lake(where: str, **properties: str) -> Lake:
    """Open a catalog: a directory or a bucket, a metastore, an Iceberg REST catalog, Lance REST.

    A path or bucket that holds a DeltaCAT catalog is opened as one; ``http://`` is Lance REST;
    ``iceberg+http://`` is an Iceberg REST catalog. Further properties are the catalog's own.
    """
    impl, given = implementation(str(where), properties)
    if impl == _DIRECTORY:
        with translated():
            store, author, _ = open_directory(without_jobs(given))
        names = OwnNames(Catalog(store, author))
        return Lake(Later(lambda: _connected(impl, given)), str(where), names)
    return Lake(_connected(impl, given), str(where))


def _connected(impl: str, given: dict[str, Any]) -> "LanceNamespace":
    import lance_namespace

    try:
        return lance_namespace.connect(impl, given)
    except ValueError as error:
        cause = error.__context__ if error.__context__ is not None else error
        raise cause from None


def implementation(where: str, properties: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Tell what kind of catalog is at an address, in the words of `lance_namespace.connect`."""
    scheme = where.partition("://")[0].lower() if "://" in where else ""
    if scheme in ("http", "https"):
        return "rest", {"uri": where, **properties}
    if scheme in _KINDS:
        return _KINDS[scheme], {"endpoint": where.partition("+")[2], **properties}
    if not where:
        raise InvalidInputError("A catalog needs an address", fix="Give a directory or a URL")
    storage = {
        key.removeprefix("storage."): value
        for key, value in properties.items()
        if key.startswith("storage.")
    }
    objects = open_root(parse_root(where, storage))
    is_metastore = objects.has_any("txn") and not objects.has_any("__manifest")
    impl = "lakeroot.DeltaCatNamespace" if is_metastore else _DIRECTORY
    return impl, {"root": where, **properties}
