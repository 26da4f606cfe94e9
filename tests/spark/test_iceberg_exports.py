"""An export into Iceberg happens or does not, whatever dies on the way, and can be repeated."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import urllib3
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io import FSSPEC_FILE_IO, load_file_io
from requests.exceptions import ConnectionError as NoConnection
from requests.exceptions import ConnectTimeout, ReadTimeout

import lakeroot.spark
from lakeroot.model.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    LakerootError,
    PermissionDeniedError,
    ServiceUnavailableError,
)
from lakeroot.spark import iceberg_exports, iceberg_files
from lakeroot.spark.iceberg_exports import export_iceberg
from lakeroot.spark.iceberg_failures import is_refused
from lakeroot.spark.iceberg_files import remove_files, write_files
from lakeroot.spark.row_tasks import over_rows
from tests.iceberg.servers import Reply, Request, error, misbehaving
from tests.s3 import S3
from tests.spark.conftest import fails_last, put

ROWS = pa.table({"id": pa.array(range(40), pa.int64()), "name": [f"n{n}" for n in range(40)]})
HUNG_UP = None
_COMMIT = re.compile(r".*/tables/[^/]+$")


@dataclass
class Gateway:
    """A real gateway before a catalog, which lets the next commits meet with what it is told."""

    upstream: str
    endpoint: str = ""
    fates: list["Fate"] = field(default_factory=list)
    held: list[Request] = field(default_factory=list)
    is_dead: bool = False
    pool: urllib3.PoolManager = field(default_factory=urllib3.PoolManager)

    def behave(self, request: Request) -> Reply | None:
        if self.is_dead:
            return HUNG_UP
        is_commit = request.method == "POST" and _COMMIT.match(request.path) is not None
        if is_commit and self.fates:
            return self.fates.pop(0)(self, request)
        return self.passed(request)

    def passed(self, request: Request) -> Reply:
        own = ("host", "content-length", "connection")
        kept = {k: v for k, v in request.headers.items() if k.lower() not in own}
        body = None if request.body is None else json.dumps(request.body)
        reply = self.pool.request(
            request.method, self.upstream + request.path, body=body, headers=kept, retries=False
        )
        return reply.status, reply.data, {"Connection": "close"}

    def let_through(self) -> list[int]:
        """Give the catalog the commits that were held back; tell what it says to them."""
        held, self.held = self.held, []
        return [self.passed(request)[0] for request in held]


Fate = Callable[[Gateway, Request], Reply | None]


def done(answer: Reply | None, *, then_dead: bool = False) -> Fate:
    """Carry a commit out, and give another answer than the catalog does."""

    def fate(gateway: Gateway, request: Request) -> Reply | None:
        gateway.passed(request)
        gateway.is_dead = then_dead
        return answer

    return fate


def late(answer: Reply | None) -> Fate:
    """Answer at once, and leave the commit for later."""

    def fate(gateway: Gateway, request: Request) -> Reply | None:
        gateway.held.append(request)
        return answer

    return fate


def refused(answer: Reply | None) -> Fate:
    """Answer, and let the catalog know nothing of it."""
    return lambda gateway, request: answer


def twice(gateway: Gateway, request: Request) -> Reply | None:
    """Send a commit again, as one does whose first answer was lost on the way here."""
    gateway.passed(request)
    return gateway.passed(request)


@contextmanager
def gateway_to(upstream: str) -> Iterator[Gateway]:
    state = Gateway(upstream)
    with misbehaving(state.behave) as server:
        state.endpoint = server.endpoint
        yield state
    state.pool.clear()


@pytest.fixture
def gateway(own_catalog: str) -> Iterator[Gateway]:
    with gateway_to(own_catalog) as state:
        yield state


@pytest.fixture
def iceberg(own_catalog: str) -> Catalog:
    """An Iceberg catalog with a namespace, without the gateway."""
    catalog = load_catalog("tests", type="rest", uri=own_catalog)
    catalog.create_namespace("air")
    return catalog


@pytest.fixture
def export(spark, root, catalog, iceberg, gateway) -> Any:
    put(catalog, "shop.rows", ROWS, max_rows_per_file=10)

    def exported(mode: str, target: str = "air.rows", **options: Any) -> int:
        told = {"type": "rest", "uri": gateway.endpoint}
        return lakeroot.spark.export(
            spark,
            "shop.rows",
            target,
            format="iceberg",
            mode=mode,
            writer=told,
            root=root,
            **options,
        )

    return exported


def files(tmp_path: Path) -> set[Path]:
    return {*(tmp_path / "own").rglob("*.parquet")}


def ids(catalog: Catalog, target: str) -> list[int]:
    return sorted(catalog.load_table(target).scan().to_arrow()["id"].to_pylist())


def test_an_export_that_is_killed_leaves_no_table_and_is_repeated(iceberg, export, monkeypatch):
    class KilledError(BaseException):
        """What no handler of errors sees, as none sees a kill."""

    def killed(*_: Any) -> None:
        raise KilledError

    for mode in ("error", "append", "overwrite", "ignore"):
        target = f"air.{mode}"
        with monkeypatch.context() as patched:
            patched.setattr(iceberg_exports, "over_rows", killed)
            with pytest.raises(KilledError):
                export(mode, target)
        assert not iceberg.table_exists(target)
        assert export(mode, target) == 40
        assert ids(iceberg, target) == [*range(40)]


def test_a_commit_that_happened_and_was_not_answered_is_found(iceberg, export, gateway):
    answers = [HUNG_UP, (504, b"<html>"), error(500, "InternalServerError"), (200, b"{half")]
    for number, fate in enumerate([*map(done, answers), twice]):
        gateway.fates = [fate]
        assert export("error", f"air.t{number}") == 40
        assert ids(iceberg, f"air.t{number}") == [*range(40)]
    for mode, rows, chosen in (("append", 80, 40), ("overwrite", 40, 40), ("overwrite", 0, 0)):
        gateway.fates = [done(HUNG_UP)]
        assert export(mode, "air.t0", filter=f"id < {chosen}") == chosen
        assert ids(iceberg, "air.t0") == sorted([*range(40)] * (rows // 40))


def test_files_of_a_commit_that_may_still_happen_stay_and_that_is_said(
    iceberg, export, gateway, tmp_path
):
    for number, answer in enumerate((HUNG_UP, (504, b"<html>"))):
        for target, rows in ((f"air.t{number}", 1), ("air.rows", number + 1)):
            gateway.fates, before = [late(answer)], files(tmp_path)
            with pytest.raises(ServiceUnavailableError, match="not known whether") as failed:
                export("append", target)
            kept = files(tmp_path) - before
            assert kept
            assert f"{kept.pop().parent} are kept" in failed.value.why
            assert gateway.let_through() == [200]
            assert ids(iceberg, target) == sorted([*range(40)] * rows)
            summary = iceberg.load_table(target).current_snapshot().summary
            assert f"`lakeroot.job` {summary['lakeroot.job']}" in failed.value.fix


def test_an_export_that_is_repeated_overtakes_the_commit_that_was_not_answered(
    iceberg, export, gateway
):
    export("append")
    gateway.fates = [late((504, b""))]
    with pytest.raises(ServiceUnavailableError):
        export("append")
    assert export("append") == 40
    assert gateway.let_through() == [409]
    assert ids(iceberg, "air.rows") == sorted([*range(40)] * 2)


def test_a_late_commit_beside_the_repeated_export_brings_the_rows_once_unless_they_are_appended(
    iceberg, export, gateway
):
    def overtaken(gateway: Gateway, request: Request) -> Reply | None:
        assert gateway.let_through() == [200]
        return gateway.passed(request)

    export("append", "air.overwrite")
    for mode in ("overwrite", "error"):
        gateway.fates = [late((504, b"")), overtaken]
        with pytest.raises(ServiceUnavailableError):
            export(mode, f"air.{mode}")
        with pytest.raises(ConcurrentModificationError):
            export(mode, f"air.{mode}")
        assert ids(iceberg, f"air.{mode}") == [*range(40)]


def test_files_of_a_commit_that_was_refused_are_deleted(iceberg, export, gateway, tmp_path):
    export("append")
    once = {"commit.retry.num-retries": "0"}
    iceberg.load_table("air.rows").transaction().set_properties(once).commit_transaction()
    before = {*(tmp_path / "own").rglob("data/**")}
    for answer, expected in (
        (error(400, "BadRequestException"), InvalidInputError),
        (error(403, "ForbiddenException"), PermissionDeniedError),
        (error(409, "CommitFailedException"), ConcurrentModificationError),
    ):
        for target in ("air.rows", "air.fresh"):
            gateway.fates = [refused(answer)]
            with pytest.raises(expected, match="cannot be written"):
                export("append", target)
    fresh = {path for path in (tmp_path / "own").rglob("data") if path not in before}
    assert {*(tmp_path / "own").rglob("data/**")} == before | fresh
    assert ids(iceberg, "air.rows") == [*range(40)]
    assert not iceberg.table_exists("air.fresh")


def test_nothing_is_deleted_while_the_catalog_cannot_be_asked(iceberg, export, gateway):
    for number, answer in enumerate((HUNG_UP, (504, b""), error(409, "CommitFailedException"))):
        gateway.fates = [done(answer, then_dead=True)]
        with pytest.raises(ServiceUnavailableError, match="not known whether"):
            export("append", f"air.t{number}")
        gateway.is_dead = False
        assert ids(iceberg, f"air.t{number}") == [*range(40)]


def test_a_table_that_another_made_meanwhile_keeps_its_rows(iceberg, export, monkeypatch):
    run = over_rows

    def slowly(*given: Any) -> Any:
        parts = run(*given)
        iceberg.create_table("air.rows", ROWS.schema).append(ROWS.slice(0, 3))
        return parts

    monkeypatch.setattr(iceberg_exports, "over_rows", slowly)
    with pytest.raises(ConcurrentModificationError, match=r"air\.rows"):
        export("error")
    assert iceberg.load_table("air.rows").scan().to_arrow().num_rows == 3


def test_if_a_task_fails_the_files_of_the_others_are_deleted(spark, iceberg, own_catalog, tmp_path):
    table = iceberg.create_table("air.rows", ROWS.select(["id"]).schema)
    table.append(ROWS.select(["id"]))
    before = files(tmp_path)
    place = table.location().removeprefix("file://")
    bad = fails_last(spark.range(0, 40, 1, 2), place, "data/*/*.parquet")
    with pytest.raises(LakerootError, match="bad row"):
        export_iceberg(bad, "air.rows", "append", {"type": "rest", "uri": own_catalog})
    assert files(tmp_path) == before
    assert ids(iceberg, "air.rows") == [*range(40)]


def test_only_a_refusal_says_that_a_commit_will_not_happen(iceberg, gateway):
    through = load_catalog("tests", type="rest", uri=gateway.endpoint)
    once = {"commit.retry.num-retries": "0"}
    there = through.create_table("air.rows", ROWS.schema, properties=once)
    refusals = (400, 401, 403, 404, 409, 413, 419, 422, 429, 501)
    open_ends = (408, 500, 502, 503, 504, 507, 520, 524)
    answers: list[tuple[Reply | None, bool]] = [
        *(((status, b""), True) for status in refusals),
        *(((status, b""), False) for status in open_ends),
        (HUNG_UP, False),
        ((200, b"{}"), False),
    ]
    for answer, is_final in answers:
        fresh = through.create_table_transaction("air.fresh", ROWS.schema)
        for changes in (fresh, there.transaction()):
            gateway.fates = [refused(answer)] * 2  # pyiceberg tries again after 401 and 419
            with pytest.raises(Exception) as failed:
                changes.set_properties({"a": "b"}).commit_transaction()
            assert is_refused(failed.value) is is_final, answer


def test_a_commit_that_nobody_heard_will_not_happen(iceberg, own_catalog):
    with gateway_to(own_catalog) as gone:
        through = load_catalog("tests", type="rest", uri=gone.endpoint)
        changes = through.create_table_transaction("air.rows", ROWS.schema)
    with pytest.raises(NoConnection) as failed:
        changes.commit_transaction()
    assert is_refused(failed.value)
    assert is_refused(ConnectTimeout())
    assert not is_refused(ReadTimeout())


@pytest.fixture(params=["disk", "bucket", "fsspec"])
def place(request, tmp_path) -> tuple[str, dict[str, str]]:
    """A directory for files, and what pyiceberg must be told to write there."""
    if request.param == "bucket":
        s3: S3 = request.getfixturevalue("s3")
        told = {
            "s3.endpoint": s3.endpoint,
            "s3.access-key-id": s3.options["access_key_id"],
            "s3.secret-access-key": s3.options["secret_access_key"],
            "s3.region": "us-east-1",
        }
        return f"{s3.new_root()}/t/data/job", told
    told = {"py-io-impl": FSSPEC_FILE_IO} if request.param == "fsspec" else {}
    return (tmp_path / "t" / "data" / "job").as_uri(), told


def lying(directory: str, io: dict[str, str]) -> int:
    """Count the files in a directory."""
    return len(iceberg_files._names(load_file_io(io, directory), directory))


def test_a_task_that_fails_leaves_no_files(place, monkeypatch):
    directory, io = place
    monkeypatch.setattr(iceberg_files, "_ROWS_PER_FILE", 20)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches(10)[:3]
        assert lying(directory, io)
        raise ValueError("bad row")

    with pytest.raises(ValueError, match="bad row"):
        write_files(directory, io, batches())
    assert lying(directory, io) == 0
    assert [*write_files(directory, io, ROWS.to_batches(10)).values()] == [20, 20]
    assert lying(directory, io) == 2


def test_files_of_an_export_are_found_without_their_names(place):
    directory, io = place
    for where in (directory, directory, f"{directory}-2"):
        write_files(where, io, ROWS.to_batches())
    assert (lying(directory, io), lying(f"{directory}-2", io)) == (2, 1)
    remove_files(directory, io)
    assert (lying(directory, io), lying(f"{directory}-2", io)) == (0, 1)
    remove_files(directory, io)  # There is nothing, and that is no failure.
    remove_files(directory, {**io, "py-io-impl": "no.such"})  # It hides no failure of the export.
