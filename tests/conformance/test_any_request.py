"""Requests that a machine invents for every operation: an answer or a refusal, never a defect.

A strategy is made of each request model of the specification, by its fields and their types, so a
new field is tried as soon as there is one. `LAKEROOT_TESTS=thorough` tries many more.
"""

import contextlib
import os
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import lance_namespace as spec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance_namespace import LanceNamespaceError

from lakeroot.namespace.base import LakerootNamespace
from lakeroot.namespace.directory import DirectoryNamespace
from lakeroot.server.lance.routes import ROUTES, Body
from tests.asking import ROWS, Lake, arrow_stream
from tests.conformance.stores import STORES, Place

THOROUGH = os.environ.get("LAKEROOT_TESTS") == "thorough"
EXAMPLES = 60 if THOROUGH else 4
DIRECTORIES: Final = ["dir-compat", "dir-managed"]
OTHERS: Final = ["dir-v1", "metastore", "metastore-deltacat-2", "iceberg"]
OPERATIONS: Final = {route.operation: route for route in ROUTES}
# Words that mean something somewhere, beside any text at all.
WORDS: Final = st.sampled_from(
    ["t", "a", "id", "name", "main", "id = 1", "id + 1", "x", "Create", "Overwrite", "ExistOk",
     "append", "overwrite", "Cascade", "Skip", "BTREE", "IVF_PQ", "FTS", "int64", "l2", "cosine",
     "1", "", "_versions/1.manifest", "../x", "null", "NULL", "SELECT 1", "count(*)", "`"]
)  # fmt: skip
TEXTS = st.one_of(WORDS, WORDS, st.text(max_size=8))
NUMBERS = st.one_of(st.integers(-2, 5), st.sampled_from([2**31, 2**63 - 1, 2**63, 2**70, -(2**63)]))
FLOATS = st.one_of(st.floats(allow_nan=True), st.floats(0, 1))
IDS = st.one_of(
    st.sampled_from([["t"], ["t"], ["a", "t"], ["a"], [], ["none"], ["a", "none"], ["m"]]),
    st.lists(TEXTS, max_size=3),
)


def values(annotation: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Make values of a type as the models write it."""
    origin, given_ = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return values(given_[0], depth)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(values(one, depth) for one in given_))
    if origin is list:
        return st.lists(values(given_[0], depth + 1), max_size=3)
    if origin is dict:
        return st.dictionaries(TEXTS, values(given_[1], depth + 1), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return fields(annotation, depth + 1)
    plain: dict[Any, st.SearchStrategy[Any]] = {
        type(None): st.none(), bool: st.booleans(), int: NUMBERS, float: FLOATS, str: TEXTS,
        bytes: st.binary(max_size=8),
    }  # fmt: skip
    for kind, strategy in plain.items():
        if isinstance(annotation, type) and issubclass(annotation, kind):
            return strategy
    return st.one_of(TEXTS, NUMBERS, st.none())


def fields(model: type[pydantic.BaseModel], depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    """Make the fields of a model, all that are required and some that are not."""
    if depth > 4:
        return st.just({})
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in model.model_fields.items():
        into = required if field.is_required() else optional
        into[field.alias or name] = IDS if name == "id" else values(field.annotation, depth)
    if "id" in optional:
        required["id"] = optional.pop("id")
    return st.fixed_dictionaries(required, optional=optional)


@pytest.fixture
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakerootNamespace]:
    """A catalog with a few things in it; the requests may change and drop them."""
    if request.param == "dir-managed":
        root = str(tmp_path / "lake")
        found: Any = DirectoryNamespace(root=root, table_version_management="true")
    else:
        own = Place(
            tmp_path,
            s3=lambda: request.getfixturevalue("s3"),
            iceberg=lambda: request.getfixturevalue("own_catalog"),
        )
        found = STORES[request.param](own)
    furnish(found)
    yield found
    found.close()


def furnish(namespace: LakerootNamespace) -> None:
    """Make what most requests name, where it is not there any more."""
    lake = Lake(namespace)
    lake.create_table("t", rows=ROWS, mode="ExistOk")
    with contextlib.suppress(spec.UnsupportedOperationError):  # without a manifest
        lake.create_namespace("a", mode="ExistOk")
        lake.create_table("a", "t", rows=ROWS, mode="ExistOk")


def answered(call: Callable[[], Any]) -> None:
    """Expect an answer, or a refusal in the words of the specification."""
    try:
        call()
    except LanceNamespaceError as error:
        if isinstance(error, spec.InternalError):
            raise


def ask(catalog: LakerootNamespace, operation: str, data: st.DataObject) -> None:
    """Make a request of an operation, and make what it took away again."""
    route = OPERATIONS[operation]
    request = data.draw(fields(route.request))
    call = getattr(catalog, operation)
    if route.body is Body.ARROW:
        body = data.draw(st.one_of(st.just(arrow_stream()), st.binary(max_size=20)))
        answered(lambda: call(request, body))
    else:
        answered(lambda: call(request))
    answered(lambda: furnish(catalog))


SLOWLY: Final = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
]


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
@pytest.mark.parametrize("catalog", [*DIRECTORIES, *(OTHERS if THOROUGH else [])], indirect=True)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SLOWLY)
@given(data=st.data())
def test_any_request_is_answered_or_refused(
    catalog: LakerootNamespace, operation: str, data: st.DataObject
) -> None:
    ask(catalog, operation, data)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("catalog", OTHERS, indirect=True)
@settings(max_examples=2, deadline=None, suppress_health_check=SLOWLY)
@given(data=st.data())
def test_any_request_is_answered_or_refused_by_the_other_catalogs(
    catalog: LakerootNamespace, part: int, data: st.DataObject
) -> None:
    for operation in sorted(OPERATIONS)[part::4]:
        ask(catalog, operation, data)
