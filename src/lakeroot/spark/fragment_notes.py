"""What a long job has finished, fragment by fragment, kept beside the table until it commits."""

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import lance

from lakeroot.model.errors import ConcurrentModificationError
from lakeroot.spark.catalogs import Located, files_of
from lakeroot.tables.receipts import BACKFILLS
from lakeroot.tables.versions import DATA

_ALIVE: Final = "alive-"


@dataclass(frozen=True, slots=True)
class Finished:
    """What is noted of one input, and the data files that hold its result."""

    note: dict[str, Any]
    written: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FragmentNotes:
    """The notes of one job on one table; a job may be called anything, a directory may not.

    Those of a job that was begun anew lie apart: a task of its first run may still leave one.
    """

    table: Located
    job: str
    run: str = ""

    @property
    def folder(self) -> str:
        """Where everything lies that is noted of the job."""
        return f"{BACKFILLS}/{hashlib.sha256(self.job.encode()).hexdigest()[:32]}"

    @property
    def _of_run(self) -> str:
        return f"{self.folder}/{self.run}" if self.run else self.folder

    def keep(self, key: str, note: dict[str, Any], written: Iterable[str]) -> Finished:
        """Note that the input named by a key is done, and in which data files."""
        done = Finished(note, tuple(written))
        text = json.dumps({"note": done.note, "written": done.written})
        files_of(self.table).put(f"{self._of_run}/{key}.json", text.encode())
        return done

    def go_on(self) -> dict[str, Finished]:
        """Read what is finished, and let nobody take the job for dead from now on.

        A job that has left nothing for days is garbage. So it leaves a sign before it looks what is
        there, under a new name: the old ones may be about to go.
        """
        sign = f"{self.folder}/{_ALIVE}{uuid.uuid4().hex}.json"
        files_of(self.table).put(sign, b"{}")
        return self.read()

    def read(self) -> dict[str, Finished]:
        """Read what this and earlier runs of the job have finished, by key.

        A cleanup of the table deletes files that no version names once they are some days old.
        What is gone has to be done again.
        """
        files = files_of(self.table)
        noted = {}
        for info in files.list(f"{self._of_run}/"):
            name = info.path.rpartition("/")[2]
            text = None if name.startswith(_ALIVE) else files.get(info.path)
            if text is not None:
                found = json.loads(text)
                done = Finished(found["note"], tuple(found["written"]))
                noted[name.removesuffix(".json")] = done
        there = set(files.list_names(DATA)) if noted else set()
        return {key: done for key, done in noted.items() if there.issuperset(done.written)}

    def require(self, finished: Iterable[Finished]) -> None:
        """Refuse to commit files that a cleanup has deleted since they were seen."""
        there = set(files_of(self.table).list_names(DATA))
        gone = sorted({name for done in finished for name in done.written} - there)
        if gone:
            raise ConcurrentModificationError(
                f"Files of an unfinished job on table {self.table.ref} were deleted while it ran",
                f"{len(gone)} of them are gone, {gone[0]} for one",
                "Run it again: what is gone is computed again",
            )

    def forget(self) -> None:
        """Remove everything that is noted of the job."""
        files_of(self.table).delete_directory(self.folder)


def key_of(*facts: Any) -> str:
    """Name an input by everything its result depends on."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def columns_of(dataset: lance.LanceDataset, names: Iterable[str] | None = None) -> list[Any]:
    """Describe columns for a key: under a name, another may have taken the place of one."""
    chosen = None if names is None else set(names)
    return [
        [field.name(), field.id(), str(dataset.schema.field(field.name()).type)]
        for field in dataset.lance_schema.fields()
        if chosen is None or field.name() in chosen
    ]
