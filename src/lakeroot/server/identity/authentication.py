"""From the headers of a request to what its sender may do."""

from collections.abc import Mapping

from lakeroot.model.errors import UnauthenticatedError
from lakeroot.server.calls import Caller
from lakeroot.server.identity.access import EVERYTHING, Access
from lakeroot.server.identity.oidc import Claims, Verifier
from lakeroot.server.identity.policy import Policy
from lakeroot.server.identity.tokens import Tokens


class Authentication:
    """Knows callers by their tokens; without a policy, nobody is asked."""

    def __init__(self, policy: Policy | None, caller: Caller) -> None:
        self._policy = policy
        self._caller = caller
        self._tokens = Tokens(policy.tokens if policy else ())
        self._verifier = Verifier(policy.issuer) if policy and policy.issuer else None
        self._by_token = (
            {t.name: policy.access(f"token:{t.name}") for t in policy.tokens} if policy else {}
        )

    async def access(self, headers: Mapping[str, str]) -> Access:
        """What the sender may do; refuses a sender who cannot say who they are."""
        policy = self._policy
        if policy is None:
            return EVERYTHING
        token = _token_in(headers)
        name = self._tokens.name_of(token)
        if name is not None:
            return self._by_token[name]
        claims = await self._claims(token)
        if claims is None:
            raise UnauthenticatedError("The token is not valid", fix="Ask for a fresh token")
        return policy.access(f"oidc:{claims.name}", claims.groups)

    async def _claims(self, token: str) -> Claims | None:
        verifier = self._verifier
        if verifier is None:
            return None
        known = verifier.remembered(token)
        return known or await self._caller.run(lambda: verifier.verify(token))


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
