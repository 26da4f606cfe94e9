"""What a long job has finished, fragment by fragment, kept beside the table until it commits."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from lakeroot.spark.catalogs import Located
from lakeroot.spark.commits import files_of

NOTES = "_lakeroot/backfills"


@dataclass(frozen=True, slots=True)
class FragmentNotes:
    """The notes of one job on one table; a job may be called anything, a directory may not."""

    table: Located
    job: str

    @property
    def _folder(self) -> str:
        return f"{NOTES}/{hashlib.sha256(self.job.encode()).hexdigest()[:32]}"

    def keep(self, key: str, note: dict[str, Any]) -> None:
        """Note that the input named by a key is done."""
        files_of(self.table).put(f"{self._folder}/{key}.json", json.dumps(note).encode())

    def read(self) -> dict[str, dict[str, Any]]:
        """Read what this and earlier runs of the job have finished, by key."""
        files = files_of(self.table)
        found = {}
        for info in files.list(f"{self._folder}/"):
            text = files.get(info.path)
            if text is not None:
                found[info.path.rpartition("/")[2].removesuffix(".json")] = json.loads(text)
        return found

    def forget(self) -> None:
        """Remove the notes of a job that is committed."""
        files_of(self.table).delete_directory(self._folder)


def key_of(*facts: Any) -> str:
    """Name an input by everything its result depends on."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
