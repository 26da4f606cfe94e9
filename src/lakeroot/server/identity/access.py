"""What one caller may do: roles granted on identifiers, inherited downwards, denied by default."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from lakeroot.model.identifiers import ROOT, Identifier


class Role(IntEnum):
    """What a grant allows; each role may do everything that the one below it may."""

    READER = 1
    WRITER = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Access:
    """The grants of one caller. A grant on a namespace holds for everything inside it."""

    principal: str
    grants: Mapping[Identifier, Role]

    def role_on(self, identifier: Identifier) -> Role | None:
        """The strongest role that holds for an object, or nothing."""
        grants = self.grants
        found = grants.get(ROOT)
        for end in range(1, len(identifier) + 1):
            here = grants.get(identifier[:end])
            if here is not None and (found is None or here > found):
                found = here
        return found

    def allows(self, identifier: Identifier, role: Role) -> bool:
        """Tell whether the caller has at least this role on an object."""
        held = self.role_on(identifier)
        return held is not None and held >= role

    def sees(self, identifier: Identifier) -> bool:
        """Tell whether the caller may know of a namespace: it, or something inside, is granted."""
        return self.role_on(identifier) is not None or any(
            granted[: len(identifier)] == identifier for granted in self.grants
        )

    def children(self, parent: Identifier) -> list[str]:
        """The names below a namespace that lead to something granted, in order."""
        depth = len(parent)
        return sorted({g[depth] for g in self.grants if len(g) > depth and g[:depth] == parent})

    @property
    def unlimited(self) -> bool:
        """Tell whether the caller may read everything, so that no list needs a filter."""
        return ROOT in self.grants


def strongest(grants: Iterable[tuple[Identifier, Role]]) -> dict[Identifier, Role]:
    """Merge grants: of two on the same object the stronger one counts."""
    merged: dict[Identifier, Role] = {}
    for identifier, role in grants:
        merged[identifier] = max(role, merged.get(identifier, role))
    return merged


EVERYTHING: Final = Access("anonymous", {ROOT: Role.ADMIN})
NOTHING: Final = Access("anonymous", {})
