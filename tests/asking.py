"""Any Lance namespace, asked in few words: names in, responses out."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lance_namespace as spec
import pyarrow as pa
import pytest
from lance_namespace import LanceNamespace, LanceNamespaceError

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["ann", "bob", "cy"]})


def arrow_stream(table: pa.Table = ROWS) -> bytes:
    """Write rows as a request carries them."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@contextmanager
def refused(*codes: int) -> Iterator[pytest.ExceptionInfo[LanceNamespaceError]]:
    """Expect an error of the specification with one of these codes; raise any other as it is."""
    with pytest.raises(LanceNamespaceError) as caught:
        yield caught
    if caught.value.code not in codes:
        raise caught.value


def code_of(error: LanceNamespaceError) -> int:
    """Give the code of an error as a plain number."""
    return int(error.code)


class Lake:
    """The operations on names of any implementation of the specification."""

    def __init__(self, client: LanceNamespace) -> None:
        self.client: Any = client

    def create_namespace(self, *names: str, **more: Any) -> spec.CreateNamespaceResponse:
        return self.client.create_namespace(spec.CreateNamespaceRequest(id=list(names), **more))

    def describe_namespace(self, *names: str) -> dict[str, str]:
        request = spec.DescribeNamespaceRequest(id=list(names))
        return self.client.describe_namespace(request).properties or {}

    def drop_namespace(self, *names: str, **more: Any) -> spec.DropNamespaceResponse:
        return self.client.drop_namespace(spec.DropNamespaceRequest(id=list(names), **more))

    def namespace_exists(self, *names: str) -> bool:
        try:
            self.client.namespace_exists(spec.NamespaceExistsRequest(id=list(names)))
        except spec.NamespaceNotFoundError:
            return False
        return True

    def namespaces(self, *names: str) -> list[str]:
        return list(self.list_namespaces(*names).namespaces)

    def list_namespaces(self, *names: str, **more: Any) -> spec.ListNamespacesResponse:
        return self.client.list_namespaces(spec.ListNamespacesRequest(id=list(names), **more))

    def declare_table(self, *names: str, **more: Any) -> spec.DeclareTableResponse:
        return self.client.declare_table(spec.DeclareTableRequest(id=list(names), **more))

    def create_table(
        self, *names: str, rows: pa.Table = ROWS, **more: Any
    ) -> spec.CreateTableResponse:
        request = spec.CreateTableRequest(id=list(names), **more)
        return self.client.create_table(request, arrow_stream(rows))

    def register_table(self, *names: str, location: str, **more: Any) -> spec.RegisterTableResponse:
        request = spec.RegisterTableRequest(id=list(names), location=location, **more)
        return self.client.register_table(request)

    def deregister_table(self, *names: str) -> spec.DeregisterTableResponse:
        return self.client.deregister_table(spec.DeregisterTableRequest(id=list(names)))

    def drop_table(self, *names: str) -> spec.DropTableResponse:
        return self.client.drop_table(spec.DropTableRequest(id=list(names)))

    def rename_table(self, *names: str, to: str, into: list[str] | None = None) -> None:
        request = spec.RenameTableRequest(id=list(names), new_table_name=to, new_namespace_id=into)
        self.client.rename_table(request)

    def describe_table(self, *names: str, **more: Any) -> spec.DescribeTableResponse:
        return self.client.describe_table(spec.DescribeTableRequest(id=list(names), **more))

    def table_exists(self, *names: str, version: int | None = None) -> bool:
        request = spec.TableExistsRequest(id=list(names), version=version)
        try:
            self.client.table_exists(request)
        except (spec.TableNotFoundError, spec.NamespaceNotFoundError):
            return False
        return True

    def tables(self, *names: str) -> list[str]:
        return list(self.list_tables(*names).tables)

    def list_tables(self, *names: str, **more: Any) -> spec.ListTablesResponse:
        return self.client.list_tables(spec.ListTablesRequest(id=list(names), **more))

    def list_all_tables(self, **more: Any) -> spec.ListTablesResponse:
        return self.client.list_all_tables(spec.ListTablesRequest(**more))
