"""Objects in a directory of a local disk.

Written on the operating system's calls rather than on obstore: the question "is there a newer
version?" is asked before every read of a catalog, and costs 2 µs as a ``stat`` but 50 µs through a
thread pool of a runtime.
"""

import contextlib
import errno
import io
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, TypeVar

from lakeroot.model.errors import InvalidInputError, LakerootError, NotFoundError
from lakeroot.objects import disks
from lakeroot.objects.contract import Listing, ObjectInfo
from lakeroot.objects.faults import translated

_SERIAL: Final = itertools.count()
_CHUNK: Final = 8 << 20
_SMALL: Final = 64 << 10
_ATTEMPTS: Final = 1000

Written = TypeVar("Written")


class LocalObjects:
    """Objects under a directory. It is made on the first write, never on a read."""

    def __init__(self, root: str, *, fsync: bool = False) -> None:
        self.root = root
        self._is_durable = fsync
        self._prefix = root.rstrip("/") + "/"

    @cached_property
    def _disk(self) -> disks.Disk:
        return disks.disk_of(self.root)

    @cached_property
    def _is_waited_for(self) -> bool:
        """Whether there is a disk to wait for."""
        return self._is_durable and not self._disk.is_memory

    def local_path(self, path: str) -> str:
        """Give the place of an object on the disk."""
        if path.startswith("/") or "\0" in path or (".." in path and ".." in path.split("/")):
            raise InvalidInputError(f"The path {path!r} is not inside the root")
        return self._prefix + path

    def get(self, path: str) -> bytes | None:
        """Read a whole object; nothing if there is none."""
        try:
            return _content(self.local_path(path))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            with translated(f"reading {path}"):
                raise error from None

    def make_directory(self, path: str) -> None:
        """Make a directory for what will be put there: cheaper than to find out that it is not."""
        with translated(f"making the directory {path}"):
            _make_directory(self.local_path(path))

    def put(self, path: str, data: bytes, *, is_named_later: bool = False) -> None:
        """Write a whole object, in place of the one that was there."""
        target = self.local_path(path)
        directory = os.path.dirname(target)  # noqa: PTH120

        def put() -> None:
            os.replace(self._write_beside(target, (data,)), target)  # noqa: PTH105 (one call, no objects)
            # Its content is on the disk; whatever brings a later name there brings this one too.
            if not (is_named_later and self._disk.brings_along(directory)):
                self._sync_directory(target)

        with translated(f"writing {path}"):
            _while_pruned(put)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole object unless there is one; tell whether it was written. Atomic."""
        with translated(f"writing {path}"):
            target = self.local_path(path)
            return _while_pruned(lambda: self._publish(self._write_beside(target, (data,)), target))

    def read_chunks(self, path: str) -> Iterator[bytes] | None:
        """Read an object in pieces of a few megabytes; nothing if there is none."""
        with translated(f"reading {path}"):
            try:
                opened = io.FileIO(self.local_path(path))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
        return self._chunks(path, opened)

    def _chunks(self, path: str, opened: io.FileIO) -> Iterator[bytes]:
        with opened, translated(f"reading {path}"):
            while chunk := opened.read(_CHUNK):
                yield chunk

    def write_chunks(self, path: str, chunks: Iterable[bytes], size: int) -> None:
        """Write a whole object of about this size; it is seen when it is whole, or never."""
        del size  # a file takes what comes
        with translated(f"writing {path}"):
            target = self.local_path(path)
            os.replace(self._write_beside(target, chunks), target)  # noqa: PTH105
            self._sync_directory(target)

    def move_if_absent(self, source: str, target: str, *, flush: bool = True) -> bool:
        """Give an object another name unless that is taken; tell whether it was given.

        Two steps, because renaming replaces what is there. What is in the object is not flushed:
        whoever wrote it has done so, or asked for it.
        """
        try:
            self._link(source, target, flush=flush)
        except FileExistsError:
            return False
        except OSError:
            # Not on this disk, or there is nothing, or a link: what it leads to is taken, as it is.
            data = self.get(source)
            if data is None:
                raise NotFoundError(f"There is no object at {source}") from None
            if not self.put_if_absent(target, data):
                return False
        with contextlib.suppress(LakerootError):  # Others' files may have to stay.
            self.delete([source])
        return True

    def _link(self, source: str, target: str, *, flush: bool) -> None:
        """Give an object a second name; objects are never changed in place."""
        place = self.local_path(source)
        found = os.lstat(place)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), place)
        os.utime(place)  # It is as old as its name.
        os.link(place, self.local_path(target))
        # Where the order of changes may be lost, both names could be.
        if flush or not self._disk.is_ordered or found.st_dev != self._disk.device:
            self._sync_directory(self.local_path(target))

    def flush(self, paths: Sequence[str], *, are_named_later: bool = False) -> None:
        """Wait until objects that somebody else wrote are on the disk, and their names with them.

        Many cost little more than one.
        """
        if not self._is_waited_for:
            return
        places = [self.local_path(path) for path in paths]
        try:
            disks.flush_all(places, self._disk, are_named_later=are_named_later)
        except OSError as error:
            with translated(f"flushing {', '.join(paths[:3])}"):
                raise error from None

    def head(self, path: str) -> ObjectInfo | None:
        """Describe an object; nothing if there is none."""
        with translated(f"looking at {path}"):
            try:
                found = os.stat(self.local_path(path))  # noqa: PTH116
            except (FileNotFoundError, NotADirectoryError):
                return None
            return _info(path, found) if stat.S_ISREG(found.st_mode) else None

    def exists(self, path: str) -> bool:
        """Tell whether there is an object at the path."""
        try:
            return stat.S_ISREG(os.stat(self._prefix + path).st_mode)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return self.head(path) is not None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List every object below a directory, at any depth, in no particular order."""
        pending = [prefix.rstrip("/")]
        while pending:
            directory = pending.pop()
            level = self.list_directory(directory)
            yield from level.objects
            below = directory + "/" if directory else ""
            pending.extend(below + name for name in level.directories)

    def list_directory(self, prefix: str) -> Listing:
        """List one level of a directory; an absent directory is an empty one."""
        prefix = prefix.rstrip("/")
        below = prefix + "/" if prefix else ""
        directories: list[str] = []
        objects: list[ObjectInfo] = []
        with translated(f"listing {prefix or 'the root'}"):
            try:
                with os.scandir(self.local_path(prefix)) as entries:
                    for entry in entries:
                        if entry.is_dir():
                            directories.append(entry.name)
                        elif not _is_unfinished(entry.name):
                            with contextlib.suppress(FileNotFoundError):
                                objects.append(_info(below + entry.name, entry.stat()))
            except (FileNotFoundError, NotADirectoryError):
                pass
        return Listing(tuple(directories), tuple(objects))

    def list_names(self, prefix: str) -> tuple[str, ...]:
        """List the names in a directory, without looking at what they name."""
        with translated(f"listing {prefix}"):
            try:
                names = os.listdir(self.local_path(prefix.rstrip("/")))  # noqa: PTH208
            except (FileNotFoundError, NotADirectoryError):
                return ()
        return tuple(name for name in names if "#" not in name or not _is_unfinished(name))

    def list_unfinished(self, prefix: str) -> Iterator[ObjectInfo]:
        """List what writers have begun below a directory, or left there when they crashed."""
        with translated(f"listing {prefix}"):
            for directory, _, names in os.walk(self.local_path(prefix)):
                for name in filter(_is_unfinished, names):
                    place = os.path.join(directory, name)  # noqa: PTH118 (the root ends in a slash)
                    with contextlib.suppress(FileNotFoundError):
                        yield _info(place.removeprefix(self._prefix), os.stat(place))  # noqa: PTH116

    def has_any(self, prefix: str) -> bool:
        """Tell whether there is at least one object below a directory."""
        pending = [self.local_path(prefix.rstrip("/"))]
        with translated(f"listing {prefix or 'the root'}"):
            while pending:
                try:
                    with os.scandir(pending.pop()) as entries:
                        # Any name will do: none of the files is looked at.
                        for entry in entries:
                            if entry.is_dir():
                                pending.append(entry.path)
                            elif not _is_unfinished(entry.name) and _leads_anywhere(entry):
                                return True
                except (FileNotFoundError, NotADirectoryError):
                    continue
        return False

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those already gone are fine."""
        for path in paths:
            try:
                os.unlink(self.local_path(path))  # noqa: PTH108
            except FileNotFoundError:
                continue
            except OSError as error:
                with translated(f"deleting {path}"):
                    raise error from None

    def delete_directory(self, prefix: str) -> None:
        """Delete every object below a directory, and the directory itself where there is one."""
        import shutil  # Loads compressors, which a listing would wait for.

        with translated(f"deleting {prefix}"):
            target = self.local_path(prefix.rstrip("/"))
            while os.path.lexists(target):
                # A writer may add a file between the emptying and the removal: go round again.
                try:
                    shutil.rmtree(target)
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                        raise

    def prune_directory(self, prefix: str) -> None:
        """Remove a directory without a single object, where a storage has such a thing."""
        target = self.local_path(prefix.rstrip("/"))
        for directory, _, _ in os.walk(target, topdown=False):
            with contextlib.suppress(OSError):  # It is not empty, or somebody else was quicker.
                os.rmdir(directory)  # noqa: PTH106

    def _write_beside(self, target: str, chunks: Iterable[bytes]) -> str:
        # Names that end in '#' and digits are unfinished for every client built on Rust's
        # object_store too, so a file left by a crash is never mistaken for an object.
        unfinished = f"{target}#{os.getpid()}{next(_SERIAL):09d}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(unfinished, flags, 0o666)
        except FileNotFoundError:
            self._make_directory(os.path.dirname(target))  # noqa: PTH120
            handle = os.open(unfinished, flags, 0o666)
        try:
            for chunk in chunks:
                view = memoryview(chunk)
                while view:
                    view = view[os.write(handle, view) :]
            if self._is_waited_for:
                os.fsync(handle)
        except BaseException:
            os.unlink(unfinished)  # noqa: PTH108
            raise
        finally:
            os.close(handle)
        return unfinished

    def _make_directory(self, place: str) -> None:
        if not self._is_waited_for:
            _make_directory(place)
            return
        # A new directory is an entry of the one above it, which has to be flushed as well.
        missing, above = [], place
        while not os.path.isdir(above):  # noqa: PTH112
            missing.append(above)
            above = os.path.dirname(above)  # noqa: PTH120
        _make_directory(place)
        for made in missing:
            self._sync_directory(made)

    def _publish(self, unfinished: str, target: str) -> bool:
        try:
            os.link(unfinished, target)
        except FileExistsError:
            return False
        finally:
            # Whoever deletes the directory may have taken it: the object was there all the same.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished)  # noqa: PTH108
        self._sync_directory(target)
        return True

    def _sync_directory(self, target: str) -> None:
        if self._is_waited_for:
            disks.flush(target[: target.rindex("/")] or "/")


def _make_directory(place: str) -> None:
    """Make a directory; most often the one above it is there."""
    try:
        os.mkdir(place)  # noqa: PTH102
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(place, exist_ok=True)  # noqa: PTH103


def _while_pruned(write: Callable[[], Written]) -> Written:
    """Write again where somebody deletes the directory meanwhile: an object needs none."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            return write()
    return write()


def _content(place: str) -> bytes:
    """Read a file in as few calls as it takes: most are small."""
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(handle, _SMALL)
        if len(content) < _SMALL:
            return content
        parts = [content]
        while part := os.read(handle, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def _info(path: str, found: os.stat_result) -> ObjectInfo:
    e_tag = f"{found.st_ino:x}-{found.st_mtime_ns // 1000:x}-{found.st_size:x}"
    return ObjectInfo(path, found.st_size, found.st_mtime_ns // 1_000_000, e_tag)


def _leads_anywhere(entry: os.DirEntry[str]) -> bool:
    return not entry.is_symlink() or os.path.exists(entry.path)  # noqa: PTH110


def _is_unfinished(name: str) -> bool:
    _, mark, serial = name.rpartition("#")
    return bool(mark) and serial.isdigit()
