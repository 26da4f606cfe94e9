"""Conflicts: whether what others committed since a snapshot spoils a transaction."""

from dataclasses import dataclass, field

from lakeroot.metastore.index import Chain, Index
from lakeroot.metastore.states import Operation


@dataclass(slots=True)
class Footprint:
    """What a transaction relies on, beyond what it writes.

    `alive` objects must not be deleted, `steady` ones not changed at all, `childless` ones must not
    gain, lose or rename a child. `reads` and `listings` are watched by serialisable transactions.
    """

    alive: set[str] = field(default_factory=set)
    steady: set[str] = field(default_factory=set)
    childless: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    listings: set[str] = field(default_factory=set)


def conflicts(index: Index, since: int, written: set[str], footprint: Footprint) -> set[str]:
    """List the directories where commits after ``since`` spoil a transaction."""
    touched = written | footprint.steady | footprint.reads
    spoiled = {directory for directory in touched if _changed(index, directory, since)}
    for directory in footprint.alive - written:
        chain = index.objects.get(directory)
        if any(r.operation == Operation.DELETE for r in _since(chain, since)):
            spoiled.add(directory)
    for directory in footprint.childless | footprint.listings:
        prefix = f"{directory}/" if directory else ""
        if any(
            _since(index.objects.get(prefix + name), since)
            for name in list(index.children.get(directory, ()))
        ):
            spoiled.add(directory)
    return spoiled


def _changed(index: Index, directory: str, since: int) -> bool:
    chains = (index.objects.get(directory), index.names.get(directory))
    return any(_since(chain, since) for chain in chains)


def _since(chain: Chain | None, since: int) -> Chain:
    # Newer commits are at the end of a chain, except for what another kind of writer slipped in.
    return [revision for revision in (chain or ())[-64:] if revision.sequence > since]
