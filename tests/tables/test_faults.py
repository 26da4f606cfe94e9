"""The border to Lance: every rule is provoked for real, and no message shows Lance's insides."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from lakeroot.model import errors
from lakeroot.tables import columns, describe, faults, indexes, refs, rows, search
from lakeroot.tables.handle import TableHandle, on_latest, working_on
from lakeroot.tables.options import InsertMode
from tests.tables.conftest import ROWS, managed_handle


def new_table(root: Path) -> TableHandle:
    handle = TableHandle(str(root / "t.lance"))
    rows.create(handle, ROWS)
    return handle


def break_data(root: Path, change: Callable[[Path], object]) -> TableHandle:
    table = new_table(root)
    for file in Path(table.location, "data").iterdir():
        change(file)
    return table


def break_manifest(root: Path, before: bytes, after: bytes) -> TableHandle:
    table = new_table(root)
    (file,) = Path(table.location, "_versions").glob("*.manifest")
    assert before in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(before, after))
    return table


def break_tag(root: Path) -> object:
    table = new_table(root)
    lance.dataset(table.location).tags.create("x", 1)
    (file,) = Path(table.location, "_refs", "tags").iterdir()
    file.write_bytes(b"\xf8" + file.read_bytes()[1:])
    return refs.list_tags(table)


def conflict(root: Path) -> None:
    table = new_table(root)
    old = lance.dataset(table.location)
    rows.insert(table, ROWS, mode=InsertMode.OVERWRITE)
    with working_on(table, "Deleting rows"):
        old.delete("id = 1")


def strict_conflict(root: Path) -> None:
    table = new_table(root)
    with working_on(table, "Overwriting"):
        operation = LanceOperation.Overwrite(ROWS.schema, write_fragments(ROWS, table.location))
        rows.delete(table, "id = 1")
        LanceDataset.commit(table.location, operation, read_version=1, max_retries=0)


def raw(root: Path, act: Callable[[Any], object]) -> None:
    """Ask Lance itself what our own checks would refuse before it hears of it."""
    table = new_table(root)
    with working_on(table, "Asking Lance") as bench:
        act(bench.open())


def race_of_branches(root: Path) -> None:
    raise_from_lance("Ref conflict error: branch dev already exists")


def foreign_tag(root: Path) -> None:
    table = new_table(root)
    lance.dataset(table.location).tags.create("gr\u00fcn", 1)
    refs.list_tags(table)


def branch_with_branches(root: Path) -> None:
    table = new_table(root)
    refs.create_branch(table, "dev")
    refs.create_branch(table, "of-dev", from_branch="dev")
    refs.delete_branch(table, "dev")


def branch_with_a_tag(root: Path) -> None:
    table = new_table(root)
    refs.create_branch(table, "dev")
    refs.create_tag(table, "kept", 1, branch="dev")
    refs.delete_branch(table, "dev")


def busy(table: TableHandle) -> pa.RecordBatchReader:
    """Rows that another writer has changed by the time they are read."""

    def batches() -> Iterator[pa.RecordBatch]:
        lance.dataset(table.location).update({"name": "'other'"})
        yield from ROWS.to_batches()

    return pa.RecordBatchReader.from_batches(ROWS.schema, batches())


def no_time_for_a_merge(root: Path) -> None:
    table = new_table(root)
    rule = rows.MergeRule(on=("id",), when_matched_update_all=True, timeout=timedelta(0))
    rows.merge_insert(table, busy(table), rule)


def no_tries_for_an_update(root: Path) -> None:
    table = new_table(root)
    with working_on(table, "Updating rows") as bench:
        old = bench.open()
        rows.update(table, {"name": "'other'"})
        old.update({"name": "'mine'"}, conflict_retries=0)


def field_of_a_struct(root: Path) -> None:
    table = TableHandle(str(root / "t.lance"))
    rows.create(table, pa.table({"who": [{"name": "ann"}]}))
    rows.count_rows(table, predicate="who.age = 1")


def no_text(root: Path) -> TableHandle:
    """A table with a text that is not UTF-8, as only another writer could leave it."""
    offsets = pa.array([0, 3, 6], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe\xfdabc")]
    )
    lance.write_dataset(
        pa.Table.from_arrays([pa.array([1, 2]), broken], names=["id", "name"]), root / "t.lance"
    )
    return TableHandle(str(root / "t.lance"))


def raise_from_lance(message: str) -> None:
    with faults.translated("Asking Lance"):
        raise OSError(message)


def lost_commit(root: Path) -> None:
    table = managed_handle(root)
    rows.create(table, ROWS)
    client = Refusing(table.namespace_client, ZeroDivisionError("the line went dead"))
    with working_on(TableHandle(table.location), "Deleting rows"):
        LanceDataset(
            table.location,
            namespace_client=client,
            table_id=["t"],
            namespace_client_managed_versioning=True,
        ).delete("id = 1")


class Refusing:
    """A catalog that refuses every commit with one error."""

    def __init__(self, client: Any, error: Exception) -> None:
        self._client = client
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_table_version(self, _request: Any) -> Any:
        raise self._error


PROVOCATIONS: dict[str, tuple[Callable[[Path], object], int]] = {
    "conflict": (conflict, 14),
    "strict conflict": (strict_conflict, 14),
    "too many writers for a time": (no_time_for_a_merge, 14),
    "too many writers for a number of tries": (no_tries_for_an_update, 14),
    "missing tag": (lambda r: raw(r, lambda d: d.tags.get_version("zz")), 8),
    "taken tag": (lambda r: raw(r, lambda d: [d.tags.create("x", 1) for _ in "12"]), 9),
    "missing branch": (lambda r: raw(r, lambda d: d.branches.delete("zz")), 22),
    "missing version": (lambda r: raw(r, lambda d: d.tags.create("x", 9)), 11),
    "tag that Lance does not find again": (foreign_tag, 19),
    "branch with branches": (branch_with_branches, 19),
    "branch with a tag": (branch_with_a_tag, 19),
    "bad ref": (lambda r: raw(r, lambda d: d.tags.create("a b", 1)), 13),
    "missing index": (lambda r: raw(r, lambda d: d.drop_index("zz")), 6),
    "missing index stats": (lambda r: raw(r, lambda d: d.stats.index_stats("zz")), 6),
    "taken index": (
        lambda r: raw(
            r, lambda d: [d.create_scalar_index("id", "BTREE", replace=False) for _ in "12"]
        ),
        7,
    ),
    "schema": (lambda r: rows.insert(new_table(r), pa.table({"zz": [1]})), 20),
    "column in predicate": (lambda r: rows.count_rows(new_table(r), predicate="zz > 1"), 12),
    "quoted column in predicate": (
        lambda r: rows.count_rows(new_table(r), predicate="`no such` > 1"),
        12,
    ),
    "field of a struct": (field_of_a_struct, 12),
    "value that cannot be computed": (lambda r: rows.delete(new_table(r), "id / 0 = 1"), 13),
    "value that cannot be cast": (
        lambda r: search.query_ipc(new_table(r), search.Query(k=9, filter="CAST(name AS INT) = 1")),
        13,
    ),
    "number that has no fields": (
        lambda r: rows.count_rows(new_table(r), predicate="id.x = 1"),
        13,
    ),
    "NUL in a name": (
        lambda r: raw(
            r, lambda d: d.scanner(columns={"a": "named_struct('\0', id)"}).projected_schema
        ),
        13,
    ),
    "expressions that read no column": (
        lambda r: search.query_ipc(new_table(r), search.Query(k=9, columns={"one": "1 + 1"})),
        13,
    ),
    "column to update": (lambda r: rows.update(new_table(r), {"zz": "1"}), 12),
    "column to index": (
        lambda r: indexes.create_index(new_table(r), indexes.IndexRequest("zz", "BTREE")),
        12,
    ),
    "column to alter": (
        lambda r: raw(r, lambda d: d.alter_columns({"path": "z", "name": "y"})),
        12,
    ),
    "column to drop": (lambda r: raw(r, lambda d: d.drop_columns(["zz"])), 12),
    "column of metadata": (
        lambda r: raw(r, lambda d: d.update_field_metadata({"zz": {"a": "b"}})),
        12,
    ),
    "predicate": (lambda r: rows.delete(new_table(r), "id >"), 13),
    "duplicate column": (
        lambda r: columns.alter_columns(new_table(r), [columns.ColumnAlteration("id", "name")]),
        13,
    ),
    "bad scheme": (lambda _: rows.count_rows(TableHandle("gopher://x/y")), 13),
    "taken location": (
        lambda r: raw(r, lambda d: lance.write_dataset(ROWS, d.uri, mode="create")),
        5,
    ),
    "missing data file": (
        lambda r: search.query_ipc(break_data(r, Path.unlink), search.Query(k=9)),
        19,
    ),
    "missing data file, counted": (
        lambda r: rows.count_rows(break_data(r, Path.unlink), predicate="id > 1"),
        19,
    ),
    "torn data file": (
        lambda r: search.query_ipc(
            break_data(r, lambda f: f.write_bytes(b"torn" * 20)), search.Query(k=9)
        ),
        19,
    ),
    "short data file": (
        lambda r: rows.delete(
            break_data(r, lambda f: f.write_bytes(f.read_bytes()[:40])), "id = 1"
        ),
        19,
    ),
    "text that is none": (lambda r: rows.count_rows(no_text(r), predicate="name = 'a'"), 19),
    "text that is none, queried": (lambda r: search.query_ipc(no_text(r), search.Query(k=9)), 19),
    "text that is none, merged": (
        lambda r: rows.merge_insert(
            no_text(r),
            pa.table({"id": [9], "name": ["a"]}),
            rows.MergeRule(on=("name",), when_not_matched_insert_all=True),
        ),
        19,
    ),
    "damaged tag": (break_tag, 19),
    "damaged schema": (lambda r: describe.describe(break_manifest(r, b"int64", b"jnt64")), 19),
    "no table": (lambda r: rows.count_rows(TableHandle(str(r / "none"))), 4),
    "no table, version": (lambda r: rows.count_rows(TableHandle(str(r / "none")), version=1), 4),
    "no table, branch": (lambda r: rows.count_rows(TableHandle(str(r / "none")), branch="b"), 4),
    "lost commit": (lost_commit, 17),
    "no bucket": (lambda r: bucket(404, "NoSuchBucket"), 4),
    "bucket refuses": (lambda r: bucket(403, "AccessDenied"), 15),
    "bucket knows no such key": (lambda r: bucket(403, "InvalidAccessKeyId"), 16),
    "bucket is busy": (lambda r: bucket(503, "SlowDown"), 21),
    "bucket is down": (lambda r: bucket(503, "ServiceUnavailable"), 17),
    "bucket is full": (lambda r: bucket(507, "XMinioStorageFull"), 18),
    "bucket is odd": (lambda r: bucket(418, "Teapot"), 18),
    # Lance checks for the name first and reports its own internal error; only a race gives this.
    "race of branches": (race_of_branches, 23),
}


def bucket(status: int, code: str) -> None:
    """Open a table in a bucket that answers every request alike."""

    class Bucket(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (
                '<?xml version="1.0"?><Error>'
                f"<Code>{code}</Code><AWSAccessKeyId>SECRET</AWSAccessKeyId></Error>"
            ).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        describe.describe(bucket_table(server.server_port))
    finally:
        server.shutdown()
        server.server_close()


def bucket_table(port: int) -> TableHandle:
    return TableHandle(
        "s3://bucket/t.lance",
        {
            "aws_endpoint": f"http://127.0.0.1:{port}",
            "allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "SECRET",
            "client_max_retries": "0",
        },
    )


def refused_message(act: Callable[[], object]) -> tuple[errors.LakerootError, str]:
    with pytest.raises(errors.LakerootError) as refused:
        act()
    cause: BaseException | None = refused.value
    while cause is not None and isinstance(cause, errors.LakerootError):
        cause = cause.__cause__
    if isinstance(cause, KeyError):
        return refused.value, str(cause.args[0])
    return refused.value, str(cause or "")


@pytest.fixture(scope="module")
def provoked(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[errors.LakerootError, str]]:
    """Every provocation's error, and what Lance had said."""
    return {
        name: refused_message(lambda act=act: act(tmp_path_factory.mktemp("lake")))  # type: ignore[misc]
        for name, (act, _) in PROVOCATIONS.items()
    }


