"""Listing the root in compatibility mode, where every table is also a directory."""

from collections.abc import Iterable
from pathlib import Path

from lance_namespace import DescribeTableRequest, ListTablesRequest, TableExistsRequest

from benchmarks import catalogs
from benchmarks.catalogs import catalog, ours_at, peer_at
from benchmarks.report import Row, asking, interleaved, size_label

TITLE = "Root tables in compatibility mode"
PEER = catalogs.PEER
BOTH = {"dir_listing_enabled": "true"}


def run(*, quick: bool) -> Iterable[Row]:
    for tables in (100,) if quick else (100, 1_000, 10_000):
        with catalog(0) as root:
            ours_at(root, **BOTH).declare_tables([[f"table{n:05d}"] for n in range(tables)])
            yield from _listings(root, tables, "declared in the manifest", rounds=5)
        with catalog(0) as root:
            for number in range(tables):
                # Tables that V1 clients made, without a row: each one has to be looked at.
                versions = root / f"table{number:05d}.lance" / "_versions"
                versions.mkdir(parents=True)
                (versions / "18446744073709551614.manifest").write_bytes(b"")
            yield from _listings(root, tables, "directories only", rounds=5)


def _listings(root: Path, tables: int, what: str, rounds: int) -> Iterable[Row]:
    ours, peer = ours_at(root, **BOTH), peer_at(root, **BOTH)
    bar = 10.0 if tables == 10_000 else None
    for label, limit in (("all", None), ("page of 10", 10)):
        request = ListTablesRequest(id=[], limit=limit)
        assert len(ours.list_tables(request).tables) == len(peer.list_tables(request).tables)
        taken = interleaved(
            asking(ours.list_tables, [request]), asking(peer.list_tables, [request]), rounds=rounds
        )
        yield Row(f"list_tables ({label}), {what}", size_label(tables), *taken, unit="ms", bar=bar)
    for name, kind in (
        ("describe_table", DescribeTableRequest),
        ("table_exists", TableExistsRequest),
    ):
        requests = [kind(id=[f"table{n:05d}"]) for n in range(100)]
        taken = interleaved(
            asking(getattr(ours, name), requests),
            asking(getattr(peer, name), requests),
            rounds=rounds * 4,
            calls=(20, 20),
        )
        yield Row(
            f"{name}, {what}",
            size_label(tables),
            *taken,
            unit="ms",
            note="the peer does not look at the manifest here",
        )
