"""Do names lead to the objects that are called so, and do locations have one owner."""

from collections import defaultdict
from collections.abc import Iterator

from lakeroot.metastore import codecs, naming
from lakeroot.metastore.locators import digest, partition_alias
from lakeroot.metastore.records import Namespace, Partition, Record, Stream, Table
from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import show
from lakeroot.storage.deltacat.checking.findings import finding
from lakeroot.storage.deltacat.checking.survey import Survey
from lakeroot.storage.deltacat.translation import (
    is_lance,
    location_directory,
    read_table,
)
from lakeroot.storage.findings import Finding

PRIVATE = "_"


def examine_names(survey: Survey) -> Iterator[Finding]:
    """Follow every name, and look for the names of every object."""
    for place in sorted(survey.index.names):
        if not place.startswith(PRIVATE):
            yield from _name(survey, place)
    for place, record in [*survey.alive(1), *survey.alive(2)]:
        if isinstance(record, Namespace | Table):
            yield from _named(survey, place, record)


def _name(survey: Survey, place: str) -> Iterator[Finding]:
    target = survey.state.target_of(place)
    parent = place.rpartition("/")[0]
    if target is None or (parent and not survey.is_alive(parent)):
        return
    directory = f"{parent}/{target}" if parent else target
    if not survey.is_alive(directory):
        what, why = "A name leads nowhere", f"there is no object {directory}"
        yield finding("name-dangling", place, what, why, path=place)
        return
    record = survey.read(directory)
    expected = None if record is None else names_of(survey, parent, record)
    if expected is not None and place.rpartition("/")[2] not in expected:
        what = f"A name leads to {directory}, which is called something else"
        yield finding("name-wrong", place, what, "no name of the object is written so", path=place)


def names_of(survey: Survey, parent: str, record: Record) -> set[str] | None:
    """Give the names under which an object may be found; nothing if they cannot be told."""
    match record:
        case Table():
            above = survey.read(parent)
            if not isinstance(above, Namespace):
                return None
            called = (record.name, *record.aliases)
            layout = survey.log.layout
            return {one for n in called for one in naming.name_digests(layout, (above.name, n))}
        case Stream():
            return {digest(record.format)}
        case Partition():
            return {digest(partition_alias(record.values or None, record.partition_scheme_id))}
        case _:
            return None  # A namespace does not know its aliases.


def _named(survey: Survey, place: str, record: Namespace | Table) -> Iterator[Finding]:
    parent = place.rpartition("/")[0]
    above = survey.read(parent) if parent else None
    parts: tuple[str, ...] = (record.name,)
    if isinstance(above, Namespace):
        parts = (above.name, record.name)
    prefix = f"{parent}/" if parent else ""
    digests = naming.name_digests(survey.log.layout, parts)
    targets = [t for d in digests if (t := survey.state.target_of(prefix + d)) is not None]
    name = show(parts)
    if not targets:
        what = f"{name} is listed, and cannot be opened"
        why = "its name leads nowhere"
        yield finding("object-unnamed", name, what, why, path=place)
    elif targets[0] != record.id and survey.is_alive(prefix + targets[0]):
        what = f"Two objects are called {name}"
        why = f"the name leads to {prefix}{targets[0]}, and {place} cannot be opened"
        yield finding("name-duplicate", name, what, why, path=place)


def examine_locations(survey: Survey) -> Iterator[Finding]:
    """Look whether every Lance table owns its location, alone."""
    owners: dict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for place, record in survey.alive(2):
        above = survey.read(place.partition("/")[0])
        if isinstance(record, Table) and is_lance(record) and isinstance(above, Namespace):
            table = read_table(codecs.with_names(record, above.name))
            owners[table.location].append((place, table.identifier))
    for location, found in sorted(owners.items()):
        for place, identifier in found:
            name = show(identifier)
            if len(found) > 1:
                what, why = f"{name} shares its directory", f"{len(found)} tables are at {location}"
                yield finding(
                    "row-location-shared", name, what, why, identifier=identifier, path=location
                )
            elif _claim(survey, location) != place.replace("/", "."):
                what = f"The directory of {name} could be given to another table"
                why = f"nobody has claimed {location} for it"
                yield finding(
                    "location-unclaimed", name, what, why, identifier=identifier, path=place
                )


def _claim(survey: Survey, location: str) -> str | None:
    try:
        return survey.state.target_of(location_directory(location))
    except LakerootError:
        return None
