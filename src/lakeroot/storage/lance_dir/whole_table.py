"""The ``__manifest`` table as a whole, through pylance: for versions we do not edit by hand."""

from typing import Any, Final

from lakeroot.model.errors import (
    PermissionDeniedError,
    ServiceUnavailableError,
    ThrottlingError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from lakeroot.storage.lance_dir.threads import on_own_thread

_NOT_OF_THE_FILES: Final = (
    PermissionDeniedError,
    ServiceUnavailableError,
    ThrottlingError,
    UnauthenticatedError,
)


class WholeTable:
    """The ``__manifest`` table read and written by pylance, for versions we do not edit."""

    def __init__(self, uri: str, storage_options: dict[str, str]) -> None:
        self._uri = uri
        self._storage_options = storage_options

    def read(self, version: int) -> Any:
        """Read every row of a version, with columns we do not know."""
        try:
            return on_own_thread(lambda: self._open(version).to_table())
        except OSError as error:
            from lakeroot.tables.faults import translation

            # A storage that does not answer, or refuses, says nothing of the files.
            known = translation(error, "Reading the catalog")
            if isinstance(known, _NOT_OF_THE_FILES):
                raise known from error
            raise

    def _open(self, version: int) -> Any:
        import lance

        return lance.dataset(self._uri, version=version, storage_options=self._storage_options)

    def build_index(self, column: str, kind: str, name: str) -> None:
        """Build an index over the newest version, in place of the one of this name."""
        on_own_thread(self._build_index, column, kind, name)

    def _build_index(self, column: str, kind: str, name: str) -> None:
        import lance

        dataset = lance.dataset(self._uri, storage_options=self._storage_options)
        dataset.create_scalar_index(column, kind, name=name, replace=True)

    def rewrite(self, version: int, removed: set[str], rows: Any) -> bool:
        """Commit the version after this one with some rows less and some more; all or nothing.

        Tells whether it did; it does not if somebody else committed that version first.
        """
        return on_own_thread(self._rewrite, version, removed, rows)

    def _rewrite(self, version: int, removed: set[str], rows: Any) -> bool:
        import lance
        import pyarrow as pa
        import pyarrow.compute as pc
        from lance.commit import CommitConflictError
        from lance.fragment import write_fragments

        dataset = self._open(version)
        kept = dataset.to_table()
        kept = kept.filter(
            pc.invert(pc.is_in(kept.column("object_id"), pa.array(sorted(removed), pa.string())))
        )
        try:
            table = pa.concat_tables([kept, rows], promote_options="default").cast(dataset.schema)
        except ValueError as error:
            raise UnsupportedOperationError(
                "This catalog cannot be changed",
                f"its `__manifest` table has columns that we cannot fill: {error}",
                "Upgrade Lakeroot",
            ) from error
        fragments = write_fragments(
            table,
            self._uri,
            schema=dataset.schema,
            mode="overwrite",
            storage_options=self._storage_options,
        )
        operation = lance.LanceOperation.Overwrite(dataset.schema, fragments)
        try:
            lance.LanceDataset.commit(
                self._uri,
                operation,
                read_version=version,
                max_retries=0,
                storage_options=self._storage_options,
            )
        except CommitConflictError:
            return False
        return True
