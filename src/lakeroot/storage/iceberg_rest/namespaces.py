"""Changing the namespaces of an Iceberg REST catalog; a lost answer is found out."""

import time
from collections.abc import Mapping
from uuid import uuid4

from lakeroot.model.errors import NamespaceAlreadyExistsError, NamespaceNotFoundError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.storage.iceberg_rest.client import Client
from lakeroot.storage.iceberg_rest.faults import OutcomeUnknownError
from lakeroot.storage.iceberg_rest.properties import (
    CREATED_AT,
    KEYS,
    REQUEST_ID,
    difference,
    namespace_properties,
    owners_of_namespace,
)


def create_namespace(client: Client, identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Create a namespace; of several that try at once one succeeds, if the server sees to it.

    A server that checks and writes in two steps may let two succeed; what is kept is one of them.
    """
    if client.server.is_native:
        client.create_namespace(identifier, properties)
        return
    request_id = uuid4().hex
    kept = {
        **namespace_properties(properties),
        REQUEST_ID: request_id,
        CREATED_AT: str(int(time.time() * 1000)),
    }
    for attempt in range(client.config.patience.retries + 1):
        try:
            client.create_namespace(identifier, kept)
        except OutcomeUnknownError:
            made_by = _maker(client, identifier)
            if made_by is None and attempt == client.config.patience.retries:
                raise
            if made_by is None:
                continue
        except NamespaceAlreadyExistsError:
            # It may be our own earlier request, which was slow and not lost.
            made_by = _maker(client, identifier) if attempt else ""
        else:
            # Some servers let two make the same namespace; the one that is kept tells who did.
            # A server that keeps no properties is believed.
            made_by = _maker(client, identifier) or request_id
        if made_by != request_id:
            raise NamespaceAlreadyExistsError(f"There is already a namespace {show(identifier)}")
        return


def _maker(client: Client, identifier: Identifier) -> str | None:
    """Tell which request made a namespace, empty if none of ours; nothing if it is not there."""
    try:
        return client.load_namespace(identifier).get(REQUEST_ID, "")
    except NamespaceNotFoundError:
        return None


def alter_namespace(client: Client, identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Replace the owner's properties of a namespace."""
    kept = client.load_namespace(identifier)
    owners = {*owners_of_namespace(kept), KEYS}
    before = {key: value for key, value in kept.items() if key in owners}
    after = properties if client.server.is_native else namespace_properties(properties)
    updates, removals = difference(before, after)
    if updates or removals:
        client.update_namespace(identifier, updates, removals)
