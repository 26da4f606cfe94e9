"""The core modules, and the tests that are quick enough to be run for each mistake in them."""

from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src"
ARTIFACTS = PROJECT / "artifacts"

CORE = {
    "model": ("identifiers", "rules"),
    "catalog": ("batches", "catalog", "paging", "turns", "version_commits", "versions"),
    "storage.lance_dir": (
        "commits",
        "flat_commits",
        "history",
        "index",
        "manifest_table",
        "markers",
        "placement",
        "rows",
        "small_file",
        "state",
        "store",
        "vacuum",
        "version_file",
        "version_rows",
    ),
    "metastore": (
        "checkpoints",
        "conflicts",
        "entries",
        "foreign",
        "index",
        "leases",
        "litter",
        "log",
        "naming",
        "recovery",
        "staging",
        "streams",
        "transaction",
        "vacuum",
        "view",
    ),
}
HOMES = {
    "model": "tests/unit",
    "catalog": "tests/versions",
    "storage.lance_dir": "tests/lance_dir",
    "metastore": "tests/metastore",
}
"""Where the tests of each part live: those that are most likely to notice."""
MODULES = tuple(f"lakeroot.{room}.{name}" for room, names in CORE.items() for name in names)

TESTS = (
    "tests/unit",
    "tests/conformance",
    "tests/lance_dir",
    "tests/fsck",
    "tests/versions",
    "tests/metastore",
    "tests/faults/test_crashes.py",
    "tests/faults/test_failed_creations.py",
    "tests/lake/test_undo.py",
    "tests/lake/test_trash.py",
)
LEFT_OUT = "s3 or iceberg or process or five_thousand or bucket or stateful or kill"
"""What is slow, or does its work in other processes, which the mistake does not reach."""


def room_of(module: str) -> str:
    """Give the part of the code that a module belongs to."""
    return module.removeprefix("lakeroot.").rpartition(".")[0]


def source_of(module: str) -> str:
    """Read the source of a module."""
    return (SOURCE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
