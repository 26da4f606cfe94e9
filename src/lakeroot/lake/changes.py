"""What differs between two states of a catalog."""

from typing import Any

from msgspec import Struct

from lakeroot.lake.calls import Calls
from lakeroot.lake.display import html_table


class Diff(Struct, frozen=True):
    """Names that are only in the one or the other, and tables whose version differs."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[tuple[str, int | None, int | None], ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str]] = [("added", name) for name in self.added]
        rows += [("removed", name) for name in self.removed]
        rows += [("changed", f"{name}: {old} → {new}") for name, old, new in self.changed]
        return html_table(["what", "object"], rows)


def diff_of(before: Any, after: Any) -> Diff:
    """Compare two lakes: namespaces, tables, and where known the versions of tables."""
    old, new = _objects(before), _objects(after)
    both = sorted(old.keys() & new.keys())
    return Diff(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple((name, old[name], new[name]) for name in both if old[name] != new[name]),
    )


def _objects(lake: Any) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    pending = [""]
    while pending:
        parent = pending.pop()
        for name in lake.namespaces(parent):
            found[f"{name}.*"] = None
            pending.append(name)
    for name in lake.tables():
        found[name] = _version(lake, name)
    return found


def _version(lake: Any, name: str) -> int | None:
    table = lake[name]
    request = {"id": table.id, "load_detailed_metadata": False}
    described = Calls(lake.namespace).describe_table(request)
    if described.version is not None or not described.managed_versioning:
        return described.version  # type: ignore[no-any-return]
    versions = table.versions()
    return versions[0]["version"] if versions else None
