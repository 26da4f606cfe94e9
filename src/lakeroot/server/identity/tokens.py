"""Static tokens: long random strings, of which the server keeps only the hash."""

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_PREFIX: Final = "lkr_"
_LONGEST: Final = 512


def new_token() -> str:
    """Make a token of 256 random bits; a fast hash is safe for one that nobody can guess."""
    return _PREFIX + secrets.token_urlsafe(32)


def hash_of(token: str) -> str:
    """The form in which a token is kept."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token that is accepted, by its hash, until it expires."""

    name: str
    sha256: str
    expires: datetime | None = None


class Tokens:
    """Finds whose token it is; the hash is looked up, so timing tells nothing of the token."""

    def __init__(self, tokens: Iterable[StaticToken]) -> None:
        self._by_hash = {token.sha256.lower(): token for token in tokens}

    def found(self, token: str) -> StaticToken | None:
        """The entry of a token that is good now, or nothing."""
        if len(token) > _LONGEST:
            return None
        found = self._by_hash.get(hash_of(token))
        if found is None or (found.expires is not None and found.expires <= datetime.now(UTC)):
            return None
        return found
