"""Waiting until the manifests that the catalog is about to name are on the disk."""

from collections.abc import Sequence

from lakeroot.catalog.staged_versions import Staged
from lakeroot.model.commits import Change, PointTableVersions
from lakeroot.objects import flush_together


def flush_manifests(staged: Sequence[Staged], changes: Sequence[Change]) -> None:
    """Wait for staged manifests, and for those that changes point to.

    Those who wrote them did not wait: whatever says that there is a version must not outlive a
    power failure that its manifest does not.
    """
    files = {one.table.identifier: one.files for one in staged}
    named = [one.files.object(one.manifest.path) for one in staged]
    for change in changes:
        if isinstance(change, PointTableVersions) and change.identifier in files:
            own = files[change.identifier]
            paths = (own.relative(version.manifest_path) for version in change.versions)
            named += map(own.object, paths)
    # The commit that waits for them is put on the disk after them.
    flush_together(named, are_named_later=True)
