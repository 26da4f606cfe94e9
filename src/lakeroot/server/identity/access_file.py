"""Changing the access file: an entry comes or goes, everything else stays as a person wrote it.

The file is cut into its entries, each of which is TOML of its own, and put together again without
those that go. The new text is understood as the server would before it takes the place of the old
one, in one step; so a server that reads at this moment sees one or the other.
"""

import fcntl
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from lakeroot.model.errors import ConcurrentModificationError, InvalidInputError, NotFoundError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.server.identity.access import Role
from lakeroot.server.identity.policy import Grant, parse_policy, read_policy
from lakeroot.server.identity.tokens import hash_of, new_token

_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}\Z")
Entry = tuple[str, dict[str, Any]]


class AlreadyThereError(ConcurrentModificationError):
    """What should be added is there already."""


class NoSuchEntryError(NotFoundError):
    """What should be removed is not there."""

    code = 4


def add_token(
    file: Path, name: str, *, expires: datetime | None = None, another: bool = False
) -> str:
    """Make a token and keep its hash; the token itself is given back and kept nowhere."""
    if not _NAME.match(name):
        raise InvalidInputError(
            f"{name!r} is not a name for a token",
            fix="Use letters, digits and . _ @ -, beginning with a letter or a digit",
        )
    token = new_token()
    lines = ["[[tokens]]", f"name = {json.dumps(name)}"]
    if expires is not None:
        lines.append(f"expires = {expires.isoformat(timespec='seconds')}")
    # Last: if the end of the file is lost, a token is not accepted rather than accepted for ever.
    lines.append(f'sha256 = "{hash_of(token)}"')

    def added(text: str) -> str:
        if not another and any(kept.name == name for kept in parse_policy(text).tokens):
            raise AlreadyThereError(
                f"There is a token {name} already",
                fix="Choose another name, revoke it, or add a second one for a rotation",
            )
        return _appended(text, lines)

    _change(file, added)
    return token


def remove_token(file: Path, name: str, prefix: str = "", *, dry_run: bool = False) -> int:
    """Take a token away, all of that name or those whose hash begins so; gives their number."""

    def goes(kind: str, entry: dict[str, Any]) -> bool:
        return (
            kind == "tokens"
            and entry.get("name") == name
            and str(entry.get("sha256")).lower().startswith(prefix.lower())
        )

    return _remove(file, goes, f"There is no such token {name}", dry_run=dry_run)


def add_grant(file: Path, grant: Grant) -> None:
    """Give somebody a role on something."""
    lines = [
        "[[grants]]",
        f"to = {json.dumps(grant.to, ensure_ascii=False)}",
        f'role = "{grant.role.name.lower()}"',
        f"on = {json.dumps(list(grant.on), ensure_ascii=False)}",
    ]

    def added(text: str) -> str:
        policy = parse_policy(text)
        if grant in policy.grants:
            raise AlreadyThereError(f"{grant.to} has this role already")
        kind, _, name = grant.to.partition(":")
        if kind == "token" and all(kept.name != name for kept in policy.tokens):
            raise NoSuchEntryError(
                f"There is no token {name} in the access file",
                fix=f"Make it first: lakeroot token create {name}",
            )
        return _appended(text, lines)

    _change(file, added)


def remove_grant(
    file: Path, to: str, role: Role | None, on: Identifier, *, dry_run: bool = False
) -> int:
    """Take a role on something away from somebody; without a role, every one."""

    def goes(kind: str, entry: dict[str, Any]) -> bool:
        return (
            kind == "grants"
            and entry.get("to") == to
            and entry.get("on") == list(on)
            and (role is None or str(entry.get("role")).upper() == role.name)
        )

    missing = f"There is no such grant to {to} on {show(on) or 'everything'}"
    return _remove(file, goes, missing, dry_run=dry_run)


def _remove(
    file: Path, goes: Callable[[str, dict[str, Any]], bool], missing: str, *, dry_run: bool
) -> int:
    gone = 0
    read_policy(file)  # a file that is not there, or not valid, is said to be so

    def removed(text: str) -> str:
        nonlocal gone
        pieces = _pieces(text)
        kept = [piece for piece in pieces if not any(goes(*e) for e in _entries(piece))]
        gone = len(pieces) - len(kept)
        if not gone:
            raise NoSuchEntryError(missing)
        return "".join(kept)

    if dry_run:
        removed(file.read_text(encoding="utf-8"))
    else:
        _change(file, removed)
    return gone


def _pieces(text: str) -> list[str]:
    """Cut the text before each of its headers; every piece must stand for itself."""
    cuts = [0, *(found.start() for found in _HEADER.finditer(text)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts) if start < end]
    try:
        if all(len(_entries(piece)) == piece.lstrip().startswith("[[") for piece in pieces):
            return pieces
    except tomllib.TOMLDecodeError:
        pass
    raise _by_hand()


def _by_hand() -> InvalidInputError:
    return InvalidInputError(
        "The access file is written in a way that this command cannot change",
        "an entry is not a [[tokens]] or [[grants]] of its own",
        "Take the entry out with an editor",
    )


def _entries(text: str) -> list[Entry]:
    found = tomllib.loads(text)
    return [(kind, one) for kind in ("tokens", "grants") for one in found.get(kind, [])]


def _appended(text: str, lines: list[str]) -> str:
    before = text if not text or text.endswith("\n") else f"{text}\n"
    return before + ("\n" if before else "") + "\n".join(lines) + "\n"


def _change(file: Path, change: Callable[[str], str]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with _alone(file.parent):
            mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            changed = change(text)
            parse_policy(changed)
            _replace(file, changed, mode)
    except UnicodeDecodeError as problem:
        raise InvalidInputError(f"The access file {file} is not UTF-8") from problem
    except OSError as problem:
        raise InvalidInputError(
            f"The access file {file} cannot be changed", problem.strerror or str(problem)
        ) from problem


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep others who change files of this directory waiting; the file itself is replaced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(file: Path, text: str, mode: int) -> None:
    # A link, as configuration is often mounted, stays one: what it points to is replaced.
    target = file.resolve()
    descriptor, fresh = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fchmod(out.fileno(), mode)
            os.fsync(out.fileno())
        Path(fresh).replace(target)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
