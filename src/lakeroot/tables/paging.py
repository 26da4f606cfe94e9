"""Pages of named things: sorted by name, the token of a page is the last name on it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakeroot.model.errors import InvalidInputError

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some named things in order, and the token of the next page if there is one."""

    items: Mapping[str, Item]
    next_token: str | None = None


def page(
    items: Mapping[str, Item] | Iterable[tuple[str, Item]],
    page_token: str | None = None,
    limit: int | None = None,
) -> Page[Item]:
    """Cut one page out of named things: those after the token, no more than the limit."""
    if limit is not None and limit < 0:
        raise InvalidInputError(
            f"A page cannot have {limit} entries", fix="Use a limit of 1 or more"
        )
    pairs = sorted(items.items() if isinstance(items, Mapping) else items, key=lambda one: one[0])
    if page_token:
        pairs = [one for one in pairs if one[0] > page_token]
    if limit is None or len(pairs) <= limit:
        return Page(dict(pairs))
    chosen = pairs[:limit]
    return Page(dict(chosen), chosen[-1][0] if chosen else None)
