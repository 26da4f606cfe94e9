"""Released deltacat behind a line protocol; it runs in its own environment (Python 3.10).

Each line of standard input is a JSON request ``[verb, arguments]``; each answer is one JSON line
that starts with ``@``: everything else on standard output is deltacat's and Ray's own talk.
"""

import json
import sys

import deltacat as dc
import pyarrow as pa
from deltacat import DatasetType, Field, Schema, TableWriteMode


def namespaces():
    return sorted(namespace.namespace for namespace in dc.list_namespaces().all_items())


def tables(namespace):
    return sorted(
        found.table.table_name for found in dc.list_tables(namespace=namespace).all_items()
    )


def read(namespace, table):
    found = dc.read(table, namespace=namespace, read_as=DatasetType.PYARROW)
    return found.to_pylist()


def sums(namespace, table, column):
    """Add up a column as each of deltacat's readers reads it."""
    found = {}
    for kind in (DatasetType.PYARROW, DatasetType.DAFT, DatasetType.PANDAS, DatasetType.POLARS):
        rows = dc.read(table, namespace=namespace, read_as=kind)
        rows = rows.to_arrow() if hasattr(rows, "to_arrow") else pa.table(rows)
        found[kind.value] = sum(rows[column].to_pylist())
    return found


def write(namespace, table, rows, mode):
    data = pa.Table.from_pylist(rows)
    dc.write(data, table, namespace=namespace, mode=TableWriteMode(mode))


def schema_of(arrow, keys):
    return Schema.of([Field.of(field, is_merge_key=field.name in keys) for field in arrow])


def create_keyed(namespace, table, rows, keys):
    schema = schema_of(pa.Table.from_pylist(rows).schema, keys)
    dc.create_table(table, namespace=namespace, schema=schema, auto_create_namespace=True)


def create_namespace(name, properties):
    dc.create_namespace(name, properties=properties)


def rename_table(namespace, table, new_name):
    dc.rename_table(table, new_name, namespace=namespace)


def rename_namespace(name, new_name):
    dc.alter_namespace(name, new_namespace=new_name)


def drop_table(namespace, table):
    dc.drop_table(table, namespace=namespace)


def messages():
    found = dc.transactions(read_as=DatasetType.PYARROW, limit=None)
    return found["commit_message"].to_pylist()


def bench(namespace, table, verb, count):
    """Time one write of generated rows, in seconds."""
    import time

    ids = list(range(1 if verb in ("create", "read", "get_table", "list_tables") else count))
    rows = pa.table({"id": ids, "name": [f"name-{i}" for i in ids], "x": [i / 7 for i in ids]})
    if verb == "create":
        schema = schema_of(rows.schema, ["id"] if table.startswith("keyed") else [])
        dc.create_table(table, namespace=namespace, schema=schema, auto_create_namespace=True)
        return 0
    start = time.perf_counter()
    if verb == "read":
        dc.read(table, namespace=namespace, read_as=DatasetType.PYARROW)
    elif verb == "get_table":
        dc.get_table(table, namespace=namespace)
    elif verb == "list_tables":
        list(dc.list_tables(namespace=namespace).all_items())
    else:
        dc.write(rows, table, namespace=namespace, mode=TableWriteMode(verb))
    return time.perf_counter() - start


VERBS = {
    function.__name__: function
    for function in (
        namespaces,
        tables,
        read,
        sums,
        write,
        create_keyed,
        create_namespace,
        rename_table,
        rename_namespace,
        drop_table,
        messages,
        bench,
    )
}


def say(answer):
    sys.stdout.write("@" + json.dumps(answer) + "\n")
    sys.stdout.flush()


def main():
    options = {"include_dashboard": False, "num_cpus": 2, "log_to_driver": False}
    dc.init_local(sys.argv[1], ray_init_args=options)
    say({"ready": True})
    for line in sys.stdin:
        verb, arguments = json.loads(line)
        try:
            answer = {"value": VERBS[verb](*arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        say(answer)


main()
