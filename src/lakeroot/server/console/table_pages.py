"""The pages of a table, except its rows and its versions."""

from typing import Any

from lance import LanceDataset

from lakeroot.model.identifiers import Identifier, show
from lakeroot.server.console.pages import Page
from lakeroot.server.console.schemas import field_lines
from lakeroot.server.console.snippets import snippets
from lakeroot.server.console.summaries import number_in, summary
from lakeroot.server.console.visit import Visit
from lakeroot.server.identity.access import Role
from lakeroot.server.identity.denials import require_table
from lakeroot.tables.describe import SMALL_FRAGMENT_ROWS
from lakeroot.tables.describe import summary as lengths_summary
from lakeroot.tables.handle import steadily

_MOST_FRAGMENTS = 100


def overview(visit: Visit, identifier: Identifier) -> Page:
    """The schema, the properties, and how to open the table."""
    described = visit.described(identifier)
    data: dict[str, Any] = {
        "id": list(identifier),
        "summary": summary(visit, identifier),
        "location": described.location,
        "properties": dict(described.properties or {}),
        "managed": bool(described.managed_versioning),
        "fields": [],
        "metadata": {},
        "snippets": snippets(visit.origin, identifier),
    }
    if data["summary"]["state"] == "ok":
        with visit.opened(identifier, "Reading the schema") as dataset:
            data["fields"] = field_lines(dataset.schema)
            data["metadata"] = _text_metadata(dataset)
    return _page("overview", identifier, data)


def indexes(visit: Visit, identifier: Identifier) -> Page:
    """The indexes, and how much of the table each covers."""
    with visit.opened(identifier, "Listing indexes") as dataset:
        rows = dataset.count_rows()
        found = [_index(index, rows) for index in dataset.describe_indices()]
    data = {"id": list(identifier), "rows": rows, "indexes": found}
    return _page("indexes", identifier, data)


def refs(visit: Visit, identifier: Identifier) -> Page:
    """The tags and the branches."""
    with visit.opened(identifier, "Listing tags and branches") as dataset:
        tags = [
            {"name": name, "version": tag["version"], "branch": tag.get("branch") or "main"}
            for name, tag in sorted(steadily(dataset.tags.list).items())
        ]
        branches = [
            {
                "name": name,
                "parent_branch": branch["parent_branch"] or "main",
                "parent_version": branch["parent_version"],
                "timestamp_ms": int(branch["create_at"]) * 1000,
            }
            for name, branch in sorted(steadily(dataset.branches.list).items())
        ]
        newest = dataset.version
    data = {
        "id": list(identifier),
        "newest": newest,
        "tags": tags,
        "branches": branches,
        "may_tag": _may_change(visit, identifier),
    }
    return _page("refs", identifier, data, has_form=True)


def storage(visit: Visit, identifier: Identifier) -> Page:
    """Where the table lies, and in which pieces."""
    location = visit.described(identifier).location
    with visit.opened(identifier, "Measuring the table") as dataset:
        manifest = dataset.get_version()["metadata"]
        fragments = [_fragment(fragment.metadata) for fragment in dataset.get_fragments()]
        data_version = dataset.data_storage_version
    lengths = sorted(one["rows"] for one in fragments)
    shape = lengths_summary(lengths)
    data = {
        "id": list(identifier),
        "location": location,
        "data_storage_version": data_version,
        "bytes": number_in(manifest, "total_files_size"),
        "files": number_in(manifest, "total_data_files"),
        "rows": number_in(manifest, "total_rows"),
        "deleted_rows": number_in(manifest, "total_deletion_file_rows"),
        "fragments": len(fragments),
        "small_fragments": sum(length < SMALL_FRAGMENT_ROWS for length in lengths),
        "rows_per_fragment": {"least": shape.min, "middle": shape.p50, "most": shape.max},
        "listed": fragments[:_MOST_FRAGMENTS],
    }
    return _page("storage", identifier, data)


def drop(visit: Visit, identifier: Identifier) -> Page:
    """Ask whether a table should really go."""
    require_table(visit.access, identifier, Role.WRITER)
    data = {
        "id": list(identifier),
        "summary": summary(visit, identifier),
        "may_drop": _may_change(visit, identifier),
        "has_trash": visit.has_trash,
    }
    return _page("drop", identifier, data, has_form=True)


def _may_change(visit: Visit, identifier: Identifier) -> bool:
    return visit.at is None and visit.access.allows(identifier, Role.WRITER)


def _page(
    tab: str, identifier: Identifier, data: dict[str, Any], *, has_form: bool = False
) -> Page:
    return Page(f"table_{tab}.html", show(identifier), data, identifier, tab, has_form)


def _text_metadata(dataset: LanceDataset) -> dict[str, str]:
    return {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (dataset.schema.metadata or {}).items()
    }


def _index(index: Any, rows: int) -> dict[str, Any]:
    covered = min(index.num_rows_indexed, rows)
    created = [s.created_at for s in index.segments if s.created_at is not None]
    return {
        "name": index.name,
        "kind": index.index_type,
        "columns": list(index.field_names),
        "covered_rows": covered,
        "uncovered_rows": rows - covered,
        "coverage": round(covered / rows, 4) if rows else 1.0,
        "bytes": index.total_size_bytes,
        "segments": len(index.segments),
        "timestamp_ms": int(min(created).timestamp() * 1000) if created else None,
    }


def _fragment(metadata: Any) -> dict[str, Any]:
    return {
        "id": metadata.id,
        "rows": metadata.physical_rows - metadata.num_deletions,
        "deleted": metadata.num_deletions,
        "files": len(metadata.files),
        "bytes": sum(file.file_size_bytes or 0 for file in metadata.files),
    }
