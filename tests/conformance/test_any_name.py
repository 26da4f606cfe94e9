"""Names that a machine invents, of every Unicode category: no defect, no way out, no two alike.

A few hundred here; `LAKEROOT_TESTS=thorough` tries 10,000 on each catalog.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance_namespace as spec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lance_namespace import LanceNamespaceError

from lakeroot.model.identifiers import problem_with_name
from lakeroot.namespace.base import LakerootNamespace
from tests.asking import Lake
from tests.conformance.stores import STORES, Place

THOROUGH = os.environ.get("LAKEROOT_TESTS") == "thorough"
EXAMPLES = 10_000 if THOROUGH else 40
CATALOGS = ["memory", "dir-v1", "dir-v2", "dir-compat", "metastore", "metastore-deltacat-2"]
CATEGORIES = (
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn",
)  # fmt: skip
OF_ONE_CATEGORY = st.sampled_from(CATEGORIES).flatmap(
    lambda category: st.text(st.characters(categories=(category,)), min_size=1, max_size=6)  # type: ignore[arg-type]
)
PATHS = st.sampled_from(
    ["..", ".", "../x", "/x", "a/../../x", "..\\x", "~", "%2e%2e", "%2e%2e%2fx", "a\0b", "C:\\x",
     "file:///x", "s3://b/x", "$", "a$b", "", " ", "con", "nul", ".lance-deregistered",
     "__manifest", "x.lance", "_versions", "_lance", "txn", "data", "x" * 255, "x" * 256, "é" * 128]
)  # fmt: skip
NAMES = st.one_of(OF_ONE_CATEGORY, PATHS, st.text(max_size=12))
# Names that some file system or some careless comparison takes for one another.
ALIKE = st.sampled_from(
    [
        ("a", "A"),
        ("\u00e9", "e\u0301"),
        ("\u00df", "ss"),
        ("\ufb01", "fi"),
        ("K", "\u212a"),
        ("a", "a "),
        ("a", "a."),
        ("a", " a"),
        ("\u0131", "i"),
        ("a", "a\u200b"),
        ("1", "\u0661"),
        ("a", "\u0430"),
        ("x", "x.lance"),
    ]
)


@pytest.fixture(params=CATALOGS)
def catalog(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path, LakerootNamespace]]:
    """An empty catalog in a directory of its own, below one that nothing may touch."""
    directory = Path(tempfile.mkdtemp(prefix="lakeroot-names-"))
    unused: Callable[[], Any] = lambda: None  # noqa: E731
    namespace = STORES[request.param](Place(directory / "inside", s3=unused, iceberg=unused))
    try:
        yield request.param, directory, namespace
    finally:
        shutil.rmtree(directory)


def outcome(call: Callable[[], Any]) -> int:
    """Give -1 or the code of a refusal; a defect of ours is none."""
    try:
        call()
    except LanceNamespaceError as error:
        if int(error.code) in (17, 18):
            raise
        return int(error.code)
    return -1


LIMITED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@LIMITED
@example(name="\ud800")
@given(name=NAMES)
def test_any_name_works_or_is_refused_and_leads_nowhere_else(
    catalog: tuple[str, Path, LakerootNamespace], name: str
) -> None:
    kind, directory, namespace = catalog
    lake = Lake(namespace)
    before = set(lake.tables())
    done = outcome(lambda: lake.declare_table(name))
    is_bad = problem_with_name(name) is not None
    if is_bad:
        assert done == 13
    if done == -1:
        assert set(lake.tables()) == before | {name}
        assert lake.table_exists(name)
        assert name in lake.list_all_tables().tables
        lake.drop_table(name)
    assert set(lake.tables()) == before
    if kind != "dir-v1":
        # The prefix `lakeroot.` is not anybody's: with a letter before it, every name is a key.
        made = outcome(lambda: lake.create_namespace(name, properties={f"k{name}": name}))
        assert (made == 13) == is_bad or made == 0
        if made == -1:
            assert lake.describe_namespace(name) == {f"k{name}": name}
            inner = outcome(lambda: lake.declare_table(name, name))
            assert inner == -1, inner
            assert lake.tables(name) == [name]
            lake.drop_table(name, name)
            lake.drop_namespace(name)
    for call in (
        lambda: lake.describe_table(name),
        lambda: lake.drop_table(name, name),
        lambda: lake.rename_table(name, to=name),
        lambda: lake.register_table("t", location=name),
        lambda: lake.list_tables(name),
    ):
        assert outcome(call) != -1
    outcome(lambda: lake.client.list_tables(spec.ListTablesRequest(id=[], page_token=name)))
    assert {path.name for path in directory.iterdir()} <= {"inside"}


@LIMITED
@given(pair=st.one_of(ALIKE, st.tuples(NAMES, NAMES)))
def test_two_names_that_differ_are_two_tables(
    catalog: tuple[str, Path, LakerootNamespace], pair: tuple[str, str]
) -> None:
    _, _, namespace = catalog
    lake = Lake(namespace)
    one, two = pair
    if one == two:
        return
    if outcome(lambda: lake.declare_table(one)) != -1:
        return
    try:
        assert not lake.table_exists(two) if problem_with_name(two) is None else True
        if outcome(lambda: lake.declare_table(two)) == -1:
            assert lake.tables() == sorted([one, two])
            places = {str(lake.describe_table(name).location) for name in pair}
            assert len(places) == 2
            lake.drop_table(two)
        assert lake.tables() == [one]
        assert lake.table_exists(one)
    finally:
        lake.drop_table(one)
