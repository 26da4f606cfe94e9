"""What is read out of the manifest of any table, whole or damaged."""

from pathlib import Path

import lance
import pyarrow as pa

from lakeroot.storage.lance_dir.manifest_facts import message_in


def test_a_damaged_message_is_no_message(tmp_path: Path) -> None:
    table = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"x": [1]}), table, commit_message="the first rows")
    (manifest,) = (tmp_path / "t.lance" / "_versions").glob("*.manifest")
    content = manifest.read_bytes()
    assert message_in(content) == "the first rows"

    found = {
        message_in(content[:at] + b"\xff" + content[at + 1 :]) for at in range(len(content) - 16)
    }

    assert all(isinstance(one, str) for one in found)
    assert "" in found
