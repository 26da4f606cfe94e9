"""Looking at directories one by one, here or in another process."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakeroot.model.progress import each
from lakeroot.objects import Below, Objects
from lakeroot.storage.lance_dir.checking.findings import Finding
from lakeroot.storage.lance_dir.checking.leftovers import examine_leftovers, needed_of
from lakeroot.storage.lance_dir.checking.places import examine_owned, examine_unowned
from lakeroot.storage.lance_dir.checking.survey import Look, Rows, is_flat_table, list_all
from lakeroot.storage.lance_dir.checking.tables import Files, examine_table
from lakeroot.storage.lance_dir.checking.versions import examine_versions


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen in a directory."""

    place: list[Finding]
    """What is to be said of a directory without a row, unless it has one by now."""
    table: list[Finding]
    is_table: bool
    youngest_ms: int


@dataclass(frozen=True, slots=True)
class Looking:
    """Lists directories and looks at them; it pickles."""

    rows: Rows
    objects: Objects = field(repr=False)
    cutoff_ms: int
    manages_versions: bool
    has_manifest: bool

    def __call__(self, looks: Sequence[Look]) -> list[Looked]:
        """Look at some directories."""
        files = list_all(self.objects, (look.location for look in looks))
        return [self._look(look, files[look.location]) for look in each(looks, "Checking tables")]

    def _look(self, look: Look, files: Files) -> Looked:
        is_table = look.has_row or (bool(look.identifier) and is_flat_table(files))
        return Looked(
            [] if look.has_row else list(self._place(look.location, files)),
            list(self._table(look, files)) if is_table else [],
            is_table,
            max((info.modified_ms for info in files.values()), default=0),
        )

    def _place(self, location: str, files: Files) -> Iterator[Finding]:
        return examine_unowned(
            location, files, self.objects, self.cutoff_ms, has_manifest=self.has_manifest
        )

    def _table(self, look: Look, files: Files) -> Iterator[Finding]:
        identifier, location, kept = look.identifier, look.location, look.kept
        if look.has_row and (files or self.rows.has_owner_now(location)):
            yield from examine_owned(identifier, location, files, self.cutoff_ms)
        if files:
            below = Below(self.objects, location)
            yield from examine_table(identifier, location, files, below)
            if self.manages_versions:
                yield from examine_versions(
                    identifier, location, files, below, kept, self.rows.kept_now
                )
        yield from examine_leftovers(location, files, needed_of(kept, files), self.cutoff_ms)
