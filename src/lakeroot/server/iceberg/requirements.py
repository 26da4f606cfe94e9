"""The requirements of a commit, with the words that clients look for when one fails."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lakeroot.server.iceberg.errors import bad_request, commit_failed


def check(requirements: object, metadata: Mapping[str, Any] | None) -> None:
    """Hold every requirement against the table as it is now; none is one that is not there."""
    if not isinstance(requirements, list):
        raise bad_request("Cannot parse request: requirements is not a list")
    for requirement in requirements:
        kind = requirement.get("type") if isinstance(requirement, dict) else None
        held = _REQUIREMENTS.get(str(kind))
        if held is None:
            raise bad_request(f"Cannot parse requirement: unknown type {kind}")
        failure = held(requirement, metadata or {})
        if failure is not None:
            raise commit_failed(f"Requirement failed: {failure}")


def asserts_main(requirements: object) -> bool:
    """Tell whether the commit says which version it builds on."""
    return isinstance(requirements, list) and any(
        isinstance(r, dict) and r.get("type") == "assert-ref-snapshot-id" and r.get("ref") == "main"
        for r in requirements
    )


def _create(_: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    return "table already exists" if metadata else None


def _uuid(requirement: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    expected, found = str(requirement.get("uuid")), str(metadata.get("table-uuid"))
    if expected.lower() == found.lower():
        return None
    return f"UUID does not match: expected {found} != {expected}"


def _ref(requirement: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    name, expected = requirement.get("ref"), requirement.get("snapshot-id")
    if not isinstance(name, str) or not (expected is None or isinstance(expected, int)):
        raise bad_request("Cannot parse requirement: assert-ref-snapshot-id")
    ref = metadata.get("refs", {}).get(name)
    kind = "tag" if ref is not None and ref["type"] == "tag" else "branch"
    if expected is None:
        return None if ref is None else f"{kind} {name} was created concurrently"
    if ref is None:
        return f"branch or tag {name} is missing, expected {expected}"
    if ref["snapshot-id"] != expected:
        return f"{kind} {name} has changed: expected id {expected} != {ref['snapshot-id']}"
    return None


def _same(asserted: str, ours: str, text: str) -> Callable[..., str | None]:
    def held(requirement: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
        expected, found = requirement.get(asserted), metadata.get(ours)
        return None if expected == found else f"{text}: expected id {expected} != {found}"

    return held


_REQUIREMENTS: Final[dict[str, Callable[..., str | None]]] = {
    "assert-create": _create,
    "assert-table-uuid": _uuid,
    "assert-ref-snapshot-id": _ref,
    "assert-last-assigned-field-id": _same(
        "last-assigned-field-id", "last-column-id", "last assigned field id changed"
    ),
    "assert-current-schema-id": _same(
        "current-schema-id", "current-schema-id", "current schema changed"
    ),
    "assert-last-assigned-partition-id": _same(
        "last-assigned-partition-id", "last-partition-id", "last assigned partition id changed"
    ),
    "assert-default-spec-id": _same(
        "default-spec-id", "default-spec-id", "default partition spec changed"
    ),
    "assert-default-sort-order-id": _same(
        "default-sort-order-id", "default-sort-order-id", "default sort order changed"
    ),
}
