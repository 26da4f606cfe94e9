"""Bad input: the code of the specification, a message that helps, and nothing changed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from benchmarks.manifests import renumbered
from lance_namespace import LanceNamespaceError

from lakeroot import DirectoryNamespace
from lakeroot.catalog.paging import token_of
from lakeroot.tables.versions import manifest_name
from tests.versions.kinds import append
from tests.versions.staging import (
    ROWS,
    StagedVersion,
    directory_of,
    files_below,
    make_table,
    stage,
)
from tests.versions.test_every_operation import VECTORS, ipc

INVALID, CONFLICT, NO_VERSION, NO_TABLE = 13, 14, 11, 4
Bad = Callable[[DirectoryNamespace, StagedVersion], dict[str, Any]]


@pytest.fixture
def staged(lake: DirectoryNamespace) -> StagedVersion:
    """Two tables, and the next version of the first staged."""
    make_table(lake, "t", versions=2)
    make_table(lake, "other")
    return stage(lake, "t")


def contents(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in files_below(root)}


def root_of(namespace: DirectoryNamespace) -> Path:
    return Path(namespace.catalog.store.root.uri)


def refused(namespace: DirectoryNamespace, code: int, call: Callable[[], object]) -> str:
    """Call, expect the code, and check that not a byte on the disk has changed."""
    root = root_of(namespace)
    before = contents(root)
    with pytest.raises(LanceNamespaceError) as error:
        call()
    assert int(error.value.code) == code, str(error.value)
    assert contents(root) == before
    message = str(error.value)
    assert message
    assert "rust" not in message.lower()
    assert ".rs:" not in message
    assert "Traceback" not in message
    return message


PATHS = {
    "absolute elsewhere": "/etc/passwd",
    "climbing out": "{table}/_versions/../../../../etc/passwd",
    "climbing in and out": "{table}/_versions/../_versions/{name}",
    "relative climbing": "../other.lance/_versions/{name}",
    "another table": "{other}/_versions/{name}",
    "another directory of the table": "{table}/data/{name}",
    "a branch": "{table}/tree/x/_versions/{name}",
    "a directory below": "{table}/_versions/deep/{name}",
    "another scheme of address": "s3://bucket/{table}/_versions/{name}",
    "a file address": "file:///etc/passwd",
    "a final name": "{table}/_versions/{final}",
    "another version": "{table}/_versions/{wrong}-abc",
    "no name": "{table}/_versions/",
    "empty": "",
    "a null byte": "{table}/_versions/{name}\0",
    "a line break": "{table}/_versions/{name}\n",
}


@pytest.mark.parametrize("size", [0, 1, 10**9])
def test_a_staged_manifest_of_another_size_than_was_said_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion, size: int
) -> None:
    told = refused(
        lake,
        INVALID,
        lambda: lake.create_table_version(staged.request(manifest_size=size)),
    )

    assert f"{len(staged.content)} bytes" in told


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_a_staging_path_that_is_not_the_tables_own_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion, path: str
) -> None:
    other = directory_of(lake, "other") / "_versions" / staged.file.name
    other.write_bytes(staged.content)
    table = str(directory_of(lake, "t")).lstrip("/")
    bad = path.format(
        table=table,
        other=str(other.parent.parent).lstrip("/"),
        name=staged.file.name,
        final=manifest_name(3),
        wrong=manifest_name(4),
    )

    for call in (
        lambda: lake.create_table_version(staged.request(manifest_path=bad)),
        lambda: lake.batch_create_table_versions({"entries": [staged.request(manifest_path=bad)]}),
        lambda: lake.batch_commit_tables(
            {"operations": [{"create_table_version": staged.request(manifest_path=bad)}]}
        ),
    ):
        message = refused(lake, INVALID, call)
        assert "passwd" not in message.replace(bad, "")


def test_a_symbolic_link_out_of_the_table_is_not_followed_by_its_name_alone(
    lake: DirectoryNamespace, staged: StagedVersion, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"not a manifest at all, and long enough to be one")
    staged.file.unlink()
    staged.file.symlink_to(secret)

    message = refused(lake, INVALID, lambda: lake.create_table_version(staged.request()))
    assert "not a manifest at all" not in message


@pytest.mark.parametrize(
    "content",
    [b"", b"LANC", b"x" * 400, None],
    ids=["empty", "only the end", "garbage", "missing"],
)
def test_a_damaged_or_missing_staged_manifest_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion, content: bytes | None
) -> None:
    if content is None:
        staged.file.unlink()
    else:
        staged.file.write_bytes(content)

    refused(lake, INVALID, lambda: lake.create_table_version(staged.request()))


def test_a_manifest_cut_in_the_middle_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    cut = staged.content[: len(staged.content) // 2] + staged.content[-16:]
    staged.file.write_bytes(cut)

    refused(lake, INVALID, lambda: lake.create_table_version(staged.request()))


def test_a_staged_manifest_of_another_version_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    staged.file.write_bytes(renumbered(staged.content, staged.version + 1))

    message = refused(lake, INVALID, lambda: lake.create_table_version(staged.request()))
    assert f"it says {staged.version + 1}" in message


def test_a_staged_manifest_of_another_branch_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    table = directory_of(lake, "t")
    trial = lance.dataset(str(table)).create_branch("trial", 2)
    lance.write_dataset(ROWS, trial, mode="append")
    on_trial = table / "tree" / "trial" / "_versions" / manifest_name(3)
    on_main = staged.file.with_name(f"{on_trial.name}-trial")
    on_main.write_bytes(on_trial.read_bytes())
    size = {"manifest_size": on_main.stat().st_size}
    asked: list[tuple[Path, dict[str, Any]]] = [(on_main, size)]
    for branch in ("trial", "nope"):
        there = table / "tree" / branch / "_versions" / staged.file.name
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(staged.content)
        asked.append((there, {"branch": branch}))
    on_trial.unlink()

    for path, more in asked:
        request = staged.request(manifest_path=str(path).lstrip("/"), **more)
        told = refused(lake, INVALID, partial(lake.create_table_version, request))
        assert "is of another branch" in told
        assert "the main branch" in told


@pytest.mark.parametrize(
    ("version", "code"),
    [(0, INVALID), (-1, INVALID), (2**63, INVALID), (2**64, INVALID), (4, INVALID), (5, INVALID)],
)
def test_an_impossible_version_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion, version: int, code: int
) -> None:
    refused(lake, code, lambda: lake.create_table_version(staged.request(version=version)))


@pytest.mark.parametrize("version", [4, 100, 2**62])
def test_a_version_after_a_gap_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion, version: int
) -> None:
    far = staged.file.with_name(f"{manifest_name(version)}-far")
    size = far.write_bytes(renumbered(staged.content, version))
    asked = {"version": version, "manifest_path": str(far).lstrip("/"), "manifest_size": size}

    message = refused(lake, CONFLICT, lambda: lake.create_table_version(staged.request(**asked)))
    assert "t is at version 2" in message


def test_a_version_in_a_gap_before_the_newest_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    for _ in range(3):
        append(lake, "t")
    ranges = [{"start_version": 3, "end_version": 5}]
    lake.batch_delete_table_versions({"id": ["t"], "ranges": ranges})

    refused(lake, CONFLICT, lambda: lake.create_table_version(staged.request()))


def test_a_version_that_cannot_be_created_keeps_the_rest_of_its_batch_from_happening(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    append(lake, "t")
    operations = [{"create_table_version": staged.request()}, {"declare_table": {"id": ["x"]}}]

    refused(lake, CONFLICT, lambda: lake.batch_commit_tables({"operations": operations}))


def test_a_batch_does_not_create_a_version_of_a_table_that_it_deregisters(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    operations = [
        {"create_table_version": staged.request()},
        {"deregister_table": {"id": ["t"]}},
    ]

    refused(lake, INVALID, lambda: lake.batch_commit_tables({"operations": operations}))


@pytest.mark.parametrize(
    "member",
    [
        {"create_table_version": {"branch": "trial"}},
        {"delete_table_versions": {"branch": "trial"}},
    ],
    ids=["create", "delete"],
)
def test_a_managed_batch_takes_no_versions_of_branches(
    managed: DirectoryNamespace, member: dict[str, dict[str, Any]]
) -> None:
    table = make_table(managed, "t", versions=2)
    trial = lance.dataset(str(table)).create_branch("trial", 2)
    lance.write_dataset(ROWS, trial, mode="append")
    version = table / "tree" / "trial" / "_versions" / manifest_name(3)
    staged = version.with_name(f"{version.name}-next")
    version.rename(staged)
    asked = {"version": 3, "manifest_path": str(staged).lstrip("/")}
    ranges = {"ranges": [{"start_version": 2, "end_version": 3}]}
    ((what, named),) = member.items()
    more = asked if what == "create_table_version" else ranges
    operation = {what: {"id": ["t"], **more, **named}}

    refused(managed, INVALID, lambda: managed.batch_commit_tables({"operations": [operation]}))


@pytest.mark.parametrize("token", ["²", "٣", "1" * 5000, "-1", " 1"])
def test_a_token_that_is_no_number_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion, token: str
) -> None:
    request = {"id": ["t"], "page_token": token_of(token)}

    refused(lake, INVALID, lambda: lake.list_table_versions(request))


@pytest.mark.parametrize("version", [0, 3, 2**62, 2**63, 2**64])
def test_a_version_that_does_not_exist_is_not_found(
    lake: DirectoryNamespace, staged: StagedVersion, version: int
) -> None:
    request = {"id": ["t"], "version": version}

    refused(lake, NO_VERSION, lambda: lake.describe_table_version(request))


@pytest.mark.parametrize(
    ("ranges", "code"),
    [
        ([], INVALID),
        ([{"start_version": 3, "end_version": 1}], INVALID),
        ([{"start_version": -1, "end_version": 2}], INVALID),
        ([{"start_version": 1}], INVALID),
        ([{"start_version": "x", "end_version": 2}], INVALID),
        (
            [{"start_version": 1, "end_version": 2}, {"start_version": 2, "end_version": 1}],
            INVALID,
        ),
    ],
)
def test_bad_ranges_delete_nothing(
    lake: DirectoryNamespace, staged: StagedVersion, ranges: list[dict[str, Any]], code: int
) -> None:
    request = {"id": ["t"], "ranges": ranges}

    refused(lake, code, lambda: lake.batch_delete_table_versions(request))
    refused(
        lake,
        code,
        lambda: lake.batch_commit_tables({"operations": [{"delete_table_versions": request}]}),
    )


@pytest.mark.parametrize(
    "request_",
    [
        {"operations": []},
        {"operations": [{}]},
        {"operations": [{"declare_table": {"id": ["x"]}, "deregister_table": {"id": ["t"]}}]},
        {"operations": [{"declare_table": {"id": ["x"]}}, {"declare_table": {"id": ["a$b"]}}]},
    ],
)
def test_a_bad_batch_changes_nothing(
    lake: DirectoryNamespace, staged: StagedVersion, request_: dict[str, Any]
) -> None:
    refused(lake, INVALID, lambda: lake.batch_commit_tables(request_))


def test_an_empty_batch_of_versions_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    refused(lake, INVALID, lambda: lake.batch_create_table_versions({"entries": []}))


def test_one_bad_member_refuses_a_managed_batch(
    managed: DirectoryNamespace,
) -> None:
    make_table(managed, "t")
    good = stage(managed, "t")

    refused(
        managed,
        NO_TABLE,
        lambda: managed.batch_commit_tables(
            {
                "operations": [
                    {"declare_table": {"id": ["new"]}},
                    {"create_table_version": good.request()},
                    {"deregister_table": {"id": ["nope"]}},
                ]
            }
        ),
    )


@pytest.mark.parametrize(
    "bad",
    [
        {"page_token": "garbage"},
        {"page_token": "WyJsYWtlcm9vdCIsICJ4Il0="},
        {"limit": -1},
        {"branch": "../.."},
        {"branch": "a//b"},
    ],
)
def test_a_bad_listing_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion, bad: dict[str, Any]
) -> None:
    refused(lake, INVALID, lambda: lake.list_table_versions({"id": ["t"], **bad}))


def test_a_bad_naming_scheme_is_refused(lake: DirectoryNamespace, staged: StagedVersion) -> None:
    request = staged.request(naming_scheme="V3")

    refused(lake, INVALID, lambda: lake.create_table_version(request))


def test_a_request_that_is_no_request_is_refused(
    lake: DirectoryNamespace, staged: StagedVersion
) -> None:
    requests: list[Any] = [None, 7, "t", ["t"], {"id": "t"}, {"id": [7]}, {"id": [None]}]
    for request in requests:
        refused(lake, INVALID, partial(lake.describe_table_version, request))


def test_a_table_that_is_only_declared_has_nothing_to_show(lake: DirectoryNamespace) -> None:
    lake.declare_table({"id": ["t"]})

    assert lake.list_table_versions({"id": ["t"]})["versions"] == []
    refused(lake, NO_VERSION, lambda: lake.describe_table_version({"id": ["t"]}))
    refused(lake, NO_VERSION, lambda: lake.describe_table_version({"id": ["t"], "version": 1}))
    message = refused(lake, NO_TABLE, lambda: lake.count_table_rows({"id": ["t"]}))
    assert "t has no rows to work on. it is only declared" in message
    refused(lake, NO_TABLE, lambda: lake.insert_into_table({"id": ["t"]}, ipc(VECTORS)))


INSIDE: dict[str, tuple[int, Callable[[DirectoryNamespace], object]]] = {
    "garbage Arrow": (13, lambda ns: ns.insert_into_table({"id": ["t"]}, b"garbage")),
    "Arrow cut off": (13, lambda ns: ns.insert_into_table({"id": ["t"]}, ipc(VECTORS)[:-80])),
    "garbage for a new table": (13, lambda ns: ns.create_table({"id": ["new"]}, b"garbage")),
    "another schema": (20, lambda ns: ns.insert_into_table({"id": ["t"]}, ipc(VECTORS))),
    "another type": (
        20,
        lambda ns: ns.insert_into_table({"id": ["t"]}, ipc(pa.table({"id": ["x"], "word": ["x"]}))),
    ),
    "unknown column": (12, lambda ns: ns.update_table({"id": ["t"], "updates": [["no", "1"]]})),
    "unknown column of an index": (
        12,
        lambda ns: ns.create_table_index({"id": ["t"], "column": "no", "index_type": "BTREE"}),
    ),
    "unknown index": (6, lambda ns: ns.drop_table_index({"id": ["t"], "index_name": "no"})),
    "unknown tag": (8, lambda ns: ns.get_table_tag_version({"id": ["t"], "tag": "no"})),
    "unknown branch": (22, lambda ns: ns.count_table_rows({"id": ["t"], "branch": "no"})),
    "unknown version": (11, lambda ns: ns.restore_table({"id": ["t"], "version": 99})),
    "bad predicate": (13, lambda ns: ns.delete_from_table({"id": ["t"], "predicate": "id >"})),
    "bad predicate of a count": (
        13,
        lambda ns: ns.count_table_rows({"id": ["t"], "predicate": "((("}),
    ),
    "unknown table": (4, lambda ns: ns.insert_into_table({"id": ["no"]}, ipc(VECTORS))),
    "unknown namespace": (1, lambda ns: ns.create_table({"id": ["no", "t"]}, ipc(VECTORS))),
}


@pytest.mark.parametrize(("code", "call"), INSIDE.values(), ids=INSIDE.keys())
def test_bad_input_to_the_inside_of_a_table_is_refused(
    lake: DirectoryNamespace, code: int, call: Callable[[DirectoryNamespace], object]
) -> None:
    make_table(lake, "t", versions=2)

    refused(lake, code, lambda: call(lake))