@pytest.mark.xdist_group("faults")
@pytest.mark.parametrize("name", PROVOCATIONS)
def test_a_fault_gets_its_code_and_hides_the_insides_of_lance(
    name: str, provoked: dict[str, tuple[errors.LakerootError, str]]
) -> None:
    error, _ = provoked[name]

    assert error.code == PROVOCATIONS[name][1]
    for text in (str(error), repr(error)):
        for inside in (
            ".rs",
            "LanceError",
            "Schema {",
            "Literal {",
            "SECRET",
            "Traceback",
            "backtrace",
        ):
            assert inside not in text


@pytest.mark.xdist_group("faults")
def test_every_rule_is_provoked(provoked: dict[str, tuple[errors.LakerootError, str]]) -> None:
    matched = [
        next((rule for rule in faults.RULES if rule.message.search(message)), None)
        for _, message in provoked.values()
    ]

    assert [rule.message.pattern for rule in faults.RULES if rule not in matched] == []


def test_a_merge_is_not_tried_again_when_its_time_is_over(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    tries: list[int] = []

    def change(_: LanceDataset) -> None:
        tries.append(1)
        rule = rows.MergeRule(on=("id",), when_matched_update_all=True, timeout=timedelta(0))
        rows.merge_insert(table, busy(table), rule)

    with pytest.raises(errors.ConcurrentModificationError, match="Repeat the change"):
        on_latest(table, "Merging rows", None, change)
    assert len(tries) == 1


def test_a_branch_that_a_tag_names_says_so(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidTableStateError, match="Tags name versions of the branch"):
        branch_with_a_tag(tmp_path)
    with pytest.raises(errors.InvalidTableStateError, match="Other branches start from"):
        branch_with_branches(tmp_path / "other")


def test_a_storage_that_does_not_answer_is_unavailable() -> None:
    with pytest.raises(errors.ServiceUnavailableError):
        rows.count_rows(bucket_table(9))


READ_ONLY = """
import os, sys
import pyarrow as pa
from lakeroot.model.errors import LakerootError
from lakeroot.tables import refs, rows
from lakeroot.tables.handle import TableHandle

location = sys.argv[1]
if os.geteuid() == 0:
    os.seteuid(65534)
for act in (
    lambda: rows.insert(TableHandle(location), pa.table({"id": pa.array([1], pa.int64())})),
    lambda: rows.create(TableHandle(location + "-new"), pa.table({"id": [1]})),
    lambda: refs.create_tag(TableHandle(location), "x", 1),
):
    try:
        act()
    except LakerootError as error:
        print(error.code)
"""


def test_a_storage_that_may_not_be_written_denies_permission(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    folders = [tmp_path, *(folder for folder in tmp_path.rglob("*") if folder.is_dir())]
    outside = [folder for folder in tmp_path.parents if folder != Path(folder.anchor)]
    modes = {folder: folder.stat().st_mode for folder in outside}
    for folder in outside:
        if folder.owner() == Path(__file__).owner() or os.geteuid() == 0:
            folder.chmod(modes[folder] | 0o011)
    for folder in folders:
        folder.chmod(0o555)
    try:
        ran = subprocess.run(
            [sys.executable, "-c", READ_ONLY, table.location],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        for folder in folders:
            folder.chmod(0o755)
        for folder, mode in modes.items():
            if folder.stat().st_mode != mode:
                folder.chmod(mode)

    assert ran.stdout.split() == ["15", "15", "15"]


def test_a_panic_of_lance_is_an_internal_error(tmp_path: Path) -> None:
    table = TableHandle(str(tmp_path / "t.lance"))
    rows.create(table, pa.table({"one": ["red fox"] * 300, "two": ["owl"] * 300}))
    for column in ("one", "two"):
        indexes.create_index(table, indexes.IndexRequest(column, "FTS"))

    def panic() -> None:
        with working_on(table, "Searching") as bench:
            bench.open().scanner(full_text_query="fox", limit=0).to_table()

    with pytest.raises(errors.InternalError) as failed:
        panic()
    assert "panicked at" not in str(failed.value)


def test_what_a_user_wrote_is_never_taken_for_a_fault(tmp_path: Path) -> None:
    table = new_table(tmp_path)

    for words in (
        "LanceError(IO): Permission denied",
        "Commit conflict for version 3",
        "Dataset already exists",
        "x = 'No field named id.' and",
    ):
        with pytest.raises(errors.LakerootError) as refused:
            rows.delete(table, words)
        assert refused.value.code in (12, 13)
