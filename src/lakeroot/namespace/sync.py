"""Making one catalog say what another says: namespaces, tables, their properties and versions.

Any two Lance namespaces will do. What differs is worked out first, as a list of steps; carrying
them out is repeatable, because what is done is no difference any more. A table is entered in the
target at the location it has, so no data moves; with `copy_data` its files are copied to a place
of the target's own choice, the manifests last, so that no version is seen before it is whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from lance_namespace import LanceNamespace, LanceNamespaceError
from msgspec import Struct, field

from lakeroot.model.errors import LakerootError
from lakeroot.model.identifiers import Identifier, show
from lakeroot.model.progress import each
from lakeroot.namespace.sides import Side, TableFacts
from lakeroot.namespace.table_copy import copy_files, is_behind


class Kind(StrEnum):
    """What a step does to the target."""

    CREATE_NAMESPACE = "create namespace"
    ALTER_NAMESPACE = "alter namespace"
    DECLARE_TABLE = "declare table"
    REGISTER_TABLE = "register table"
    COPY_TABLE = "copy table"
    COPY_VERSIONS = "copy versions"
    ALTER_TABLE = "alter table"
    CONFLICT = "conflict"


class Step(Struct, frozen=True):
    """One difference between two catalogs, and what removes it.

    A conflict is a difference that only a person can remove; it is told and left alone.
    """

    kind: Kind
    identifier: Identifier
    source: Identifier
    why: str = ""
    location: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {show(self.identifier)}" + (f" ({self.why})" if self.why else "")


class Outcome(Struct, frozen=True):
    """What a sync did, and what it could not do."""

    done: tuple[Step, ...] = ()
    failed: tuple[tuple[Step, str], ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the target now says what the source says."""
        return not self.failed


def differences(
    source: LanceNamespace,
    target: LanceNamespace,
    *,
    under: Sequence[str] = (),
    into: Sequence[str] = (),
    copy_data: bool = False,
) -> Iterator[Step]:
    """Work out what the target lacks of the source, parents before their children.

    `under` is the namespace of the source to start from; what is in it comes to be `into` the
    namespace of the target, which is made if it is missing. It may be a single table too.
    """
    comparison = _Comparison(Side(source), Side(target), copy_data=copy_data)
    start, goal = tuple(under), tuple(into)
    for depth in range(1, len(goal) + 1):
        if comparison.target.namespace(goal[:depth]) is None:
            yield Step(Kind.CREATE_NAMESPACE, goal[:depth], start)
    if start and comparison.source.table(start) is not None:
        yield from comparison.single(start, (*goal, start[-1]))
    else:
        yield from comparison.within(start, goal)


def sync(
    source: LanceNamespace,
    target: LanceNamespace,
    *,
    under: Sequence[str] = (),
    into: Sequence[str] = (),
    copy_data: bool = False,
) -> Outcome:
    """Make the target say what the source says; nothing in the target is ever removed.

    A step that fails is told and the others go on; run it again to do the rest.
    """
    done: list[Step] = []
    failed: list[tuple[Step, str]] = []
    sides = Side(source), Side(target)
    steps = list(differences(source, target, under=under, into=into, copy_data=copy_data))
    for step in each(steps, "Carrying over"):
        if step.kind is Kind.CONFLICT:
            failed.append((step, step.why))
            continue
        try:
            _carry_out(step, *sides)
        except (LanceNamespaceError, LakerootError) as error:
            failed.append((step, str(error)))
        else:
            done.append(step)
    return Outcome(tuple(done), tuple(failed))


def copy_table(client: LanceNamespace, here: Sequence[str], there: Sequence[str]) -> Outcome:
    """Copy a table, all versions and files, under another name of the same catalog.

    It may be broken off and begun again. A name that another table has is a conflict.
    """
    side = Side(client)
    done: list[Step] = []
    for step in _Comparison(side, side, copy_data=True).single(tuple(here), tuple(there)):
        if step.kind is Kind.CONFLICT:
            return Outcome(tuple(done), ((step, step.why),))
        _carry_out(step, side, side)
        done.append(step)
    return Outcome(tuple(done))


