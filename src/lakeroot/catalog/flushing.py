"""Waiting until the manifests that the catalog is about to name are on the disk."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from lakeroot.catalog.staged_versions import Placed
from lakeroot.catalog.version_files import VersionFiles
from lakeroot.model.commits import Change, PointTableVersions
from lakeroot.model.identifiers import Identifier
from lakeroot.objects import flush_together
from lakeroot.objects.disks import MANY


class Flushing:
    """Staged manifests on their way to the disk.

    Those who wrote them did not wait: whatever says that there is a version must not outlive a
    power failure that its manifest does not. For many, the disk works while the manifests are read
    and the commit is planned.
    """

    def __init__(self, placed: Sequence[Placed]) -> None:
        self._files: dict[Identifier, VersionFiles] = {
            one.table.identifier: one.files for one in placed
        }
        self._named = [one.files.object(one.manifest.path) for one in placed]
        self._begun: Future[None] | None = None
        if len(placed) >= MANY and self._named[0][0].is_waited_for:
            pool = ThreadPoolExecutor(1)
            self._begun = pool.submit(flush_together, self._named)
            self._named = []
            pool.shutdown(wait=False)

    def wait(self, changes: Sequence[Change]) -> None:
        """Wait for the staged manifests, and for those that changes point to."""
        named, self._named = self._named, []
        for change in changes:
            if isinstance(change, PointTableVersions) and change.identifier in self._files:
                own = self._files[change.identifier]
                paths = (own.relative(version.manifest_path) for version in change.versions)
                named += map(own.object, paths)
        # The commit that waits for them is put on the disk after them.
        flush_together(named, are_named_later=True)
        if self._begun is not None:
            self._begun.result()
