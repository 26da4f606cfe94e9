"""A crash at every storage call of every verb: the commit is whole or undone, a retry succeeds."""

import contextlib
import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from obstore.store import MemoryStore

from lakeroot.catalog import Catalog
from lakeroot.catalog.modes import DropBehavior, RegisterMode
from lakeroot.model.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    ServiceUnavailableError,
)
from lakeroot.model.identifiers import Identifier
from lakeroot.model.records import Namespace, Table
from lakeroot.objects import Objects, Root
from lakeroot.objects.remote import RemoteObjects
from lakeroot.storage.lance_dir import DirectorySettings, LanceDirStore
from tests.faults.objects import Crash, FailsEarly, Fragile, LosesReplies, When

ROOT = Root("memory://faults", is_local=False)
MODES = {
    "v1": DirectorySettings(manifest_enabled=False),
    "v2": DirectorySettings(dir_listing_enabled=False),
    "compat": DirectorySettings(),
}
Seen = dict[Identifier, Any]


def catalog_on(objects: Objects, mode: str) -> Catalog:
    return Catalog(LanceDirStore(ROOT, MODES[mode], objects))


def seen(catalog: Catalog) -> Seen:
    """Everything a fresh client finds, told so that two states can be compared."""
    found: Seen = {}
    pending: list[Identifier] = [()]
    while pending:
        parent = pending.pop()
        found[parent] = dict(catalog.describe_namespace(parent).properties)
        pending += [(*parent, name) for name in catalog.list_namespaces(parent).items]
        for name in catalog.list_tables(parent).items:
            table = catalog.table((*parent, name))
            files = catalog.store.files(table)
            content = [one.path for one in files.list("") if not one.path.startswith(".lance-")]
            found[(*parent, name)] = (dict(table.properties), sorted(content))
    return found


def written(objects: Objects, location: str) -> None:
    """Put the files of a table there; what they hold does not matter to a catalog."""
    for path in ("_versions/1.manifest", "data/a.lance", "data/b.lance"):
        objects.put(f"{location}/{path}", b"x")


@functools.cache
def furniture(mode: str) -> dict[str, bytes]:
    """The files of a catalog with some of everything."""
    objects = RemoteObjects(MemoryStore())
    catalog = catalog_on(objects, mode)
    for name in ("t", "u", "gone"):
        table = catalog.declare_table((name,))
        written(objects, table.location)
    catalog.deregister_table(("gone",))
    if mode != "v1":
        catalog.create_namespaces([(("a",), {"x": "1"}), (("a", "b"), {}), (("empty",), {})])
        for identifier in (("a", "t"), ("a", "b", "u")):
            table = catalog.declare_table(identifier, {"y": "1"})
            written(objects, table.location)
    return {found.path: objects.get(found.path) or b"" for found in objects.list("")}


def furnished(mode: str) -> Objects:
    """A catalog with some of everything, for one test alone."""
    objects = RemoteObjects(MemoryStore())
    for path, content in furniture(mode).items():
        objects.put(path, content)
    return objects


Verb = Callable[[Catalog], object]
FLAT: dict[str, Verb] = {
    "declare": lambda c: c.declare_table(("new",)),
    "drop": lambda c: c.drop_table(("t",)),
    "deregister": lambda c: c.deregister_table(("t",)),
}
NESTED: dict[str, Verb] = {
    **FLAT,
    "create namespace": lambda c: c.create_namespace(("a", "new"), {"k": "v"}),
    "alter namespace": lambda c: c.alter_namespace(("a",), {"x": "2"}),
    "alter root": lambda c: c.alter_namespace((), {"x": "2"}),
    "drop namespace": lambda c: c.drop_namespace(("empty",)),
    "drop cascade": lambda c: c.drop_namespace(("a",), behavior=DropBehavior.CASCADE),
    "declare child": lambda c: c.declare_table(("a", "new"), {"k": "v"}),
    "declare many": lambda c: c.declare_tables(
        [((f"m{n}",), {"n": str(n)}) for n in range(3)] + [(("a", "m"), {})]
    ),
    "alter table": lambda c: c.alter_table(("t",), {"x": "2"}),
    "rename": lambda c: c.rename_table(("t",), ("v",)),
    "rename into": lambda c: c.rename_table(("t",), ("a", "b", "t")),
    "rename out": lambda c: c.rename_table(("a", "t"), ("v",)),
    "drop child": lambda c: c.drop_table(("a", "t")),
    "register": lambda c: c.register_table(("again",), _left_over(c), {"k": "v"}),
    "register overwrite": lambda c: c.register_table(
        ("u",), _left_over(c), {"k": "v"}, mode=RegisterMode.OVERWRITE
    ),
}
CASES = [("v1", name) for name in FLAT] + [(m, name) for m in ("v2", "compat") for name in NESTED]


