import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from lakeroot.model.errors import (
    InternalError,
    InvalidInputError,
    LakerootError,
    NotFoundError,
    PermissionDeniedError,
)
from lakeroot.objects import LocalObjects, Objects, open_root, parse_root
from lakeroot.objects.remote import RemoteObjects
from lakeroot.objects.remote_faults import translated

ODD_NAMES = ["a b", "größe", "桌子", "x$y", "100%", "q?x#y", "it's", "~"]


@pytest.fixture(params=["local", "local-fsync", "memory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    match request.param:
        case "memory":
            yield RemoteObjects(MemoryStore())
        case kind:
            yield LocalObjects(str(tmp_path / "not" / "yet"), fsync=kind == "local-fsync")


def test_what_was_put_can_be_read(objects: Objects) -> None:
    objects.put("a/b/c", b"one")
    objects.put("a/b/c", b"two")

    assert objects.get("a/b/c") == b"two"
    assert objects.exists("a/b/c")


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_kept_as_they_are(objects: Objects, name: str) -> None:
    objects.put(f"{name}/{name}", b"x")

    assert objects.get(f"{name}/{name}") == b"x"
    assert objects.list_directory("").directories == (name,)
    assert [found.path for found in objects.list("")] == [f"{name}/{name}"]


def test_what_is_not_there_is_nothing_rather_than_an_error(objects: Objects) -> None:
    assert objects.get("a") is None
    assert objects.head("a") is None
    assert not objects.exists("a")
    assert not objects.has_any("a")
    assert list(objects.list("")) == []
    objects.delete(["a", "b/c"])
    objects.delete_directory("d")


def winners(claims: Callable[[int], bool], count: int = 8) -> list[int]:
    """Let threads claim something at the same moment; give the numbers of those who got it."""
    won: list[int] = []
    together = threading.Barrier(count)

    def claim(number: int) -> None:
        together.wait()
        if claims(number):
            won.append(number)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def test_only_one_of_many_writers_puts_an_absent_object(objects: Objects) -> None:
    won = winners(lambda number: objects.put_if_absent("x/1", str(number).encode()))

    assert [objects.get("x/1")] == [str(number).encode() for number in won]
    assert [found.path for found in objects.list("x")] == ["x/1"]


def test_a_move_does_not_overwrite(objects: Objects) -> None:
    objects.put("from", b"new")
    objects.put("taken", b"old")

    assert not objects.move_if_absent("from", "taken")
    assert objects.get("taken") == b"old"
    assert objects.get("from") == b"new"
    assert objects.move_if_absent("from", "free")
    assert objects.get("free") == b"new"
    assert objects.get("from") is None
    with pytest.raises(NotFoundError):
        objects.move_if_absent("nothing", "x")


def test_what_was_moved_stays_when_another_gets_its_old_name(objects: Objects) -> None:
    objects.put("a/from", b"first")
    assert objects.move_if_absent("a/from", "a/to")

    objects.put("a/from", b"second")
    assert objects.get("a/to") == b"first"
    assert objects.move_if_absent("a/from", "elsewhere/to")
    assert objects.get("elsewhere/to") == b"second"
    assert [found.path for found in objects.list("a")] == ["a/to"]


def test_of_many_that_move_to_one_name_one_arrives(objects: Objects) -> None:
    for number in range(8):
        objects.put(f"x/{number}", str(number).encode())

    moved = winners(lambda number: objects.move_if_absent(f"x/{number}", "x/there"))

    assert [objects.get("x/there")] == [str(number).encode() for number in moved]
    left = {f"x/{number}" for number in range(8) if number not in moved}
    assert {found.path for found in objects.list("x")} == {"x/there", *left}


def test_a_directory_is_listed_one_level_at_a_time(objects: Objects) -> None:
    for path in ("a/1", "a/b/2", "a/b/c/3", "ab/4", "5"):
        objects.put(path, b"x")

    level = objects.list_directory("a")

    assert level.directories == ("b",)
    assert [found.path for found in level.objects] == ["a/1"]
    assert {found.path for found in objects.list("a")} == {"a/1", "a/b/2", "a/b/c/3"}


def test_a_deleted_directory_takes_everything_below_it_and_nothing_beside_it(
    objects: Objects,
) -> None:
    for path in ("a/1", "a/b/2", "ab/3"):
        objects.put(path, b"x")

    objects.delete_directory("a")

    assert [found.path for found in objects.list("")] == ["ab/3"]


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a/../../x", "a\0b"])
def test_no_path_leaves_the_root(objects: Objects, path: str) -> None:
    with pytest.raises(InvalidInputError):
        objects.put(path, b"x")
    with pytest.raises(InvalidInputError):
        objects.get(path)


def test_a_file_left_by_a_crash_is_not_an_object(tmp_path: Path) -> None:
    objects = LocalObjects(str(tmp_path))
    (tmp_path / "1.manifest#123000000001").write_bytes(b"half")

    assert list(objects.list("")) == []


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (errno.EACCES, PermissionDeniedError),
        (errno.EPERM, PermissionDeniedError),
        (errno.EROFS, PermissionDeniedError),
        (errno.ENOSPC, InternalError),
        (errno.EDQUOT, InternalError),
        (errno.ENAMETOOLONG, InvalidInputError),
        (errno.EIO, InternalError),
    ],
)
def test_what_the_disk_says_becomes_an_error_with_a_code(
    cause: int, error: type[LakerootError]
) -> None:
    with pytest.raises(error) as caught, translated("writing x"):
        raise OSError(cause, "the disk's words")

    assert "while writing x" in str(caught.value)


