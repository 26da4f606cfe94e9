"""A small catalog that has one of everything a page can show, with names that bite."""

import struct
import zlib
from pathlib import Path

import pyarrow as pa

import lakeroot
from lakeroot.lake import Lake

HOSTILE = "<script>"
HOSTILE_TEXT = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def png(width: int = 24, height: int = 16, shade: int = 120) -> bytes:
    """Make a real image: one colour, in the smallest form of the format."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    line = b"\0" + bytes((shade, 160, 200)) * width
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(line * height))
        + chunk(b"IEND", b"")
    )


def build(root: Path) -> Lake:
    """Fill a directory; its versions are kept by the catalog."""
    lake = lakeroot.open(str(root), table_version_management="true", author="ada")
    lake.create_namespace("air", {"owner": HOSTILE_TEXT})
    lake.create_namespace("air.raw")
    lake.create_namespace("empty")
    lake.create_table("air.flights", _flights(0, 60))
    lake["air.flights"].append(_flights(60, 40))
    lake["air.flights"].delete("id < 5")
    lake["air.flights"].tag("trained-on", 2)
    index = {"id": ["air", "flights"], "column": "id", "index_type": "BTREE", "name": "by_id"}
    lake.namespace.create_table_scalar_index(index)
    lake["air.flights"].append(_flights(100, 5))
    lake.create_table("air.pictures", _pictures())
    with lake.transaction(f"Publish {HOSTILE_TEXT}") as tx:
        tx.create(["air", HOSTILE], pa.table({HOSTILE_TEXT: [HOSTILE_TEXT], "n": [1]}))
        tx.create(["air", "raw", "a.b c"], pa.table({"n": pa.array([], pa.int64())}))
    lake.create_table("air.old", pa.table({"n": [1]}))
    lake.namespace.deregister_table({"id": ["air", "old"]})
    lake.namespace.declare_table({"id": ["air", "declared"]})
    return lake


def _flights(start: int, rows: int) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "origin": ["JFK" if n % 2 else "EWR" for n in numbers],
            "delay": [None if n % 7 == 0 else float(n) for n in numbers],
            "where": [{"lat": 1.0, "names": ["a", "b"]} for _ in numbers],
            "embedding": pa.array(
                [[n * 0.5, -1.0, 2.0] for n in numbers], pa.list_(pa.float32(), 3)
            ),
        }
    )


def _pictures() -> pa.Table:
    return pa.table(
        {
            "name": ["one", "two", "not a picture"],
            "image": pa.array([png(), png(shade=20), b"<svg onload=alert(1)>"], pa.binary()),
        }
    )
