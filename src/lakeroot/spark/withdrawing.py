"""Take back the name of a table that a failed job has reserved and not written."""

from lakeroot.spark.catalogs import TableRef, locate


def withdraw(ref: TableRef) -> None:
    """Take a declaration of ours back; another job may be writing to the table by now.

    Where that fails, or files are there, the name stays: the job's own error is the one to report.
    """
    if ref.catalog is None:
        return
    # Here, because tasks have this at hand in case they fail, and few of them do.
    from lance_namespace import DropTableRequest

    from lakeroot.namespace.base import LakerootNamespace

    try:
        client = ref.catalog.connect()
        if isinstance(client, LakerootNamespace):
            client.catalog.withdraw_table(client.catalog.table(ref.identifier))
        elif locate(ref).only_declared:
            client.drop_table(DropTableRequest(id=list(ref.identifier)))
    except Exception:  # noqa: BLE001
        return
