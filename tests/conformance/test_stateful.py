"""A machine invents histories: every store must tell the same story as the memory store."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from lance_namespace import LanceNamespaceError

from lakeroot.catalog import Catalog
from lakeroot.model.errors import UnsupportedOperationError
from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.directory import DirectoryNamespace
from lakeroot.objects import parse_root
from lakeroot.storage.memory import MemoryStore
from tests.asking import Lake

THOROUGH = os.environ.get("LAKEROOT_TESTS") == "thorough"
SETTINGS = settings(
    max_examples=400 if THOROUGH else 25,
    stateful_step_count=80 if THOROUGH else 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
MODES: dict[str, dict[str, str]] = {
    "dir-v1": {"manifest_enabled": "false"},
    "dir-v2": {"dir_listing_enabled": "false"},
    "dir-compat": {},
}
# Few names, so that most verbs meet something that is there.
SOME_NAMES = st.sampled_from(["a", "b"])
NAMESPACES = st.lists(SOME_NAMES, min_size=1, max_size=2).map(tuple)
TABLES = st.sampled_from(
    [("a",), ("b",), ("t",), ("a", "t"), ("b", "t"), ("a", "b"), ("a", "b", "t")]
)
PROPERTIES = st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2)


class Comparison(RuleBasedStateMachine):
    """Random verbs on the memory store and on another, which must answer alike."""

    mode = "dir-compat"
    writers = 1

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="lakeroot-machine-"))
        memory = MemoryStore(parse_root(str(self.directory / "memory")))
        self.model = Lake(LakerootNamespace(Catalog(memory)))
        self.subjects = [
            Lake(DirectoryNamespace(root=str(self.directory / "lake"), **MODES[self.mode]))
            for _ in range(self.writers)
        ]
        self.is_flat = self.mode == "dir-v1"
        self.turn = 0

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    def both(self, do: Callable[[Lake], Any]) -> None:
        """Do it on both sides; the outcomes must be alike."""
        subject = self.subjects[self.turn % self.writers]
        self.turn += 1
        done = outcome(do, subject)
        if self.is_flat and done == 0:
            return  # It says that it cannot; then the model does not do it either.
        assert done == outcome(do, self.model)

    @rule(names=NAMESPACES, properties=PROPERTIES, mode=st.sampled_from(["Create", "ExistOk"]))
    def create_namespace(self, names: tuple[str, ...], properties: Any, mode: str) -> None:
        self.both(lambda lake: lake.create_namespace(*names, properties=properties, mode=mode))

    @rule(names=NAMESPACES, properties=PROPERTIES)
    def overwrite_namespace(self, names: tuple[str, ...], properties: Any) -> None:
        self.both(
            lambda lake: lake.create_namespace(*names, properties=properties, mode="Overwrite")
        )

    @rule(properties=PROPERTIES)
    def overwrite_root(self, properties: Any) -> None:
        self.both(lambda lake: lake.create_namespace(properties=properties, mode="Overwrite"))

    @rule(
        names=NAMESPACES,
        mode=st.sampled_from(["Fail", "Skip"]),
        behavior=st.sampled_from(["Restrict", "Restrict", "Cascade"]),
    )
    def drop_namespace(self, names: tuple[str, ...], mode: str, behavior: str) -> None:
        self.both(lambda lake: lake.drop_namespace(*names, mode=mode, behavior=behavior))

    @rule(names=TABLES)
    def declare(self, names: tuple[str, ...]) -> None:
        if self.is_flat and names[0] in self.hidden():
            return  # In V1 the name stays with the directory of a table that was deregistered.
        self.both(lambda lake: lake.declare_table(*names))

    @rule(names=TABLES, properties=PROPERTIES)
    def declare_with_properties(self, names: tuple[str, ...], properties: Any) -> None:
        if self.is_flat:
            return
        self.both(lambda lake: lake.declare_table(*names, properties=properties))

    @precondition(lambda self: not self.is_flat)
    @rule(tables=st.lists(TABLES, min_size=2, max_size=4))
    def declare_many(self, tables: list[tuple[str, ...]]) -> None:
        def many(lake: Lake) -> None:
            lake.client.catalog.declare_tables([(names, {}) for names in tables])

        self.both(many)

    @rule(names=TABLES)
    def drop(self, names: tuple[str, ...]) -> None:
        if self.is_flat and names[0] in self.hidden():
            return
        self.both(lambda lake: lake.drop_table(*names))

    @rule(names=TABLES)
    def deregister(self, names: tuple[str, ...]) -> None:
        self.both(lambda lake: lake.deregister_table(*names))

    @rule(names=TABLES, to=SOME_NAMES, into=NAMESPACES)
    def rename(self, names: tuple[str, ...], to: str, into: tuple[str, ...]) -> None:
        self.both(lambda lake: lake.rename_table(*names, to=to, into=list(into)))

    @rule(names=TABLES, to=SOME_NAMES)
    def rename_to_the_root(self, names: tuple[str, ...], to: str) -> None:
        self.both(lambda lake: lake.rename_table(*names, to=to, into=[]))

    @rule(names=TABLES, into=TABLES)
    def register_again(self, names: tuple[str, ...], into: tuple[str, ...]) -> None:
        if self.is_flat:
            return

        def again(lake: Lake) -> None:
            place = lake.deregister_table(*names).location
            assert place is not None
            lake.register_table(*into, location=place)

        self.both(again)

    @rule(which=st.integers(0, 3))
    def reopen(self, which: int) -> None:
        """A new client must see what the old one saw."""
        place = which % self.writers
        root = str(self.directory / "lake")
        self.subjects[place] = Lake(DirectoryNamespace(root=root, **MODES[self.mode]))

    def hidden(self) -> list[str]:
        found = (self.directory / "lake").glob("*.lance/.lance-deregistered")
        return [marker.parent.name.removesuffix(".lance") for marker in found]

    @invariant()
    def they_tell_the_same_story(self) -> None:
        expected = story(self.model)
        for subject in self.subjects:
            assert story(subject) == expected


def outcome(do: Callable[[Lake], Any], lake: Lake) -> int:
    try:
        do(lake)
    except LanceNamespaceError as error:
        return int(error.code)
    except UnsupportedOperationError:
        return 0
    except Exception as error:
        code = getattr(error, "code", None)
        if not isinstance(code, int):
            raise
        return code
    return -1


def story(lake: Lake) -> dict[tuple[str, ...], Any]:
    """Everything that can be asked, asked."""
    told: dict[tuple[str, ...], Any] = {}
    pending: list[tuple[str, ...]] = [()]
    while pending:
        names = pending.pop()
        told[names] = lake.describe_namespace(*names)
        pending += [(*names, name) for name in lake.namespaces(*names)]
        for name in lake.tables(*names):
            told[(*names, name)] = dict(lake.client.catalog.table((*names, name)).properties)
    told[("*",)] = lake.list_all_tables().tables
    return told


def machine(of_mode: str, how_many: int) -> Any:
    class Machine(Comparison):
        mode = of_mode
        writers = how_many

    Machine.TestCase.settings = SETTINGS
    return Machine.TestCase


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("writers", [1, 2])
def test_every_history_is_told_alike(mode: str, writers: int) -> None:
    machine(mode, writers)("runTest").runTest()
