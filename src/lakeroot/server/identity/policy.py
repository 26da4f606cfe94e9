"""The access file: which tokens and issuers are accepted, and who may do what where.

[[tokens]]
name = "etl"
sha256 = "…"                    # of the token; `lakeroot token create` writes all of this
expires = 2027-01-01T00:00:00Z  # may be left out

[oidc]
issuer = "https://login.example.com"
audience = "lakeroot"
algorithms = ["RS256"]

[[grants]]
to = "token:etl"                # or "oidc:<subject>", "group:<name>", "anyone"
role = "writer"                 # reader, writer or admin
on = ["prod", "users"]          # a namespace or a table; [] is everything
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakeroot.model.errors import InvalidInputError
from lakeroot.model.identifiers import Identifier, identifier_of
from lakeroot.server.identity.access import Access, Role, strongest
from lakeroot.server.identity.issuers import Issuer
from lakeroot.server.identity.tokens import StaticToken

ANYONE = "anyone"
_KINDS = ("token:", "oidc:", "group:")


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for somebody on a namespace or a table, and on everything inside it."""

    to: str
    role: Role
    on: Identifier


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything the access file says."""

    tokens: tuple[StaticToken, ...] = ()
    issuer: Issuer | None = None
    grants: tuple[Grant, ...] = ()

    def access(self, principal: str, groups: tuple[str, ...] = ()) -> Access:
        """What somebody may do: their own grants, those of their groups, and those of anyone."""
        names = {principal, ANYONE, *(f"group:{group}" for group in groups)}
        return Access(principal, strongest((g.on, g.role) for g in self.grants if g.to in names))


def read_policy(file: Path) -> Policy:
    """Read the access file; anything it does not understand is an error."""
    try:
        return parse_policy(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as problem:
        raise InvalidInputError(f"The access file {file} is not UTF-8") from problem
    except OSError as problem:
        raise InvalidInputError(
            f"The access file {file} cannot be read", problem.strerror or ""
        ) from problem
    except InvalidInputError as problem:
        why = f"{problem.what}: {problem.why}" if problem.why else problem.what
        raise InvalidInputError(
            f"The access file {file} is not valid", why, problem.fix
        ) from problem


def parse_policy(text: str) -> Policy:
    """Understand the text of an access file."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidInputError("It is not TOML", str(problem)) from problem
    _only(found, {"tokens", "oidc", "grants"}, "the access file")
    for kind in ("tokens", "grants"):
        if not _is_tables(found.get(kind, [])):
            raise InvalidInputError(f"{kind} is not a list of tables", fix=f"Write [[{kind}]]")
    return Policy(
        tuple(_token(entry) for entry in found.get("tokens", [])),
        _issuer(found["oidc"]) if "oidc" in found else None,
        tuple(grant_of(entry) for entry in found.get("grants", [])),
    )


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _token(entry: Mapping[str, Any]) -> StaticToken:
    _only(entry, {"name", "sha256", "expires"}, "a token")
    digest = str(entry.get("sha256", ""))
    if len(digest) != 64 or not set(digest.lower()) <= set("0123456789abcdef"):
        raise InvalidInputError(
            f"The token {entry.get('name')!r} has no sha256 of 64 hexadecimal digits",
            fix="Write the hash of the token, never the token itself",
        )
    expires = entry.get("expires")
    if expires is not None and not isinstance(expires, datetime):
        raise InvalidInputError(f"The token {entry.get('name')!r} expires at no date and time")
    if expires is not None and expires.tzinfo is None:
        expires = expires.replace(tzinfo=UTC)
    return StaticToken(_text(entry, "name", "a token"), digest, expires)


def _issuer(entry: Mapping[str, Any]) -> Issuer:
    known = {"issuer", "audience", "algorithms", "jwks_uri", "name_claim", "groups_claim"}
    _only(entry, known, "oidc")
    fields: dict[str, Any] = {
        key: _text(entry, key, "oidc")
        for key in ("issuer", "audience", *sorted(entry))
        if key != "algorithms"
    }
    if "algorithms" in entry:
        names = entry["algorithms"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidInputError(
                "algorithms in oidc is not a list of names", fix='Write algorithms = ["RS256"]'
            )
        fields["algorithms"] = tuple(names)
    return Issuer(**fields)


def grant_of(entry: Mapping[str, Any]) -> Grant:
    """Understand one grant of the access file."""
    _only(entry, {"to", "role", "on"}, "a grant")
    to = _text(entry, "to", "a grant")
    if to != ANYONE and not to.startswith(_KINDS):
        raise InvalidInputError(
            f"A grant to {to!r} names nobody",
            fix='Write "token:<name>", "oidc:<subject>", "group:<name>" or "anyone"',
        )
    role = _text(entry, "role", "a grant").upper()
    if role not in Role.__members__:
        raise InvalidInputError(
            f"There is no role {entry['role']!r}", fix="Choose reader, writer or admin"
        )
    if not isinstance(entry.get("on"), list):
        raise InvalidInputError(
            f"The grant to {to!r} is on nothing", fix="Write on = [names]; [] is everything"
        )
    return Grant(to, Role[role], identifier_of(entry["on"]))


def _only(entry: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(entry) - known)
    if unknown:
        raise InvalidInputError(f"Unknown key {unknown[0]!r} in {where}")


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidInputError(f"There is no {key} in {where}")
    return value
