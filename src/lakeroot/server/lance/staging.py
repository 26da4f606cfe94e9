"""A catalog that moves files on request must not move other people's.

Lakeroot's own catalogs check where a staged manifest lies. Others, the reference among them, move
whatever file they are told to; for those the server looks first.
"""

from collections.abc import Iterator
from typing import Any

from lance_namespace import DescribeTableRequest, LanceNamespace

from lakeroot.namespace.base import LakerootNamespace
from lakeroot.tables.versions import naming_scheme, staged_manifest


def check_staged(namespace: LanceNamespace, model: Any) -> None:
    """Refuse to commit a manifest that is not in the versions directory of its own table."""
    if isinstance(namespace, LakerootNamespace):
        return
    for version in _versions(model):
        described = namespace.describe_table(DescribeTableRequest(id=version.id))
        staged_manifest(
            described.location,
            version.manifest_path,
            version=version.version,
            scheme=naming_scheme(version.naming_scheme),
            branch=version.branch,
        )


def _versions(model: Any) -> Iterator[Any]:
    if hasattr(model, "entries"):
        yield from model.entries
    elif hasattr(model, "operations"):
        yield from (op.create_table_version for op in model.operations if op.create_table_version)
    else:
        yield model
