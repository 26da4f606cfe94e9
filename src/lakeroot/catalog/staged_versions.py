"""Versions that writers ask for: their manifests are staged, and no catalog says so yet."""

from collections.abc import Mapping

from msgspec import Struct, field

from lakeroot.catalog.version_files import VersionFiles
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Table
from lakeroot.tables.versions import NamingScheme, StagedManifest


class NewVersion(Struct, frozen=True):
    """A version that a writer asks for: the manifest is staged, the number is to be its own."""

    identifier: Identifier
    version: int
    manifest_path: str
    manifest_size: int | None = None
    branch: str | None = None
    scheme: NamingScheme = NamingScheme.V2
    metadata: Mapping[str, str] = field(default_factory=dict)


class Staged(Struct, frozen=True):
    """A new version that was looked at: its table, its files, and the bytes of its manifest."""

    asked: NewVersion
    table: Table
    files: VersionFiles
    manifest: StagedManifest
    content: bytes
