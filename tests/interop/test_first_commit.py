"""The reference makes the catalog anew over what was committed since it looked; nothing is lost."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest

import lakeroot
from lakeroot.storage.lance_dir.restarts import SEEN, YOUNG
from tests.asking import ROWS, Lake
from tests.interop.conftest import object_ids
from tests.interop.writers import Spawn, Told, write

MANY = 3


def make_anew(root: Path) -> None:
    """Do what pylance's own client does when it saw no catalog, a moment ago."""
    place = str(root / "__manifest")
    anew = lance.LanceOperation.Overwrite(lance.dataset(place).schema, [])
    lance.LanceDataset.commit(place, anew, read_version=0)


def messages(root: Path) -> list[str]:
    return [commit.message for commit in lakeroot.open(str(root)).history()]


def test_a_client_that_opens_the_catalog_puts_back_what_was_lost(
    root: Path, ours: Callable[..., Lake], theirs: Callable[..., Lake]
) -> None:
    ours().create_namespace("a", properties={"owner": "ann"})
    ours().declare_table("a", "t", properties={"k": "v"})
    make_anew(root)
    assert theirs().namespaces() == []

    assert ours().namespaces() == ["a"]

    assert theirs().namespaces() == ["a"]
    assert theirs().tables("a") == ["t"]
    assert ours().describe_namespace("a")["owner"] == "ann"
    assert ours().describe_table("a", "t").properties == {"k": "v"}


def test_a_client_that_stands_before_it_puts_it_back_when_it_moves(
    root: Path, ours: Callable[..., Lake], theirs: Callable[..., Lake]
) -> None:
    standing = ours()
    standing.create_namespace("a")
    make_anew(root)
    theirs().create_namespace("b")

    assert standing.namespaces() == ["a", "b"]
    assert theirs().namespaces() == ["a", "b"]


def test_a_client_that_only_writes_puts_it_back_too(
    root: Path, ours: Callable[..., Lake], theirs: Callable[..., Lake]
) -> None:
    ours().create_namespace("a")
    make_anew(root)

    ours().create_namespace("b")

    assert sorted(theirs().namespaces()) == ["a", "b"]


def test_it_is_put_back_once_and_can_be_dropped(root: Path, ours: Callable[..., Lake]) -> None:
    ours().create_namespace("a")
    make_anew(root)
    assert ours().namespaces() == ["a"]

    ours().drop_namespace("a")

    assert ours().namespaces() == []
    assert messages(root).count("Put back what version 2 lost") == 1


def test_each_of_several_new_beginnings_is_undone(root: Path, ours: Callable[..., Lake]) -> None:
    for name in ("a", "b", "c"):
        ours().create_namespace(name)
        make_anew(root)

    assert ours().namespaces() == ["a", "b", "c"]


def test_what_was_made_since_keeps_its_name(
    root: Path, ours: Callable[..., Lake], theirs: Callable[..., Lake]
) -> None:
    ours().create_namespace("a", properties={"by": "us"})
    make_anew(root)
    theirs().create_namespace("a", properties={"by": "them"})

    assert ours().describe_namespace("a")["by"] == "them"


def test_a_table_that_was_deleted_meanwhile_stays_deleted(
    root: Path, ours: Callable[..., Lake]
) -> None:
    ours().create_namespace("a")
    location = ours().declare_table("a", "t").location
    make_anew(root)
    shutil.rmtree(location)

    assert ours().namespaces() == ["a"]
    assert ours().tables("a") == []


def test_versions_of_a_managed_table_come_back(root: Path, ours: Callable[..., Lake]) -> None:
    managed = ours(table_version_management="true")
    managed.create_namespace("a")
    where: dict[str, Any] = {"namespace_client": managed.client, "table_id": ["a", "t"]}
    lance.write_dataset(ROWS, mode="create", **where)
    lance.write_dataset(ROWS, mode="append", **where)
    make_anew(root)

    assert lance.dataset(namespace_client=ours().client, table_id=["a", "t"]).count_rows() == 6
    assert {"a", "a$t", "a$t$1", "a$t$2"} <= set(object_ids(root))


def test_an_old_catalog_notes_nothing_more(root: Path, ours: Callable[..., Lake]) -> None:
    lake = ours()
    for number in range(YOUNG + 3):
        lake.create_namespace(f"n{number}")

    assert lance.dataset(str(root / "__manifest")).metadata[SEEN] == str(YOUNG)


def test_a_catalog_of_others_is_looked_at_when_we_first_write(
    root: Path, ours: Callable[..., Lake], theirs: Callable[..., Lake]
) -> None:
    theirs().create_namespace("a")
    make_anew(root)

    ours().create_namespace("b")

    assert ours().namespaces() == ["a", "b"]


@pytest.mark.parametrize("attempt", range(MANY))
def test_processes_of_both_begin_a_catalog_at_the_same_time(
    root: Path, ours: Callable[..., Lake], theirs: Callable[..., Lake], attempt: int
) -> None:
    who = ["us1", "us2", "them1", "them2"]
    start = Spawn.Barrier(len(who))
    answers: Any = Spawn.Queue()
    writers = [Spawn.Process(target=write, args=(str(root), one, 2, start, answers)) for one in who]
    for writer in writers:
        writer.start()
    told: dict[str, Told] = dict(answers.get(timeout=300) for _ in writers)
    for writer in writers:
        writer.join(60)

    acknowledged = {name for done, _, _ in told.values() for name in done}
    seen = {*ours().namespaces()}
    assert acknowledged <= set(object_ids(root))
    assert {name for name in acknowledged if "$" not in name} <= seen
    assert seen == set(theirs().namespaces())
