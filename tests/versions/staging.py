"""Real manifests, staged as a Lance client stages them: written beside the table, not committed."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
from lance_namespace import DescribeTableRequest

from lakeroot import DirectoryNamespace
from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["a", "b", "c"]})


@dataclass(frozen=True)
class StagedVersion:
    """A manifest that waits to become a version."""

    name: list[str]
    version: int
    path: str
    scheme: NamingScheme
    file: Path
    content: bytes

    def request(self, **more: Any) -> dict[str, Any]:
        return {
            "id": self.name,
            "version": self.version,
            "manifest_path": self.path,
            "manifest_size": len(self.content),
            "naming_scheme": str(self.scheme),
            **more,
        }


def directory_of(namespace: DirectoryNamespace, *name: str) -> Path:
    return Path(namespace.describe_table(DescribeTableRequest(id=list(name))).location)


def make_table(
    namespace: DirectoryNamespace,
    *name: str,
    versions: int = 1,
    scheme: NamingScheme = NamingScheme.V2,
) -> Path:
    """Make a table through the catalog, with one row group per version."""
    for number in range(versions):
        lance.write_dataset(
            ROWS,
            namespace_client=namespace,
            table_id=list(name),
            mode="append" if number else "create",
            enable_v2_manifest_paths=scheme is NamingScheme.V2,
        )
    return directory_of(namespace, *name)


def stage(
    namespace: DirectoryNamespace, *name: str, scheme: NamingScheme = NamingScheme.V2
) -> StagedVersion:
    """Prepare an append of three rows to the newest version, up to but without its commit."""
    table = directory_of(namespace, *name)
    scratch = table.parent / f"scratch-{uuid4().hex}"
    shutil.copytree(table, scratch)
    try:
        lance.write_dataset(ROWS, str(scratch), mode="append")
        version = lance.dataset(str(scratch)).version
        content = (scratch / "_versions" / manifest_name(version, scheme)).read_bytes()
        shutil.copytree(scratch / "data", table / "data", dirs_exist_ok=True)
        shutil.copytree(scratch / "_transactions", table / "_transactions", dirs_exist_ok=True)
    finally:
        shutil.rmtree(scratch)
    file = table / "_versions" / staging_name(version, scheme, uuid4().hex)
    file.write_bytes(content)
    return StagedVersion(list(name), version, str(file).lstrip("/"), scheme, file, content)


def direct_append(table: Path) -> int:
    """Append as a client does that knows nothing of the catalog."""
    return int(lance.write_dataset(ROWS, str(table), mode="append").version)


def numbers(namespace: Any, *name: str, **more: Any) -> list[int]:
    listed = namespace.list_table_versions({"id": list(name), **more})
    return [version["version"] for version in listed["versions"]]


def row_count(namespace: Any, *name: str, version: int | None = None) -> int:
    found = lance.dataset(namespace_client=namespace, table_id=list(name), version=version)
    return int(found.count_rows())


def files_below(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}
