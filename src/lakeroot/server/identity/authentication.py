"""From the headers of a request to what its sender may do."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeroot.model.errors import InvalidInputError, UnauthenticatedError
from lakeroot.server.calls import Caller
from lakeroot.server.identity.access import EVERYTHING, Access
from lakeroot.server.identity.issuers import Issuer
from lakeroot.server.identity.policy import Policy, read_policy
from lakeroot.server.identity.tokens import StaticToken, Tokens

if TYPE_CHECKING:
    from lakeroot.server.identity.oidc import Claims, Verifier

_LOG: Final = logging.getLogger("lakeroot.server")


class Authentication:
    """Knows callers by their tokens; without an access file, nobody is asked."""

    def __init__(self, access_file: Path | None, caller: Caller) -> None:
        self._file = access_file
        self._caller = caller
        self._issuer: Issuer | None = None
        self._verifier: Verifier | None = None
        self._seen: object = None
        self._policy: Policy | None = None
        if access_file is not None:
            self._seen = _state_of(access_file)
            self._take(read_policy(access_file))

    def refresh(self) -> None:
        """Take a changed access file at its word; keep to the last good one if it has a fault."""
        if self._file is None:
            return
        state = _state_of(self._file)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._take(read_policy(self._file))
        except InvalidInputError as problem:
            _LOG.error("the access file is not taken, the one before still holds: %s", problem)
        else:
            _LOG.warning("the access file has changed, and what it says holds from now on")

    def _take(self, policy: Policy) -> None:
        if policy.issuer is None:
            self._verifier = None
        elif policy.issuer != self._issuer:
            from lakeroot.server.identity.oidc import Verifier  # only where there is an issuer

            self._verifier = Verifier(policy.issuer)
        self._issuer = policy.issuer
        self._tokens = Tokens(policy.tokens)
        self._by_token = {t.name: policy.access(f"token:{t.name}") for t in policy.tokens}
        self._policy = policy

    @property
    def asks(self) -> bool:
        """Tell whether callers must say who they are."""
        return self._policy is not None

    def static_token(self, token: str) -> StaticToken | None:
        """The entry of a static token that is good now."""
        return self._tokens.found(token) if self._policy is not None else None

    async def access(self, headers: Mapping[str, str]) -> Access:
        """What the sender may do; refuses a sender who cannot say who they are."""
        policy = self._policy
        if policy is None:
            return EVERYTHING
        known = self.known(headers)
        if known is not None:
            return known
        claims = await self._claims(_token_in(headers))
        if claims is None:
            raise UnauthenticatedError("The token is not valid", fix="Ask for a fresh token")
        return policy.access(f"oidc:{claims.name}", claims.groups)

    def known(self, headers: Mapping[str, str]) -> Access | None:
        """What a sender may do whose token needs no look at an issuer; nothing for any other."""
        if self._policy is None:
            return EVERYTHING
        found = self._tokens.found(_token_in(headers))
        return None if found is None else self._by_token[found.name]

    async def _claims(self, token: str) -> "Claims | None":
        verifier = self._verifier
        if verifier is None:
            return None
        known = verifier.remembered(token)
        return known or await self._caller.run(lambda: verifier.verify(token))


def _state_of(file: Path) -> object:
    try:
        found = file.stat()
    except OSError as problem:
        return problem.errno
    return found.st_ino, found.st_size, found.st_mtime_ns


def _token_in(headers: Mapping[str, str]) -> str:
    given = headers.get("authorization", "")
    scheme, _, token = given.partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    key = headers.get("x-api-key", "")
    if key and not given:
        return key
    raise UnauthenticatedError(
        "This server must know who is asking",
        fix="Send a token as 'Authorization: Bearer …' or 'x-api-key: …'",
    )
