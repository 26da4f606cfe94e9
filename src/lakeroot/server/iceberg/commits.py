"""Commits to Lance tables by Iceberg clients: what must hold, and what changes.

A Lance version is made by a Lance writer. What an Iceberg client may do is hand over a version
whose manifest a Lance writer staged, restore an old version, tag, forget versions, and set
properties. A snapshot of Iceberg's own making is refused before anything is touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakeroot.model.identifiers import Identifier
from lakeroot.server.iceberg.calls import strings
from lakeroot.server.iceberg.errors import bad_request
from lakeroot.tables.iceberg import RESERVED_PROPERTIES
from lakeroot.tables.versions import naming_scheme, object_key, staged_manifest

STAGED: Final = ("lance.manifest", "lance.staging-manifest")
_SIZE: Final = "lance.manifest-size"
_E_TAG: Final = "lance.e-tag"
_NAMING: Final = "lance.naming-scheme"
MAIN: Final = "main"


@dataclass(slots=True)
class Effects:
    """What the updates of one commit come to."""

    version: dict[str, Any] | None = None  # a request to create this version
    main: int | None = None
    tags: dict[str, int] = field(default_factory=dict)
    untagged: list[str] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    updates: dict[str, str] = field(default_factory=dict)
    removals: list[str] = field(default_factory=list)

    def kinds(self) -> list[str]:
        """Name the kinds of effects; a commit may have one, so that it happens whole or not."""
        found = {
            "a new version": self.version is not None or self.main is not None,
            "tags": bool(self.tags or self.untagged),
            "removal of versions": bool(self.forgotten),
            "properties": bool(self.updates or self.removals),
        }
        return [name for name, present in found.items() if present]


def known(updates: object) -> list[dict[str, Any]]:
    """Read the updates of a commit; refuse those that no Lance table can have, whatever it is."""
    if not isinstance(updates, list):
        raise bad_request("Cannot parse request: updates is not a list")
    for update in updates:
        action = update.get("action") if isinstance(update, dict) else None
        if str(action) not in _UPDATES:
            raise bad_request(f"Cannot apply update to a Lance table: {action}")
        if action == "add-snapshot":
            _staged_by(update)
    return updates


def effects_of(
    identifier: Identifier, updates: list[dict[str, Any]], metadata: Mapping[str, Any]
) -> Effects:
    """Work out what the updates of a commit come to for a Lance table as it is now."""
    effects = Effects()
    for update in updates:
        _UPDATES[str(update["action"])](effects, update, metadata, identifier)
    kinds = effects.kinds()
    if len(kinds) > 1:
        raise bad_request(f"Commit {' and '.join(kinds)} to a Lance table one after the other")
    if effects.version is not None and effects.main != effects.version["version"]:
        raise bad_request("A new version of a Lance table must become its main branch")
    return effects


def _staged_by(update: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The snapshot, its summary, and the manifest in it that a Lance writer staged."""
    snapshot = update.get("snapshot")
    summary = snapshot.get("summary") if isinstance(snapshot, dict) else None
    if not isinstance(snapshot, dict) or not isinstance(summary, dict):
        raise bad_request("Cannot parse request: a snapshot has a summary")
    staged = next((summary[key] for key in STAGED if summary.get(key)), None)
    if staged is None:
        raise bad_request(
            "This is a Lance table: commit to it through a Lance writer"
            f" (the snapshot has no {STAGED[0]} in its summary)"
        )
    return snapshot, summary, str(staged)


def _add_snapshot(
    effects: Effects, update: Mapping[str, Any], metadata: Mapping[str, Any], identifier: Identifier
) -> None:
    snapshot, summary, staged = _staged_by(update)
    if effects.version is not None:
        raise bad_request("A commit adds at most one version to a Lance table")
    current = metadata.get("current-snapshot-id") or 0
    if snapshot.get("snapshot-id") != current + 1:
        raise bad_request(f"The next version of this Lance table is {current + 1}")
    number = current + 1
    scheme = naming_scheme(str(summary.get(_NAMING, "V2")))
    # Checked here as well: a catalog that moves files on request must not move other people's.
    location = str(metadata["location"])
    manifest = staged_manifest(location, staged, version=number, scheme=scheme)
    version: dict[str, Any] = {
        "id": list(identifier),
        "version": number,
        "manifest_path": f"{object_key(location)}/{manifest.path}",
        "naming_scheme": scheme.value,
    }
    if str(summary.get(_SIZE, "")).isdigit():
        version["manifest_size"] = int(summary[_SIZE])
    if summary.get(_E_TAG):
        version["e_tag"] = str(summary[_E_TAG])
    effects.version = version


