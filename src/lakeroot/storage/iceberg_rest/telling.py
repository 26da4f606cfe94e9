"""Telling Lance tables from others, with as few requests as the server allows.

A server may say in a list what each table is: as `table_type` beside the name, or in `properties`.
Lakeroot's own does. Of the others each table is asked for, several at a time, only as far as a page
needs it, without its history, and with the tag of the last answer, so that a server that knows tags
(`ETag`) answers with a few bytes.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from lakeroot.model.errors import NotFoundError, PermissionDeniedError
from lakeroot.model.identifiers import Identifier
from lakeroot.storage.iceberg_rest.client import Client, Json
from lakeroot.tables.iceberg import is_lance

AT_ONCE: Final = 8
_MOST_REMEMBERED: Final = 100_000
_LISTS: Final = 5
"""How often a list is repeated whose tables go while they are looked at."""


class Telling:
    """Says which tables of one catalog are Lance tables."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: OrderedDict[Identifier, tuple[str, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def names(
        self, namespace: Identifier, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """List the names of the Lance tables of a namespace, sorted, starting after a name."""
        if not namespace:
            return []
        names: list[str] = []
        gone: set[str] = set()
        for _ in range(_LISTS):
            before = gone
            names, gone = self._listed(namespace, after, limit)
            if gone == before:
                break  # Nothing is gone, or what a list names though it is never there.
        return names

    def _listed(
        self, namespace: Identifier, after: str | None, limit: int | None
    ) -> tuple[list[str], set[str]]:
        """List once; tell what was listed, and not there any more when it was looked at.

        A table that was renamed in between would be missing under both of its names.
        """
        listed = sorted(
            (e for e in self._client.list_tables(namespace) if after is None or e["name"] > after),
            key=lambda entry: str(entry["name"]),
        )
        limit = len(listed) if limit is None else min(limit, len(listed))
        step = max(limit, AT_ONCE)
        names: list[str] = []
        gone: set[str] = set()
        for at in range(0, len(listed), step):
            if len(names) >= limit:
                break
            kinds = self._kinds(namespace, listed[at : at + step])
            gone.update(name for name, is_one in kinds.items() if is_one is None)
            names += (name for name, is_one in kinds.items() if is_one)
        return names[:limit], gone

    def may_be_lance(self, listed: Json) -> bool:
        """Tell whether what a list says of a table leaves open that it is a Lance table."""
        return self._told(listed) is not False

    def _kinds(self, namespace: Identifier, listed: Sequence[Json]) -> dict[str, bool | None]:
        """Tell which tables are Lance tables; nothing of those that are gone since."""
        kinds = {str(entry["name"]): self._told(entry) for entry in listed}
        unknown = [name for name, kind in kinds.items() if kind is None]
        if unknown:
            with ThreadPoolExecutor(min(AT_ONCE, len(unknown))) as pool:
                looked_at = pool.map(lambda name: self._look((*namespace, name)), unknown)
                kinds.update(zip(unknown, looked_at, strict=True))
        return kinds

    def _told(self, listed: Json) -> bool | None:
        if self._client.server.has_only_lance:
            return True
        properties = listed.get("properties")
        if isinstance(properties, Mapping):
            return is_lance(properties)
        return is_lance(listed) if "table_type" in listed else None

    def _look(self, identifier: Identifier) -> bool | None:
        with self._lock:
            tag, before = self._seen.get(identifier, (None, False))
        try:
            told, tag = self._client.load_table_unless(identifier, tag)
        except NotFoundError:
            return None
        except PermissionDeniedError:
            return False  # nothing we may ever open
        is_one = before if told is None else is_lance(properties_in(told))
        if tag is not None:
            self._remember(identifier, tag, is_one=is_one)
        return is_one

    def _remember(self, identifier: Identifier, tag: str, *, is_one: bool) -> None:
        with self._lock:
            self._seen[identifier] = (tag, is_one)
            self._seen.move_to_end(identifier)
            while len(self._seen) > _MOST_REMEMBERED:
                self._seen.popitem(last=False)


def properties_in(told: Json) -> Mapping[str, Any]:
    """Find the properties in the answer of a load or a create."""
    metadata = told.get("metadata")
    properties = metadata.get("properties") if isinstance(metadata, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}
