"""Manifests: the files of a delta."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakeroot.metastore.locators import new_id
from lakeroot.metastore.schemes import nothing
from lakeroot.metastore.states import ContentType, EntryType


@dataclass(frozen=True, slots=True)
class ManifestMeta:
    """What is known of a file, or of all files of a manifest together."""

    record_count: int | None = None
    content_length: int | None = None
    source_content_length: int | None = None
    content_type: str | None = ContentType.PARQUET.value
    content_type_parameters: Any = None
    content_encoding: str | None = "identity"
    credentials: Any = None
    entry_type: str | None = EntryType.DATA.value
    entry_params: Mapping[str, Any] | None = None
    schema_id: int | None = None
    sort_scheme_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=nothing)

    @property
    def equality_fields(self) -> tuple[str, ...]:
        """The columns on which the rows of an upsert or a delete match those before them."""
        return tuple((self.entry_params or {}).get("equality_field_locators") or ())


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file. Its url is relative to the root of the catalog, or a whole address."""

    url: str
    meta: ManifestMeta = field(default_factory=ManifestMeta)
    mandatory: bool = True
    id: str | None = None
    uri: str | None = None
    extra: Mapping[str, Any] = field(default_factory=nothing)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a delta, and who wrote them."""

    entries: tuple[ManifestEntry, ...]
    meta: ManifestMeta
    id: str
    author: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=nothing)


def manifest_of(
    entries: Iterable[ManifestEntry], author: Mapping[str, Any] | None = None
) -> Manifest:
    """Make a manifest of files, with the totals that its header shows."""
    files = tuple(entries)
    return Manifest(files, totals([entry.meta for entry in files]), new_id(), author)


def totals(metas: list[ManifestMeta]) -> ManifestMeta:
    """Sum up the files of a manifest: counts are added, what differs is left out."""
    if not metas:
        return ManifestMeta(record_count=0, content_length=0, source_content_length=0)
    first = metas[0]
    merged: dict[str, Any] = {
        name: getattr(first, name)
        if len({repr(getattr(meta, name)) for meta in metas}) == 1
        else None
        for name in (
            "content_type",
            "content_encoding",
            "entry_type",
            "entry_params",
            "sort_scheme_id",
        )
    }
    schema_ids = [meta.schema_id for meta in metas if meta.schema_id is not None]
    return replace(
        ManifestMeta(),
        record_count=_sum(meta.record_count for meta in metas),
        content_length=_sum(meta.content_length for meta in metas),
        source_content_length=_sum(meta.source_content_length for meta in metas),
        schema_id=max(schema_ids, default=None),
        **merged,
    )


def _sum(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)
