"""The versions of a table: what each changed, and how the number of rows went."""

from itertools import pairwise
from typing import Any, Final

from lance import LanceDataset
from lance_namespace import ListTableVersionsRequest

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.server.console.pages import Page
from lakeroot.server.console.summaries import number_in
from lakeroot.server.console.visit import Visit
from lakeroot.server.identity.access import Role
from lakeroot.tables.faults import translated
from lakeroot.tables.handle import steadily
from lakeroot.tables.made import transaction_of

PAGE: Final = 40


def versions(visit: Visit, identifier: Identifier) -> Page:
    """A page of versions, the newest first."""
    after = visit.text("after")
    with visit.opened(identifier, "Listing versions") as dataset:
        request = ListTableVersionsRequest(
            id=list(identifier), descending=True, limit=PAGE, page_token=after or None
        )
        found = visit.namespace.list_table_versions(request)
        listed = found if isinstance(found, dict) else found.model_dump()
        tags: dict[int, list[str]] = {}
        for name, tag in steadily(dataset.tags.list).items():
            if not tag.get("branch"):
                tags.setdefault(int(tag["version"]), []).append(name)
        lines = [_line(dataset, one, tags) for one in listed["versions"]]
        newest = dataset.version
    for newer, older in pairwise(lines):
        if newer["rows"] is not None and older["rows"] is not None:
            newer["more_rows"] = newer["rows"] - older["rows"]
    data = {
        "id": list(identifier),
        "newest": newest,
        "versions": lines,
        "next": listed.get("page_token") or None,
        "may_restore": visit.at is None and visit.access.allows(identifier, Role.WRITER),
    }
    return Page(
        "table_versions.html", show(identifier), data, identifier, "versions", has_form=True
    )


def _line(dataset: LanceDataset, one: dict[str, Any], tags: dict[int, list[str]]) -> dict[str, Any]:
    number = int(one["version"])
    line: dict[str, Any] = {
        "version": number,
        "timestamp_ms": one.get("timestamp_millis"),
        "what": "",
        "rows": None,
        "more_rows": None,
        "bytes": None,
        "fragments": None,
        "tags": sorted(tags.get(number, [])),
    }
    try:
        with translated("Reading the version"):
            opened = dataset.checkout_version(number)
            manifest = opened.get_version()
    except LakerootError as problem:
        return {**line, "what": f"cannot be read: {problem.what}"}
    metadata = manifest["metadata"]
    return {
        **line,
        "timestamp_ms": int(manifest["timestamp"].timestamp() * 1000),
        "what": _what(opened, number),
        "rows": number_in(metadata, "total_rows"),
        "bytes": number_in(metadata, "total_files_size"),
        "fragments": number_in(metadata, "total_fragments"),
    }


def _what(dataset: LanceDataset, number: int) -> str:
    """What the transaction of a version did, in a few words."""
    try:
        with translated("Reading the transaction"):
            transaction = transaction_of(dataset, number)
    except LakerootError:
        return ""
    if transaction is None:
        return ""
    operation = transaction.operation
    name = type(operation).__name__
    details = {
        "Delete": lambda: f"where {operation.predicate}",
        "Append": lambda: f"{sum(f.physical_rows for f in operation.fragments):,} rows",
        "CreateIndex": lambda: ", ".join(sorted({i.name for i in operation.new_indices})),
        "Restore": lambda: f"version {operation.version}",
    }.get(name)
    detail = ""
    if details is not None:
        try:
            detail = details()
        except (AttributeError, TypeError):
            detail = ""  # another release of Lance describes its operations otherwise
    word = _WORDS.get(name, name)
    return f"{word} {detail}".strip()[:200]


_WORDS: Final = {
    "Append": "appended",
    "Delete": "deleted rows",
    "Overwrite": "written anew",
    "Update": "updated rows",
    "Merge": "added columns",
    "Project": "changed columns",
    "Rewrite": "compacted",
    "CreateIndex": "built index",
    "Restore": "restored",
    "UpdateConfig": "changed settings",
    "DataReplacement": "replaced column data",
    "ReserveFragments": "reserved fragments",
}
