"""The versions a table had at a moment, told by the age of their files where nothing else tells."""

from lakeroot.model.records import TableVersion
from lakeroot.objects import Objects
from lakeroot.tables.versions import parse_manifest_name, versions_directory


def versions_put_before(
    files: Objects, key: str, then_ms: int, branch: str | None = None
) -> dict[int, TableVersion]:
    """Give the versions of a table, or of a branch, whose files are not younger than a moment."""
    found = {}
    for one in files.list_directory(versions_directory(branch)).objects:
        name = parse_manifest_name(one.path.rpartition("/")[2])
        if name is not None and one.modified_ms <= then_ms:
            found[name.version] = TableVersion(
                name.version, f"{key}/{one.path}", one.size, one.e_tag, one.modified_ms
            )
    return found