@pytest.mark.parametrize(
    ("root", "uri"),
    [
        ("/my/dir", "/my/dir"),
        ("/my/dir/", "/my/dir"),
        ("file:///my/dir%20x", "/my/dir x"),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("gs://bucket", "gs://bucket"),
        ("az://container/p", "az://container/p"),
    ],
)
def test_a_root_is_written_in_many_ways(root: str, uri: str) -> None:
    assert parse_root(root).uri == uri


def test_a_relative_root_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert parse_root("./lake").uri == str(tmp_path / "lake")


@pytest.mark.parametrize("root", ["", "ftp://x/y", "s3://", "file://host/x", "a\0b"])
def test_a_root_that_is_no_place_is_refused(root: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_root(root)


def test_credentials_are_never_shown() -> None:
    root = parse_root("s3://b/p", {"aws_secret_access_key": "hunter2"})

    assert "hunter2" not in repr(root)


def test_an_unknown_storage_option_is_refused_without_showing_the_others() -> None:
    root = parse_root("s3://b/p", {"aws_secret_access_key": "hunter2", "regoin": "x"})

    with pytest.raises(InvalidInputError, match="regoin") as caught:
        open_root(root)
    assert "hunter2" not in str(caught.value)


def test_an_address_below_the_root_is_known_in_every_form() -> None:
    root = parse_root("/lake")

    assert root.relative("/lake/t.lance") == "t.lance"
    assert root.relative("file:///lake/a/b/") == "a/b"
    assert root.relative("/lakes/t") is None
    assert root.relative("/lake") is None


def test_writers_do_not_mind_that_somebody_deletes_their_directory(objects: Objects) -> None:
    """A directory is no object: it comes and goes with what is in it."""
    failures: list[LakerootError] = []

    def write(number: int) -> None:
        try:
            for round_ in range(150):
                objects.put(f"d/e/put{number}", b"x")
                objects.put_if_absent(f"d/e/new{number}-{round_}", b"x")
        except LakerootError as error:
            failures.append(error)

    def delete() -> None:
        try:
            for _ in range(300):
                objects.delete_directory("d")
        except LakerootError as error:
            failures.append(error)

    deleter = threading.Thread(target=delete)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in (deleter, *writers):
        thread.start()
    for thread in (deleter, *writers):
        thread.join()

    assert failures == []