class _Comparison:
    """One walk over two catalogs."""

    def __init__(self, source: Side, target: Side, *, copy_data: bool) -> None:
        self.source = source
        self.target = target
        self._copy_data = copy_data

    def single(self, here: Identifier, there: Identifier) -> Iterator[Step]:
        """Compare one table of the source with one of the target."""
        yield from self._table(here, there, is_there=self.target.table(there) is not None)

    def within(self, here: Identifier, there: Identifier) -> Iterator[Step]:
        """Compare what is in a namespace of the source with one of the target."""
        has_target = not there or self.target.namespace(there) is not None
        names = set(self.target.tables(there)) if has_target else set()
        for name in self.source.tables(here):
            yield from self._table((*here, name), (*there, name), is_there=name in names)
        known = set(self.target.namespaces(there)) if has_target else set()
        for name in self.source.namespaces(here):
            yield from self._namespace((*here, name), (*there, name), is_there=name in known)
            yield from self.within((*here, name), (*there, name))

    def _namespace(self, here: Identifier, there: Identifier, *, is_there: bool) -> Iterator[Step]:
        wanted = self.source.namespace(here) or {}
        if not is_there:
            yield Step(Kind.CREATE_NAMESPACE, there, here, properties=wanted)
        elif (self.target.namespace(there) or {}) != wanted:
            yield Step(
                Kind.ALTER_NAMESPACE, there, here, "its properties differ", properties=wanted
            )

    def _table(self, here: Identifier, there: Identifier, *, is_there: bool) -> Iterator[Step]:
        wanted = self.source.table(here)
        if wanted is None:
            return  # dropped since it was listed
        if not is_there:
            yield Step(
                self._how_to_enter(wanted),
                there,
                here,
                location=wanted.location,
                properties=wanted.properties,
            )
            return
        found = self.target.table(there)
        if found is None:
            return
        yield from self._contents(here, there, wanted, found)
        if found.properties != wanted.properties:
            yield Step(
                Kind.ALTER_TABLE,
                there,
                here,
                "its properties differ",
                properties=wanted.properties,
            )

    def _how_to_enter(self, wanted: TableFacts) -> Kind:
        if not wanted.has_data:
            return Kind.DECLARE_TABLE
        return Kind.COPY_TABLE if self._copy_data else Kind.REGISTER_TABLE

    def _contents(
        self, here: Identifier, there: Identifier, wanted: TableFacts, found: TableFacts
    ) -> Iterator[Step]:
        if not wanted.has_data or wanted.place == found.place:
            return
        if not self._copy_data:
            why = f"it is at {found.location}, the source's is at {wanted.location}"
            yield Step(Kind.CONFLICT, there, here, why)
            return
        behind = is_behind(wanted, found)
        if behind is None:
            yield Step(Kind.CONFLICT, there, here, "it has versions that the source has not")
        elif behind:
            yield Step(Kind.COPY_VERSIONS, there, here, f"{behind} versions are missing")


def _carry_out(step: Step, source: Side, target: Side) -> None:
    match step.kind:
        case Kind.CREATE_NAMESPACE:
            target.create_namespace(step.identifier, step.properties)
        case Kind.ALTER_NAMESPACE:
            target.alter_namespace(step.identifier, step.properties)
        case Kind.DECLARE_TABLE:
            target.declare_table(step.identifier, step.properties)
        case Kind.REGISTER_TABLE:
            source.finish_versions(step.source)
            target.register_table(step.identifier, step.location, step.properties)
        case Kind.COPY_TABLE:
            target.declare_table(step.identifier, step.properties)
            _copy(step, source, target)
        case Kind.COPY_VERSIONS:
            _copy(step, source, target)
        case Kind.ALTER_TABLE:
            target.alter_table(step.identifier, step.properties)
        case Kind.CONFLICT:
            pass


def _copy(step: Step, source: Side, target: Side) -> None:
    source.finish_versions(step.source)
    original, copy = source.table(step.source), target.table(step.identifier)
    if original is not None and copy is not None:
        copy_files(original, copy)
        target.finish_versions(step.identifier)
