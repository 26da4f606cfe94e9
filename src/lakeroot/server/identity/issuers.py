"""The OpenID Connect issuers that an access file may name."""

from dataclasses import dataclass
from typing import Final

from lakeroot.model.errors import InvalidInputError

ASYMMETRIC: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)


@dataclass(frozen=True, slots=True)
class Issuer:
    """An issuer that is trusted, for one audience, with these algorithms."""

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256",)
    jwks_uri: str | None = None
    name_claim: str = "sub"
    groups_claim: str = "groups"

    def __post_init__(self) -> None:
        wrong = [name for name in self.algorithms if name not in ASYMMETRIC]
        if wrong or not self.algorithms:
            raise InvalidInputError(
                f"The issuer {self.issuer} cannot use the algorithms {wrong}",
                "only algorithms with a public key can be checked safely",
                f"Choose from {', '.join(sorted(ASYMMETRIC))}",
            )
