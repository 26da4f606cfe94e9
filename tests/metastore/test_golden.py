"""A catalog that released deltacat wrote is read right, at every step of its history."""

from pathlib import Path
from typing import Any

import msgpack

from lakeroot.metastore import Layout, Metastore
from lakeroot.metastore.view import View, directory_of


def ends(root: Path) -> dict[str, int]:
    return {path.parent.name: int(path.name) for path in root.glob("txn/success/*/*/*/*/*/*/*")}


def oracle(root: Path, before: int) -> dict[str, dict[str, Any]]:
    """What is alive before a time, worked out from nothing but the names of the files."""
    committed = {txn for txn, end in ends(root).items() if end < before}
    newest: dict[str, Path] = {}
    for path in sorted(root.rglob("rev/*/*/*.mpk"), key=lambda path: path.name):
        if "_".join(path.stem.split("_")[2:]) in committed:
            newest[str(path.parents[3].relative_to(root))] = path
    alive = {where: path for where, path in newest.items() if "_delete_" not in path.name}
    return {
        where: msgpack.unpackb(path.read_bytes(), strict_map_key=False)
        for where, path in alive.items()
        if all(str(above) in alive for above in list(Path(where).parents)[:-1])
    }


def everything(view: View) -> set[str]:
    found = set()
    for namespace in view.namespaces():
        found.add(directory_of(namespace))
        for table in view.tables(namespace.name):
            found.add(directory_of(table))
            pending = list(view.children(table))
            while pending:
                record = pending.pop()
                found.add(directory_of(record))
                pending.extend(view.children(record))
    return found


def test_every_step_of_its_history_can_be_visited(golden: Path) -> None:
    metastore = Metastore.open(str(golden), read_only=True)
    moments = sorted(ends(golden).values())
    sizes = []
    for moment in moments:
        expected = oracle(golden, moment + 1)
        view = metastore.view(as_of=moment + 1)

        assert everything(view) == set(expected)
        names = {
            record["namespaceLocator"]["namespace"]
            for record in expected.values()
            if "namespaceLocator" in record
        }
        assert {namespace.name for namespace in view.namespaces()} == names
        sizes.append(len(expected))
    assert len(moments) == 28
    assert sizes[-1] > 30


def test_a_transaction_names_the_state_it_left(golden: Path) -> None:
    metastore = Metastore.open(str(golden), read_only=True)
    for txn_id, end in ends(golden).items():
        assert everything(metastore.view(txn_id)) == everything(metastore.view(end + 1))


def test_it_is_recognised_and_not_touched_by_reading(golden: Path) -> None:
    before = {path for path in golden.rglob("*") if path.is_file()}
    metastore = Metastore.open(str(golden))
    everything(metastore.view())

    assert metastore.layout is Layout.DELTACAT_2
    assert {path for path in golden.rglob("*") if path.is_file()} == before


def test_names_lead_to_tables_through_renames_and_drops(golden: Path) -> None:
    view = Metastore.open(str(golden), read_only=True).view()

    assert [namespace.name for namespace in view.namespaces()] == [
        "default",
        "sales",
        "weird/ns name|with|pipes é",
    ]
    tables = [table.name for table in view.tables("sales")]
    assert tables == ["events", "orders", "raw", "t_in_txn_2", "t_renamed", "users"]
    assert view.table("weird/ns name|with|pipes é", "tbl/with slash|pipe").name
    for dead in ("ns_paused", "ns_died", "tmp_ns", "tmp_ns2"):
        assert view.find_namespace(dead) is None
    assert view.find_table("sales", "t_never") is None


def test_a_table_whose_active_version_was_lost_is_still_readable(golden: Path) -> None:
    view = Metastore.open(str(golden), read_only=True).view()

    assert view.table("sales", "events").latest_active_table_version is None
    assert view.table_version("sales", "events").id == "1"


def test_its_deltas_and_schemas_are_decoded(golden: Path) -> None:
    view = Metastore.open(str(golden), read_only=True).view()
    users = view.table_version("sales", "users")
    partition = view.find_partition(view.stream("sales", "users"))
    assert users.schema is not None
    assert partition is not None
    deltas = view.deltas(partition)

    assert users.schema.merge_keys == ("pk",)
    assert [delta.type for delta in deltas] == ["append"]
    assert deltas[0].manifest is not None
    for entry in deltas[0].manifest.entries:
        assert (golden / entry.url).is_file()
    assert partition.compaction_round_completion_info is not None


def test_its_history_tells_messages_and_counts(golden: Path) -> None:
    metastore = Metastore.open(str(golden), read_only=True)
    history = list(metastore.transactions())

    assert len(history) == 28
    both = next(record for record in history if record.message == "create two tables atomically")
    assert both.objects == {"table": 2, "table_version": 2, "stream": 2}
    assert [r.message for r in metastore.transactions(status="paused")] == ["paused one"]
    assert [r.message for r in metastore.transactions(status="running")] == ["died"]
    assert len(list(metastore.transactions(status="failed"))) == 1


def test_it_can_be_written_and_its_past_stays_visible(golden: Path) -> None:
    metastore = Metastore.open(str(golden))
    moments = sorted(ends(golden).values())
    expected = [set(oracle(golden, moment + 1)) for moment in moments]
    with metastore.transaction("ours") as txn:
        txn.update_namespace("sales", new_name="shop")
        txn.update_table("shop", "orders", new_name="purchases")
        txn.create_table("shop", "more")
    reopened = Metastore.open(str(golden))

    assert (
        reopened.view().table("shop", "purchases").id
        == reopened.view(moments[-1] + 1).table("sales", "orders").id
    )
    assert reopened.view().find_namespace("sales") is None
    assert [everything(reopened.view(moment + 1)) for moment in moments] == expected
    assert next(reopened.transactions()).message == "ours"
