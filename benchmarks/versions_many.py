"""A table with thousands of versions: create the next one, describe one, find the newest."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lance
from lance_namespace import ListTableVersionsRequest

from benchmarks import catalogs
from benchmarks.manifests import renumbered, table_of_versions
from benchmarks.report import Row, asking, interleaved
from lakeroot import DirectoryNamespace
from lakeroot.tables.versions import NamingScheme, manifest_name, staging_name

TITLE = "Versions of one table"
PEER = catalogs.PEER
NAME = ["t"]
MANY = 3_000


def run(*, quick: bool) -> Iterable[Row]:
    with tempfile.TemporaryDirectory(prefix="lakeroot-bench-") as place:
        for versions in (300,) if quick else (300, MANY):
            yield from _of_table(Path(place), versions, rounds=10 if quick else 20)


def _of_table(place: Path, versions: int, rounds: int) -> Iterable[Row]:
    template = place / f"template{versions}"
    table_of_versions(template, versions)
    for decides, manages in (("files decide", "false"), ("catalog decides", "true")):
        roots = [place / f"{side}-{versions}-{manages}" for side in ("ours", "theirs")]
        for root in roots:
            shutil.copytree(template, root)
        ours = DirectoryNamespace(root=str(roots[0]))
        if manages == "true":
            ours.enable_version_management()
        peer = lance.namespace.DirectoryNamespace(
            root=str(roots[1]), table_version_tracking_enabled="true"
        )
        yield from _measured((ours, peer), roots, versions, decides, rounds)


def _measured(
    sides: tuple[Any, Any], roots: list[Path], versions: int, decides: str, rounds: int
) -> Iterable[Row]:
    size = f"{versions:,} versions"
    some: list[Any] = [{"id": NAME, "version": 1 + n * 7 % versions} for n in range(200)]
    newest = [ListTableVersionsRequest(id=NAME, limit=1, descending=True)]
    everything = [ListTableVersionsRequest(id=NAME)]
    bar = 10.0 if versions >= MANY else None
    for what, operation, requests, required in (
        ("describe_table_version", "describe_table_version", some, bar),
        ("list_table_versions, newest", "list_table_versions", newest, bar),
        ("list_table_versions, all", "list_table_versions", everything, None),
    ):
        calls = [asking(getattr(side, operation), requests) for side in sides]
        taken = interleaved(calls[0], calls[1], rounds=rounds, calls=(5, 1))
        yield Row(f"{what}, {decides}", size, *taken, unit="ms", bar=required)
    staged = [_staged(root, versions, rounds) for root in roots]
    created = [
        asking(side.create_table_version, requests)
        for side, requests in zip(sides, staged, strict=True)
    ]
    taken = interleaved(created[0], created[1], rounds=rounds)
    yield Row(f"create_table_version, {decides}", size, *taken, unit="ms", bar=bar)


def _staged(root: Path, versions: int, count: int) -> list[dict[str, Any]]:
    """Stage the versions that come next, so that only their commits are measured."""
    directory = root / "t.lance" / "_versions"
    content = (directory / manifest_name(versions)).read_bytes()
    requests = []
    for version in range(versions + 1, versions + 1 + count):
        file = directory / staging_name(version, NamingScheme.V2, "next")
        file.write_bytes(renumbered(content, version))
        requests.append({"id": NAME, "version": version, "manifest_path": str(file).lstrip("/")})
    return requests