def _left_over(catalog: Catalog) -> str:
    """Find the directory of the table that was deregistered."""
    store = catalog.store
    assert isinstance(store, LanceDirStore)
    names = store.objects.list_directory("").directories
    return next(name for name in names if "gone" in name)


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize(("mode", "verb"), CASES)
def test_a_crash_leaves_all_or_nothing(mode: str, verb: str, when: When) -> None:
    do = NESTED[verb]
    before = seen(catalog_on(furnished(mode), mode))
    whole = furnished(mode)
    do(catalog_on(whole, mode))
    after = seen(catalog_on(whole, mode))
    assert before != after

    for n in itertools.count(1):
        disk = furnished(mode)
        fragile = Fragile(disk, n, when)
        try:
            do(catalog_on(fragile, mode))
        except Crash:
            if when is When.TORN and not fragile.tore:
                continue  # A call that cannot be torn: the other moment covers it.
            found = seen(catalog_on(disk, mode))
            assert found in (before, after), f"call {n} of {verb}"
            if found == before:
                do(catalog_on(disk, mode))
            else:
                with_retry(do, catalog_on(disk, mode))
            assert seen(catalog_on(disk, mode)) == after
        else:
            assert seen(catalog_on(disk, mode)) == after
            return


def with_retry(do: Verb, catalog: Catalog) -> None:
    """Repeat what is done already: it succeeds again, or says that it is done."""
    with contextlib.suppress(NotFoundError, AlreadyExistsError, InvalidInputError, StopIteration):
        do(catalog)


@pytest.mark.parametrize(("mode", "verb"), [case for case in CASES if case[0] != "v1"])
def test_a_lost_reply_is_recognised(mode: str, verb: str) -> None:
    do = NESTED[verb]
    whole = furnished(mode)
    do(catalog_on(whole, mode))
    after = seen(catalog_on(whole, mode))
    before = seen(catalog_on(furnished(mode), mode))
    for n in itertools.count(1):
        disk = furnished(mode)
        flaky = LosesReplies(disk, n)
        client = catalog_on(flaky, mode)  # type: ignore[arg-type]  # the rest by __getattr__
        try:
            do(client)
        except ServiceUnavailableError:
            # Nothing was made: what was lost came before the commit, and it says so.
            assert seen(catalog_on(disk, mode)) == before
            do(catalog_on(disk, mode))
        assert seen(catalog_on(disk, mode)) == after
        if flaky.writes < n:
            return


def test_markers_on_their_way_are_taken_back_too() -> None:
    disk = furnished("compat")
    before = {found.path for found in disk.list("")}
    flaky = FailsEarly(disk)
    client = catalog_on(flaky, "compat")  # type: ignore[arg-type]  # the rest by __getattr__
    with pytest.raises(ServiceUnavailableError):
        client.declare_tables([((f"m{n}",), {}) for n in range(40)])
    for _ in range(40):
        assert flaky.arrived.acquire(timeout=60)
    assert {found.path for found in disk.list("")} == before


def test_the_same_client_goes_on_after_a_fault() -> None:
    disk = furnished("compat")
    for n in itertools.count(1):
        client = catalog_on(LosesReplies(disk, n), "compat")  # type: ignore[arg-type]
        flaky = client.store.objects  # type: ignore[attr-defined]
        for verb in (
            lambda client=client, n=n: client.declare_table((f"t{n}",)),
            lambda client=client, n=n: client.create_namespace((f"n{n}",)),
        ):
            try:
                verb()
            except ServiceUnavailableError:
                verb()
        assert isinstance(client.table((f"t{n}",)), Table)
        assert isinstance(client.store.read().get((f"n{n}",)), Namespace)
        if flaky.writes < n:
            break
    found = seen(catalog_on(disk, "compat"))
    assert all((f"t{k}",) in found and (f"n{k}",) in found for k in range(1, n + 1))


def test_a_reservation_left_by_a_crash_is_no_table() -> None:
    for n in itertools.count(1):
        disk = RemoteObjects(MemoryStore())
        with pytest.raises(Crash):
            catalog_on(Fragile(disk, n, When.AFTER), "compat").declare_table(("t",))
        if disk.exists("t.lance/.lance-reserved"):
            break

    again = catalog_on(disk, "compat")
    assert again.list_tables().items == []
    with pytest.raises(NotFoundError):
        again.table(("t",))
    assert again.declare_table(("t",)).location == "t.lance"
    assert catalog_on(disk, "v1").list_tables().items == ["t"]
