"""One table of a catalog, in the hand."""

from collections.abc import Sequence
from typing import Any

import lance
import pyarrow as pa
from lance_namespace import LanceNamespace

from lakeroot.lake.calls import Calls
from lakeroot.lake.display import html_table
from lakeroot.model.errors import (
    TableNotFoundError,
    TableVersionNotFoundError,
)
from lakeroot.model.identifiers import Identifier, show
from lakeroot.tables.arrow import ArrowData, table_of
from lakeroot.tables.expressions import whole_or_none
from lakeroot.tables.faults import translated
from lakeroot.tables.made import transaction_of


class LakeTable:
    """A table by its name: look at it, change it, search it, pin it."""

    def __init__(self, namespace: LanceNamespace, identifier: Identifier) -> None:
        self._namespace = namespace
        self._calls = Calls(namespace)
        self.identifier = identifier

    @property
    def name(self) -> str:
        """The name as a person writes it: ``air.flights``."""
        return show(self.identifier)

    @property
    def id(self) -> list[str]:
        """The name as the Lance ecosystem writes it."""
        return list(self.identifier)

    def dataset(self, version: int | str | None = None) -> lance.LanceDataset:
        """Open the table with pylance, at its newest version, a number or a tag."""
        try:
            return self._opened(version)
        except TableNotFoundError as error:
            # Lance misses the file of a version that is not there, and says so of the table.
            if not isinstance(version, int):
                raise
            newest = self._opened(None).version
            raise TableVersionNotFoundError(
                f"{self.name} has no version {version}",
                f"its newest is {newest}; old ones may have been cleaned up",
                "List the versions of the table to see those it has",
            ) from error

    def _opened(self, version: int | str | None) -> lance.LanceDataset:
        with translated("Opening the table"):
            return lance.dataset(
                namespace_client=self._namespace, table_id=self.id, version=version
            )

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return self.dataset().schema

    @property
    def version(self) -> int:
        """The newest version."""
        return int(self.dataset().version)

    def versions(self) -> list[dict[str, Any]]:
        """List the versions, the newest first."""
        found = self._calls.list_table_versions({"id": self.id, "descending": True})
        listed = found["versions"] if isinstance(found, dict) else found.model_dump()["versions"]
        return [dict(one) for one in listed]

    def origin(self, version: int | None = None) -> dict[str, str]:
        """Tell what its writer has said of a version, the newest or another: the run, its sources.

        It is kept in the transaction behind the version, which goes when old versions are cleaned
        up; there may be none.
        """
        dataset = self.dataset(version)
        with translated("Reading the transaction"):
            made = transaction_of(dataset, dataset.version)
        if made is None:
            return {}
        what = type(made.operation).__name__.lower()
        return {"operation": what, **(made.transaction_properties or {})}

    def count(self, where: str | None = None, version: int | str | None = None) -> int:
        """Count rows."""
        with translated("Counting rows"):
            return int(self.dataset(version).count_rows(whole_or_none(where)))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        version: int | str | None = None,
    ) -> pa.Table:
        """Read rows as an Arrow table."""
        wanted = list(columns) if columns is not None else None
        with translated("Reading the table"):
            return self.dataset(version).to_table(
                columns=wanted, filter=whole_or_none(where), limit=limit
            )

    def to_pandas(self, **options: Any) -> Any:
        """Read rows as a pandas frame; takes what `to_arrow` takes."""
        return self.to_arrow(**options).to_pandas()

    def head(self, rows: int = 10) -> pa.Table:
        """Read the first rows."""
        return self.to_arrow(limit=rows)

    def append(self, data: Any) -> int:
        """Append rows; give the new version."""
        return self._insert(data, "append")

    def overwrite(self, data: Any) -> int:
        """Put rows in place of all rows; give the new version."""
        return self._insert(data, "overwrite")

    def _insert(self, data: Any, mode: str) -> int:
        done = self._calls.insert_into_table({"id": self.id, "mode": mode}, ipc(data))
        return int(done.version or 0)

    def merge(self, data: Any, on: str | Sequence[str]) -> int:
        """Update the rows whose keys match, insert the others; give the new version."""
        keys = [on] if isinstance(on, str) else list(on)
        done = self._calls.merge_insert_into_table(
            {
                "id": self.id,
                "on": keys,
                "when_matched_update_all": True,
                "when_not_matched_insert_all": True,
            },
            ipc(data),
        )
        return int(done.version or 0)

    def delete(self, where: str) -> int:
        """Delete the rows a predicate keeps; give the new version."""
        done = self._calls.delete_from_table({"id": self.id, "predicate": where})
        return int(done.version or 0)

    def update(self, values: dict[str, str], where: str | None = None) -> int:
        """Set columns to the values of SQL expressions; give the new version."""
        updates = [[column, expression] for column, expression in values.items()]
        done = self._calls.update_table({"id": self.id, "updates": updates, "predicate": where})
        return int(done.version)

    def search(
        self, query: str | Sequence[float], k: int = 10, column: str | None = None
    ) -> pa.Table:
        """Find the rows nearest to a vector, or the best matches of a text."""
        request: dict[str, Any] = {"id": self.id, "k": k, "vector": {}}
        if isinstance(query, str):
            text: dict[str, Any] = {"query": query}
            if column is not None:
                text["columns"] = [column]
            request["full_text_query"] = {"string_query": text}
        else:
            request["vector"] = {"single_vector": [float(value) for value in query]}
            request["vector_column"] = column
        answer = self._calls.query_table(request)
        content = answer if isinstance(answer, bytes) else answer.data
        return pa.ipc.open_file(content).read_all()

    def tag(self, name: str, version: int | None = None) -> None:
        """Give a version a name, the newest unless one is said."""
        self._calls.create_table_tag(
            {"id": self.id, "tag": name, "version": self.version if version is None else version}
        )

    def tags(self) -> dict[str, int]:
        """List the tags and the versions they name."""
        found = self._calls.list_table_tags({"id": self.id})
        return {name: int(tag.version) for name, tag in found.tags.items()}

    def restore(self, version: int) -> None:
        """Make an older version the newest, as a new version."""
        self._calls.restore_table({"id": self.id, "version": version})

    def __len__(self) -> int:
        return self.count()

    def __repr__(self) -> str:
        return f"<LakeTable {self.name}>"

    def _repr_html_(self) -> str:
        rows = self.head(5)
        fields = [(field.name, str(field.type)) for field in self.schema]
        return (
            f"<h4>{show(self.identifier)}</h4>"
            + html_table(["column", "type"], fields)
            + html_table(rows.column_names, [list(row.values()) for row in rows.to_pylist()])
        )


def ipc(data: Any) -> bytes:
    """Write rows as the Arrow bytes that the Lance namespace takes."""
    if isinstance(data, bytes):
        return data
    reader = ArrowData(table_of(data)).reader()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content