def _set_ref(
    effects: Effects, update: Mapping[str, Any], metadata: Mapping[str, Any], _: Identifier
) -> None:
    name, snapshot = update.get("ref-name"), update.get("snapshot-id")
    if not isinstance(name, str) or not name or not isinstance(snapshot, int):
        raise bad_request("Cannot parse request: set-snapshot-ref needs ref-name and snapshot-id")
    if name == MAIN:
        effects.main = snapshot
    elif update.get("type") != "tag":
        raise bad_request("Branches of a Lance table are made by a Lance client")
    elif snapshot not in {s["snapshot-id"] for s in metadata.get("snapshots", [])}:
        raise bad_request(f"Cannot set {name} to unknown snapshot: {snapshot}")
    else:
        effects.tags[name] = snapshot


def _remove_ref(
    effects: Effects, update: Mapping[str, Any], metadata: Mapping[str, Any], _: Identifier
) -> None:
    name = update.get("ref-name")
    if name == MAIN:
        raise bad_request("The main branch of a Lance table cannot be removed")
    if not isinstance(name, str) or name not in metadata.get("refs", {}):
        raise bad_request(f"Cannot remove a ref that does not exist: {name}")
    effects.untagged.append(name)


def _remove_snapshots(
    effects: Effects, update: Mapping[str, Any], metadata: Mapping[str, Any], _: Identifier
) -> None:
    found = update.get("snapshot-ids")
    if not isinstance(found, list) or not all(isinstance(number, int) for number in found):
        raise bad_request("Cannot parse request: snapshot-ids is not a list of numbers")
    kept = {ref["snapshot-id"] for ref in metadata.get("refs", {}).values()}
    if kept & set(found):
        raise bad_request("A version that is current or tagged cannot be removed")
    effects.forgotten += found


def _set_properties(
    effects: Effects, update: Mapping[str, Any], _: Mapping[str, Any], __: Identifier
) -> None:
    updates = strings(update.get("updates"), "updates")
    _refuse_reserved(updates)
    effects.updates.update(updates)


def _remove_properties(
    effects: Effects, update: Mapping[str, Any], _: Mapping[str, Any], __: Identifier
) -> None:
    removals = update.get("removals")
    if not isinstance(removals, list) or not all(isinstance(key, str) for key in removals):
        raise bad_request("Cannot parse request: removals is not a list of names")
    _refuse_reserved(removals)
    effects.removals += removals


def _refuse_reserved(names: Any) -> None:
    reserved = sorted(RESERVED_PROPERTIES & set(names))
    if reserved:
        raise bad_request(f"The property {reserved[0]} belongs to the catalog")


def _only_the_same(key: str, ours: str) -> Any:
    def check(_: Effects, update: Mapping[str, Any], metadata: Mapping[str, Any], __: Any) -> None:
        if update.get(key) != metadata.get(ours):
            raise bad_request(f"The {key} of a Lance table cannot be changed")

    return check


def _format_version(_: Effects, update: Mapping[str, Any], __: Any, ___: Any) -> None:
    if update.get("format-version") not in (1, 2):
        raise bad_request("A Lance table is shown in format version 2")


def _no_layout(key: str) -> Any:
    def check(_: Effects, update: Mapping[str, Any], __: Any, ___: Any) -> None:
        given = update.get(key)
        if isinstance(given, dict) and given.get("fields"):
            raise bad_request(f"A Lance table has no {key}")

    return check


_UPDATES: Final[dict[str, Any]] = {
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
    "remove-snapshots": _remove_snapshots,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "assign-uuid": _only_the_same("uuid", "table-uuid"),
    "set-location": _only_the_same("location", "location"),
    "upgrade-format-version": _format_version,
    "add-spec": _no_layout("spec"),
    "set-default-spec": _no_layout("spec"),
    "add-sort-order": _no_layout("sort-order"),
    "set-default-sort-order": _no_layout("sort-order"),
}
