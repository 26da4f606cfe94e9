"""Pages of a listing: sorted, with an opaque token that says where the next one starts."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

from lakeroot.model.errors import InvalidInputError

Item = TypeVar("Item", str, tuple[str, ...])

_SIGN: Final = "lakeroot"


class Page(Generic[Item], Struct, frozen=True):
    """Some of the items, and the token of the next page if there is one."""

    items: list[Item]
    token: str | None = None


def cut(
    source: Callable[[Item | None, int | None], list[Item]],
    after: Item | None,
    limit: int | None,
    keep: Callable[[Item], bool] | None = None,
) -> Page[Item]:
    """Take one page from a source that lists so many items after one."""
    if limit is not None and limit < 0:
        raise InvalidInputError(f"`limit` cannot be {limit}", fix="Use 0 or more, or leave it out")
    if limit == 0:
        return Page([])
    items: list[Item] = []
    while True:
        # One more than asked for, to know whether there is a next page.
        wanted = None if limit is None else limit - len(items) + 1
        found = source(after, wanted)
        items += found if keep is None else filter(keep, found)
        if wanted is None or len(found) < wanted:
            return Page(items)
        after = found[-1]
        if limit is not None and len(items) > limit:
            return Page(items[:limit], token_of(items[limit - 1]))


def token_of(item: str | Sequence[str]) -> str:
    """Write the token of the page after an item."""
    content = json.dumps([_SIGN, item], ensure_ascii=True)
    return base64.urlsafe_b64encode(content.encode()).decode()


def after_name(token: str | None) -> str | None:
    """Read a token of a listing of names; none or an empty one is the beginning."""
    item = _item(token)
    if item is not None and not isinstance(item, str):
        raise _foreign(token)
    return item


def after_identifier(token: str | None) -> tuple[str, ...] | None:
    """Read a token of a listing of identifiers; none or an empty one is the beginning."""
    item = _item(token)
    if item is None:
        return None
    if not isinstance(item, list) or not all(isinstance(name, str) for name in item):
        raise _foreign(token)
    return tuple(item)


def _item(token: str | None) -> object:
    if not token:
        return None
    try:
        content = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError) as error:
        raise _foreign(token) from error
    if not isinstance(content, list) or len(content) != 2 or content[0] != _SIGN:
        raise _foreign(token)
    return content[1]


def _foreign(token: str | None) -> InvalidInputError:
    return InvalidInputError(
        f"The page token {token!r} was not given by this catalog",
        fix="Start without a token, and pass on the one that each answer gives",
    )
