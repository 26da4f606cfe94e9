"""The transaction behind a version can be read, whatever it was."""

from pathlib import Path

import lance
import pyarrow as pa

from lakeroot.tables.made import transaction_of


def test_a_compaction_that_took_an_index_along_can_be_read(tmp_path: Path) -> None:
    place = str(tmp_path / "t.lance")
    for start in (0, 10, 20):
        lance.write_dataset(pa.table({"id": range(start, start + 10)}), place, mode="append")
    table = lance.dataset(place)
    table.create_scalar_index("id", "BTREE")
    table.optimize.compact_files()

    found = [transaction_of(table, version) for version in range(1, table.version + 1)]

    assert [type(one.operation).__name__ for one in found if one is not None][-1] == "Rewrite"
    assert all(one is None or one.uuid for one in found)
